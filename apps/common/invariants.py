"""Checking promises on live data: what a check is, what it finds, and the look at all of them.

Each look is one statement, so it sees one instant of the database however many write meanwhile.
What is found is told only if a second look, a moment later, finds it still: clocks of machines
differ, and a sweep may be just about to do its work.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from django.db import connection, models
from django.utils.functional import Promise

from apps.common.db import fetch, table

# Found of one kind in one look; what is beyond that is "more".
MAX_FOUND = 1000
# Told of each invariant.
MAX_TOLD = 20
# Newest rows and entries that are held against each other.
RECENT = 20_000
# By how much times written by two processes may be out of order: their clocks are put right by
# the database every ten seconds, and a thread may be kept waiting between reading one and writing.
APART_SECONDS = 5
# Between finding something and looking again.
AGAIN_AFTER_SECONDS = 1.0

Words = str | Promise


@dataclass(frozen=True, slots=True)
class Breach:
    """A promise that some row does not keep: which, of what, and how it shows."""

    invariant: str
    subject: str
    text: str

    def __str__(self) -> str:
        return f"{self.invariant} {self.subject}: {self.text}"

    @property
    def identity(self) -> tuple[str, str]:
        return (self.invariant, self.subject)


@dataclass(frozen=True, slots=True)
class Looked:
    """One look: how many rows it saw, and the breaches, not all of them if `cut`."""

    rows: int
    breaches: Sequence[Breach] = ()
    cut: bool = False


@dataclass(frozen=True, slots=True)
class Check:
    """One look at some rows. `recent`: at the newest ones only, as many as it is told."""

    name: str
    invariants: tuple[str, ...]
    title: Words
    look: Callable[[int], Looked]
    recent: bool = False


@dataclass(frozen=True, slots=True)
class Checked:
    """A check with what came of it, and the seconds that its first look took."""

    check: Check
    rows: int
    seconds: float
    breaches: Sequence[Breach]
    cut: bool

    def told(self) -> Iterator[tuple[str, list[Breach], int]]:
        """Each broken invariant with its first breaches and the number of those beyond them."""
        for name in sorted({breach.invariant for breach in self.breaches}, key=_number):
            mine = [breach for breach in self.breaches if breach.invariant == name]
            yield name, mine[:MAX_TOLD], max(0, len(mine) - MAX_TOLD)


def _number(invariant: str) -> tuple[int, str]:
    return (int(invariant[1:]) if invariant[1:].isdigit() else 0, invariant)


def audit(checks: Iterable[Check], *, recent: int = RECENT) -> list[Checked]:
    """Carry out the checks; those that find anything look again after a moment."""
    done = [_carry_out(check, recent) for check in checks]
    if any(each.breaches for each in done):
        time.sleep(AGAIN_AFTER_SECONDS)
    return [_confirmed(each, recent) if each.breaches else each for each in done]


def _carry_out(check: Check, recent: int) -> Checked:
    begun = time.monotonic()
    looked = check.look(recent)
    return Checked(check, looked.rows, time.monotonic() - begun, tuple(looked.breaches), looked.cut)


def _confirmed(first: Checked, recent: int) -> Checked:
    again = first.check.look(recent)
    known = {breach.identity for breach in first.breaches}
    still = tuple(breach for breach in again.breaches if breach.identity in known)
    return Checked(first.check, first.rows, first.seconds, still, bool(still) and again.cut)


# --- rows that must hold by themselves ----------------------------------------------------------
@dataclass(frozen=True, slots=True)
class RowRule:
    """What no row of a table may be: SQL over its columns, and the words for one that is.

    The words may name columns: `%(status)s`. `parameters` are those of the condition.
    """

    invariant: str
    broken: str
    words: Words
    columns: tuple[str, ...] = ()
    parameters: tuple[Any, ...] = ()


def look_at_rows(model: type[models.Model], rules: Sequence[RowRule], noun: str) -> Looked:
    """Hold every row against the rules: one pass counts, and only what is broken is read.

    The pass reads the whole table once, and no rule costs more than its share of it.
    """
    sums = ", ".join(f"SUM(CASE WHEN {rule.broken} THEN 1 ELSE 0 END)" for rule in rules)
    parameters = [each for rule in rules for each in rule.parameters]
    [(rows, *counts)] = fetch(f"SELECT COUNT(*), {sums} FROM {table(model)}", parameters)
    breaches: list[Breach] = []
    for rule, count in zip(rules, counts, strict=True):
        if count:
            breaches += _broken(model, rule, noun)
    return Looked(rows, breaches, any((count or 0) > MAX_FOUND for count in counts))


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


def say(words: Words, values: Mapping[str, Any]) -> str:
    """The words with the values in their places."""
    return str(words) % values if values else str(words)


def seconds_from(earlier: str, later: str) -> str:
    """The SQL for whole seconds between two times, each a column or a quoted time."""
    if connection.vendor == "mysql":
        return f"TIMESTAMPDIFF(SECOND, {earlier}, {later})"
    return f"(strftime('%%s', {later}) - strftime('%%s', {earlier}))"
