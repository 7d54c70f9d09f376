"""What became of the demo's jobs so far, read from the table and the journal."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

from django.db.models import Count

from apps.common import clock, ids
from apps.jobs.models import Job
from apps.jobs.rules import transitions as t
from apps.journal.models import JournalEntry, Source
from taskplatform.demo.job_types import FAILING, NAMES
from taskplatform.demo.outcome import Check
from taskplatform.demo.table import Column

COLUMNS = (
    Column("Type", 16),
    Column("Waiting", 7, "right"),
    Column("Running", 7, "right"),
    Column("Done", 6, "right"),
    Column("Failed", 6, "right"),
    Column("Retried", 7, "right"),
    Column("Wait p50", 8, "right"),
    Column("p95", 7, "right"),
    Column("Run p50", 7, "right"),
    Column("p95", 7, "right"),
)
# Ids are given before the commit, so an entry may appear below others.
LATE = timedelta(seconds=5)
# Ends that are no attempt's own, because the worker gave the job back or went away.
_UNCOUNTED = (t.END_RELEASED,)
_LOOK = 1000


@dataclass
class Figures:
    """Of one type: jobs by status, and what the journal tells of its attempts."""

    statuses: Counter[str] = field(default_factory=Counter)
    waits: list[int] = field(default_factory=list)
    runs: list[int] = field(default_factory=list)
    retried: int = 0

    @property
    def open(self) -> int:
        return sum(self.statuses[status] for status in t.OPEN)

    def cells(self, name: str) -> list[str]:
        """A row of the table, in the order of COLUMNS."""
        return [
            name,
            f"{self.statuses[t.READY] + self.statuses[t.SCHEDULED]:,}",
            f"{self.statuses[t.RUNNING]:,}",
            f"{self.statuses[t.SUCCEEDED]:,}",
            f"{self.statuses[t.FAILED] + self.statuses[t.CANCELLED]:,}",
            f"{self.retried:,}",
            _shown(percentile(self.waits, 50)),
            _shown(percentile(self.waits, 95)),
            _shown(percentile(self.runs, 50)),
            _shown(percentile(self.runs, 95)),
        ]


class Run:
    """The jobs of one run, known by their trace id; `look` reads only what is new."""

    def __init__(self, numbers: Sequence[int], trace_id: str) -> None:
        self.numbers = numbers
        self.figures = {name: Figures() for name in NAMES}
        self._trace_id = trace_id
        self._first, self._last = min(numbers), max(numbers)
        self._seen: set[int] = set()
        self._read_from = self._first

    @property
    def open(self) -> int:
        return sum(figures.open for figures in self.figures.values())

    @property
    def ended(self) -> int:
        return sum(figures.statuses.total() for figures in self.figures.values()) - self.open

    def look(self) -> None:
        """Bring the figures up to now."""
        for figures in self.figures.values():
            figures.statuses.clear()
        counted = self._jobs().values_list("type", "status").annotate(Count("pk")).order_by()
        for name, status, count in counted:
            self.figures[name].statuses[status] = count
        self._read_journal()

    def checks(self) -> list[Check]:
        """What jobs promise, held against all rows of the run and all that the journal tells."""
        rows = {
            pk: (name, status, attempts, most)
            for pk, name, status, attempts, most in self._jobs().values_list(
                "pk", "type", "status", "attempts", "max_attempts"
            )
        }
        ends = self._ends()
        return [
            Check("nothing is lost", self._lost(rows)),
            Check("every job has ended", _by_status(rows, t.OPEN)),
            Check("each failing job failed after exactly its attempts", _failing(rows, ends)),
            Check("every other job succeeded", _others(rows)),
            Check("none ran again after it had ended", _again(ends)),
            Check("the journal tells of each attempt that was counted", _untold(rows, ends)),
        ]

    def _jobs(self) -> Any:
        within = Job.objects.filter(pk__gte=self._first, pk__lte=self._last)
        return within.filter(trace_id=self._trace_id)

    def _entries(self) -> Any:
        told = JournalEntry.objects.filter(source=Source.JOB, trace_id=self._trace_id)
        return told.order_by("pk")

    def _read_journal(self) -> None:
        now = clock.now()
        new = self._entries().filter(pk__gte=self._read_from)
        for pk, name, event, after, wait, run in new.values_list(
            "pk", "type_or_task", "event", "to_state", "wait_ms", "run_ms"
        ).iterator(_LOOK):
            if pk in self._seen or wait is None or event in _UNCOUNTED:
                continue
            self._seen.add(pk)
            figures = self.figures[name]
            figures.waits.append(wait)
            figures.runs.append(run)
            figures.retried += after in t.WAITING
        self._read_from = max(self._first, ids.lowest_id_at(now - LATE))

    def _ends(self) -> Mapping[int, list[tuple[str, str]]]:
        """Of each job the events and states after them, oldest first."""
        ends: dict[int, list[tuple[str, str]]] = defaultdict(list)
        told = self._entries().filter(pk__gte=self._first)
        for job, event, after in told.values_list("subject_id", "event", "to_state").iterator(
            _LOOK
        ):
            ends[job].append((event, after))
        return ends

    def _lost(self, rows: Mapping[int, Any]) -> list[str]:
        missing = [number for number in self.numbers if number not in rows]
        return [f"job {number} is not in the table any more" for number in missing]


Rows = Mapping[int, tuple[str, str, int, int]]
Ends = Mapping[int, list[tuple[str, str]]]


def _by_status(rows: Rows, statuses: Sequence[str]) -> list[str]:
    return [
        f"{name} {pk} is {status}" for pk, (name, status, *_) in rows.items() if status in statuses
    ]


def _failing(rows: Rows, ends: Ends) -> list[str]:
    wrong = []
    for pk, (name, status, attempts, most) in rows.items():
        if name != FAILING or status not in t.FINAL:
            continue
        failures = sum(1 for event, _ in ends.get(pk, ()) if event == t.END_FAILED)
        if (status, attempts, failures) != (t.FAILED, most, most):
            wrong.append(f"job {pk} is {status} after {attempts} of {most} attempts")
    return wrong


def _others(rows: Rows) -> list[str]:
    return [
        f"{name} {pk} is {status}"
        for pk, (name, status, *_) in rows.items()
        if name != FAILING and status in t.FINAL and status != t.SUCCEEDED
    ]


def _again(ends: Ends) -> list[str]:
    return [
        f"job {pk} ended as {', then '.join(event for event, _ in told)}"
        for pk, told in ends.items()
        if any(after in t.FINAL for _, after in told[:-1])
    ]


def _untold(rows: Rows, ends: Ends) -> list[str]:
    wrong = []
    for pk, (_, status, attempts, _most) in rows.items():
        told = sum(1 for event, _ in ends.get(pk, ()) if event not in _UNCOUNTED)
        if status in t.FINAL and told != attempts:
            wrong.append(f"job {pk} counts {attempts} attempts, the journal {told}")
    return wrong


def percentile(values: list[int], percent: int) -> int | None:
    """The nearest-rank percentile; None of nothing. Sorts the list, which then is nearly so."""
    if not values:
        return None
    values.sort()
    return values[max(0, -(-len(values) * percent // 100) - 1)]


def _shown(milliseconds: int | None) -> str:
    if milliseconds is None:
        return "-"
    if milliseconds < 1000:
        return f"{milliseconds} ms"
    return f"{milliseconds / 1000:.1f} s"
