"""Problems: one row for each cause, a trouble or an error that made work fail for
good.

An alert that jobs of a type fail, or the watch itself, joins the error that makes most of the
failures.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from datetime import datetime
from typing import NamedTuple

from apps.common import clock
from apps.reports.models import Problem
from apps.reports.services import problems
from apps.reports.services.causes import Cause, causes, causes_by_key
from apps.reports.services.problems import ERROR
from apps.reports.watches.jobs import FAILURE_RATE
from apps.reports.watches.troubles import Trouble, View, VisibleTroubles, visible_troubles

# Further errors, those with fewer failures, are only on the page of failures.
MAX_CAUSES = 200
NEW, SEEN, SNOOZED, SOLVED = Problem.State
Name = tuple[str, str]


class ProblemRow(NamedTuple):
    """A problem: its trouble, its error or both, its state, and the last remark of somebody; if it
    `is_back`, the remark says who had solved it, and when."""

    trouble: Trouble | None
    cause: Cause | None
    state: str = NEW
    remark: Problem | None = None

    @property
    def kind(self) -> str:
        return ERROR if self.trouble is None else self.trouble.kind

    @property
    def key(self) -> str:
        if self.trouble is not None:
            return self.trouble.key
        return "" if self.cause is None else self.cause.key

    @property
    def name(self) -> str:
        """`paused job_type:mail`."""
        return f"{self.kind} {self.key}"

    @property
    def title(self) -> str:
        """The error or the sentence of the trouble, not translated yet."""
        if self.cause is not None:
            return self.cause.newest.sample
        return "" if self.trouble is None else self.trouble.read.text

    @property
    def is_open(self) -> bool:
        return self.state in (NEW, SEEN)

    @property
    def is_back(self) -> bool:
        return self.remark is not None and self.remark.state == NEW

    @property
    def counts(self) -> tuple[int, ...]:
        """How often work failed for good; empty where nothing is counted."""
        return () if self.cause is None else self.cause.counts

    @property
    def last(self) -> datetime | None:
        """When the error was last seen, or since when the trouble has lasted."""
        if self.cause is not None:
            return self.cause.last_seen
        return None if self.trouble is None else self.trouble.read.since

    @property
    def until(self) -> datetime | None:
        """The end of the snooze; None while the problem is not snoozed."""
        if self.state != SNOOZED:
            return None
        if self.trouble is not None:
            return self.trouble.snoozed_until
        return None if self.remark is None else self.remark.until


class ProblemRows(NamedTuple):
    """The rows that somebody sees, the worst first, and how many errors are left out."""

    rows: list[ProblemRow]
    more: int

    def find(self, name: str) -> ProblemRow | None:
        return next((row for row in self.rows if row.name == name), None)


def problem_rows(view: View, failing: Callable[[Collection[Name]], set[Name]]) -> ProblemRows:
    """The problems that somebody sees: the troubles, and of errors the parts of the job types and
    tasks, each after its source, that are `failing` for them."""
    found = visible_troubles(view)
    current, solved = causes(), problems.solved()
    missing = {row.key for row in solved} - {cause.key for cause in current}
    known = [*current, *(causes_by_key(missing) if missing else [])]
    mine = failing({(part.source, part.type_or_task) for each in known for part in each.parts})
    seen = [part for each in known if (part := each.only(lambda *name: name in mine)) is not None]
    seen.sort(key=lambda each: (each.counts[::-1], each.last_seen), reverse=True)
    remarks = {(row.kind, row.key): row for row in solved}
    remarks |= problems.by_name((ERROR, each.key) for each in seen[:MAX_CAUSES])
    rows = [*_rows(found, seen[:MAX_CAUSES], remarks)]
    return ProblemRows(rows, len(seen[MAX_CAUSES:]))


def _rows(
    found: VisibleTroubles, seen: Sequence[Cause], remarks: dict[Name, Problem]
) -> Iterable[ProblemRow]:
    left = {each.key: each for each in seen}
    now = clock.now()
    for trouble in (*found.open, *found.snoozed):
        cause = _cause_of(trouble, left.values())
        of_cause = None if cause is None else remarks.get((ERROR, left.pop(cause.key).key))
        if trouble.snoozed_until is not None:
            yield ProblemRow(trouble, cause, SNOOZED, trouble.remark)
        else:
            last = trouble.remark or _still(of_cause, now)
            is_seen = last is not None and last.state in (SEEN, SOLVED)
            yield ProblemRow(trouble, cause, SEEN if is_seen else NEW, last)
    for cause in left.values():
        last = _still(remarks.get((ERROR, cause.key)), now)
        yield ProblemRow(None, cause, NEW if last is None else last.state, last)


def _still(remark: Problem | None, now: datetime) -> Problem | None:
    """The remark of somebody, unless its time is over."""
    if remark is None or remark.state != SNOOZED:
        return remark
    return remark if remark.until is not None and now < remark.until else None


def _cause_of(trouble: Trouble, among: Iterable[Cause]) -> Cause | None:
    """The error behind most of the failures that the trouble is about; None if it is about none."""
    about = [(trouble.kind, trouble.key), *trouble.read.instead]
    types = [key.partition(":")[2] for kind, key in about if kind == FAILURE_RATE.key]
    if not types:
        return None
    counted = [(each.lately(types[0]), each) for each in among]
    return max((pair for pair in counted if any(pair[0])), default=(None, None), key=_count)[1]


def _count(pair: tuple[tuple[int, ...] | None, Cause | None]) -> tuple[int, ...]:
    return pair[0] or ()
