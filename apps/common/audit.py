"""The audit: checks of invariants on live data, which only read.

Each check is few statements, mostly one, so it sees one instant while others write. A breach is
reported only if the check finds it again a moment later: clocks of machines differ, and a sweep may
be about to do its work.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, TypeVar

from django.db import connection, models
from django.utils.functional import Promise

from apps.common.db import fetch, table

# Breaches of one kind that a check reads; further ones are "more".
MAX_FOUND = 1000
# Breaches of one invariant that are reported.
MAX_REPORTED = 20
# Newest rows and entries that are compared with each other.
RECENT = 20_000
# How far times written by two processes may be out of order: their clocks are corrected by the
# database every ten seconds, and a thread may wait between reading the clock and writing.
APART = timedelta(seconds=5)
# Between finding something and checking again.
AGAIN_AFTER_SECONDS = 1.0

Words = str | Promise
Line = TypeVar("Line", bound=str)


@dataclass(frozen=True, slots=True)
class Breach:
    """A row that breaks an invariant, with the values that show it."""

    invariant: str
    subject: str
    text: str

    def __str__(self) -> str:
        return self.told(str.format, self.subject)

    def told(self, form: Callable[..., Line], subject: object) -> Line:
        """The breach in one line by a function such as `str.format` or `format_html`, with this in
        place of the subject: a link to it."""
        return form("{} {}: {}", self.invariant, subject, self.text)

    @property
    def identity(self) -> tuple[str, str]:
        return (self.invariant, self.subject)


@dataclass(frozen=True, slots=True)
class CheckResult:
    """The number of rows read, and the breaches, not all of them if `cut`.

    `nothing`: why no row could be read yet.
    """

    rows: int
    breaches: Sequence[Breach] = ()
    cut: bool = False
    nothing: str = ""


@dataclass(frozen=True, slots=True)
class Check:
    """A check of invariants; `title` is the sentence that holds. `recent`: of the newest rows only,
    whose number is the argument of `run`."""

    name: str
    invariants: tuple[str, ...]
    title: Words
    run: Callable[[int], CheckResult]
    recent: bool = False


@dataclass(frozen=True, slots=True)
class Checked:
    """A check with its result, and the seconds of its first run."""

    check: Check
    rows: int
    seconds: float
    breaches: Sequence[Breach]
    cut: bool
    nothing: str = ""

    def by_invariant(self) -> Iterator[tuple[str, list[Breach], int]]:
        """Each broken invariant with its first breaches and the number of further ones."""
        for name in sorted({breach.invariant for breach in self.breaches}, key=_number):
            mine = [breach for breach in self.breaches if breach.invariant == name]
            yield name, mine[:MAX_REPORTED], max(0, len(mine) - MAX_REPORTED)


def _number(invariant: str) -> tuple[int, str]:
    return (int(invariant[1:]) if invariant[1:].isdigit() else 0, invariant)


def audit(checks: Iterable[Check], *, recent: int = RECENT) -> list[Checked]:
    """Run the checks; those that find something run again after a moment."""
    done = [_run(check, recent) for check in checks]
    if any(each.breaches for each in done):
        time.sleep(AGAIN_AFTER_SECONDS)
    return [_confirmed(each, recent) if each.breaches else each for each in done]


def _run(check: Check, recent: int) -> Checked:
    begun = time.monotonic()
    found = check.run(recent)
    seconds = time.monotonic() - begun
    return Checked(check, found.rows, seconds, tuple(found.breaches), found.cut, found.nothing)


def _confirmed(first: Checked, recent: int) -> Checked:
    again = first.check.run(recent)
    known = {breach.identity for breach in first.breaches}
    still = tuple(breach for breach in again.breaches if breach.identity in known)
    return Checked(first.check, first.rows, first.seconds, still, bool(still) and again.cut)


# --- rules of single rows -------------------------------------------------------------------------
@dataclass(frozen=True, slots=True)
class RowRule:
    """A condition in SQL that no row may meet, and the message about a row that does.

    The message may name columns: `%(status)s`. `parameters` are those of the condition.
    """

    invariant: str
    broken: str
    words: Words
    columns: tuple[str, ...] = ()
    parameters: tuple[Any, ...] = ()


def check_rows(model: type[models.Model], rules: Sequence[RowRule], noun: str) -> CheckResult:
    """Check every row against the rules.

    One pass over the table counts the rows that break each rule; only those are then read.
    """
    sums = ", ".join(f"SUM(CASE WHEN {rule.broken} THEN 1 ELSE 0 END)" for rule in rules)
    parameters = [each for rule in rules for each in rule.parameters]
    [(rows, *counts)] = fetch(f"SELECT COUNT(*), {sums} FROM {table(model)}", parameters)
    breaches: list[Breach] = []
    for rule, count in zip(rules, counts, strict=True):
        if count:
            breaches += _broken(model, rule, noun)
    return CheckResult(rows, breaches, any((count or 0) > MAX_FOUND for count in counts))


def _broken(model: type[models.Model], rule: RowRule, noun: str) -> list[Breach]:
    key = str(model._meta.pk.column)
    columns = ", ".join([key, *rule.columns])
    rows = fetch(
        f"SELECT {columns} FROM {table(model)} WHERE {rule.broken} "
        f"ORDER BY {key} LIMIT {MAX_FOUND}",
        rule.parameters,
    )
    return [
        Breach(
            rule.invariant,
            f"{noun} {number}",
            say(rule.words, dict(zip(rule.columns, values, strict=True))),
        )
        for number, *values in rows
    ]


def count_of(model: type[models.Model], limit: int | None = None) -> int:
    """The number of rows, up to `limit`."""
    rows = table(model) if limit is None else f"(SELECT 1 FROM {table(model)} LIMIT {limit:d}) r"
    return int(fetch(f"SELECT COUNT(*) FROM {rows}")[0][0])


def say(words: Words, values: Mapping[str, Any]) -> str:
    """The message with the values filled in."""
    return str(words) % values if values else str(words)


def seconds_from(earlier: str, later: str) -> str:
    """The SQL for whole seconds between two times, each a column or a quoted time."""
    if connection.vendor == "mysql":
        return f"TIMESTAMPDIFF(SECOND, {earlier}, {later})"
    return f"(strftime('%%s', {later}) - strftime('%%s', {earlier}))"
