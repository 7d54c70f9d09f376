"""What became of the demo's tasks, read from the database, and whether the promises were kept."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import groupby, pairwise
from typing import Any

from apps.dispatch.models import Dispatch, Stock
from apps.dispatch.rules import policy
from apps.dispatch.rules.queue import Identity
from taskplatform.demo.occurrence import Occurrence
from taskplatform.demo.table import Column, cells_of

State = Dispatch.State

# Two web processes may read the database's time a moment apart.
CLOCKS_AGREE_WITHIN = timedelta(milliseconds=50)

COLUMNS = (
    Column("Task", 30),
    Column("Mode", 8),
    Column("Quota", 5, "right"),
    Column("Handed", 6, "right"),
    Column("Done", 4, "right"),
    Column("Failed", 6, "right"),
    Column("Back", 4, "right"),
    Column("Who got it", 18),
    Column("Met", 3),
)


@dataclass(frozen=True)
class Progress:
    """How far the work is: hand-outs that count against its quotas, and open dispatches."""

    counted: int
    quota: int
    open: int

    @property
    def left(self) -> int:
        return self.quota - self.counted

    @property
    def is_complete(self) -> bool:
        return self.left <= 0 and not self.open


@dataclass(frozen=True)
class Outcome:
    """One occurrence, its quota, what its stock counts, and every dispatch it ever had."""

    occurrence: Occurrence
    quota: int
    stock: int
    dispatches: Sequence[Dispatch]

    @property
    def counting(self) -> int:
        """The dispatches that count against the quota."""
        return sum(1 for dispatch in self.dispatches if dispatch.holds_stock)

    @property
    def is_kept(self) -> bool:
        return self.stock == self.counting <= self.quota

    @property
    def is_met(self) -> bool:
        return self.stock == self.counting == self.quota

    @property
    def wrong_repeats(self) -> list[str]:
        """Who got the task again although their dispatch before had ended it for them."""
        wrong = []
        for executor, rounds in self._by_executor():
            for before, _after in pairwise(rounds):
                if not self._may_repeat(before):
                    wrong.append(f"{executor} got {self.occurrence.title!r} again")
        return wrong

    def _by_executor(self) -> Iterator[tuple[str, list[Dispatch]]]:
        ordered = sorted(self.dispatches, key=lambda d: (d.executor.name, d.round))
        for name, rounds in groupby(ordered, key=lambda d: d.executor.name):
            yield name, list(rounds)

    def _may_repeat(self, before: Dispatch) -> bool:
        # Said here in words of its own: a check by the rule under test would prove nothing.
        task = self.occurrence.task
        if before.state == State.RELEASED:
            return True
        if before.state == State.FAILED and task.on_failure != policy.FINISH:
            return True
        if before.state == State.EXPIRED and task.on_expiry == policy.GIVE_BACK:
            return True
        ended = before.state in (State.SUCCEEDED, State.FAILED, State.EXPIRED)
        return task.mode == policy.BLOCKING and ended

    @property
    def cells(self) -> list[str]:
        """The row of the final table, in the order of COLUMNS."""
        ends = Counter(dispatch.state for dispatch in self.dispatches)
        task = self.occurrence.task
        every = "all " if task.dispatch_times is None else ""
        return [
            self.occurrence.title,
            task.mode,
            f"{every}{self.quota}",
            str(len(self.dispatches)),
            str(ends[State.SUCCEEDED]),
            str(ends[State.FAILED]),
            str(ends[State.RELEASED] + ends[State.EXPIRED] + ends[State.CANCELLED]),
            self._who(COLUMNS[-2].cells),
            "yes" if self.is_met else "NO",
        ]

    def _who(self, most: int) -> str:
        """As many of those whose hand-out counts as there is room for: `ann×2 ben +3`."""
        times = Counter(d.executor.name for d in self.dispatches if d.holds_stock)
        names = [
            name.removeprefix("uid_") + (f"×{count}" if count > 1 else "")
            for name, count in times.most_common()
        ]
        for shown in range(len(names), 0, -1):
            rest = len(names) - shown
            text = " ".join([*names[:shown], *([f"+{rest}"] if rest else [])])
            if cells_of(text) <= most or shown == 1:
                return text
        return "nobody"


@dataclass(frozen=True)
class Check:
    """A promise, and what breaks it; nothing when it was kept."""

    promise: str
    breaches: Sequence[str]


def progress_of(work: Sequence[Occurrence]) -> Progress:
    return Progress(
        counted=sum(_stock_of(work).values()),
        quota=sum(occurrence.quota for occurrence in work),
        open=sum(1 for dispatch in _dispatches_of(work) if dispatch.is_open),
    )


def outcomes_of(work: Sequence[Occurrence]) -> list[Outcome]:
    """The outcome of each occurrence, in the order given."""
    stock = _stock_of(work)
    dispatches: dict[Identity, list[Dispatch]] = defaultdict(list)
    for dispatch in _dispatches_of(work):
        dispatches[_identity_of(dispatch)].append(dispatch)
    return [
        Outcome(each, each.quota, stock.get(each.identity, 0), dispatches[each.identity])
        for each in work
    ]


def _stock_of(work: Iterable[Occurrence]) -> dict[Identity, int]:
    return {_identity_of(stock): stock.handed for stock in _rows_of(Stock, work)}


def _dispatches_of(work: Iterable[Occurrence]) -> list[Dispatch]:
    return sorted(_rows_of(Dispatch, work, "executor"), key=lambda dispatch: dispatch.pk)


def _rows_of(model: Any, work: Iterable[Occurrence], *related: str) -> Iterator[Any]:
    """The rows of these occurrences, with what they are related to."""
    by_source: dict[str, list[Identity]] = defaultdict(list)
    for occurrence in work:
        by_source[occurrence.task.source].append(occurrence.identity)
    for source, identities in by_source.items():
        _, tasks, numbers = zip(*identities, strict=True)
        rows = model.objects.filter(source=source, task__in=tasks, occurrence__in=numbers)
        # The two conditions also let through an instant that only another task is due at.
        wanted = set(identities)
        for row in rows.select_related(*related):
            if _identity_of(row) in wanted:
                yield row


def _identity_of(row: Stock | Dispatch) -> Identity:
    return (row.source, row.task, row.occurrence)


def checks_of(
    outcomes: Sequence[Outcome], *, since: datetime, everybody_works: bool
) -> list[Check]:
    """The promises of dispatch, held against the rows; the run began at `since`.

    Without everybody at work, quotas need not be met, but none may be exceeded.
    """
    everything = [dispatch for outcome in outcomes for dispatch in outcome.dispatches]
    off = [o for o in outcomes if not (o.is_met if everybody_works else o.is_kept)]
    return [
        Check(
            "every quota is met exactly" if everybody_works else "no quota is exceeded",
            [f"{o.occurrence.title}: {o.stock} of {o.quota}, {o.counting} counting" for o in off],
        ),
        Check(
            "nobody was handed a task again that was over for them",
            [breach for outcome in outcomes for breach in outcome.wrong_repeats],
        ),
        Check(
            "nobody ever had two tasks at once",
            _overlaps({dispatch.executor_id for dispatch in everything}, since),
        ),
        Check(
            "nothing is left open",
            [f"{d.executor} still has {d.title}" for d in everything if d.is_open],
        ),
    ]


def _overlaps(executors: Iterable[int], since: datetime) -> list[str]:
    """Who was handed a task before the one they had was over, whatever task it was."""
    handed = Dispatch.objects.filter(executor__in=executors, dispatched_at__gte=since)
    ordered = handed.select_related("executor").order_by("executor", "dispatched_at", "pk")
    return [
        f"{later.executor} was handed {later.title} while {earlier.title} was open"
        for earlier, later in pairwise(ordered)
        if earlier.executor_id == later.executor_id
        and (
            earlier.finished_at is None
            or later.dispatched_at < earlier.finished_at - CLOCKS_AGREE_WITHIN
        )
    ]
