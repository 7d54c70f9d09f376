"""The figures of history: what long tables cost, and what it costs to move and forget their rows.

Before any part, millions of jobs that ended and entries of the journal are made; they are kept for
the parts that follow.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from typing import Any, NamedTuple

from django.core.management.base import CommandError
from django.db import connections
from django.urls import reverse

from apps.common import clock, partitions
from apps.common.db import fetch, table, transactional
from apps.dispatch.models import OnceTask
from apps.jobs.models import ArchivedJob, Job
from apps.jobs.services import archive
from apps.jobs.services.find import find
from apps.jobs.services.submit import submit
from apps.journal import services as journal
from apps.journal.conf import SinkAddress
from apps.journal.models import JournalEntry, Sink, Source
from apps.journal.services import carry
from apps.journal.sweeps import TURN
from taskplatform.demo.terminal import percentile
from tests.benchmark import backlog, finished, pages, people
from tests.benchmark.backlog import BATCH, seconds_of
from tests.benchmark.figures import Figure, Part, RunOptions, figure, median
from tests.benchmark.finished import DAY
from tests.benchmark.pages import Page, Visitor
from tests.benchmark.processes import await_true
from tests.benchmark.statements import Copy, in_place

JOURNAL_PARTITIONS = 20
# Live jobs of this time end where the archive begins.
LIVE_DAYS, ARCHIVE_DAYS = 30, 370
GRACE = 8 * DAY
CARRY_SECONDS = 2


class Size(NamedTuple):
    """How many jobs that ended are live, and in the archive, and how long the journal is."""

    live: int
    archived: int
    entries: int


FULL = Size(5_000_000, 5_000_000, 10_000_000)
QUICK = Size(200_000, 200_000, 400_000)


def _size(run: RunOptions) -> Size:
    return QUICK if run.quick else FULL


def _ensure_history(run: RunOptions) -> Iterator[Figure]:
    """Unless another part has made it already."""
    if ArchivedJob.objects.exists():
        return
    size = _size(run)
    end = clock.now() - GRACE
    start = end - ARCHIVE_DAYS * DAY
    backlog.ensure_types()
    begun = time.monotonic()
    run.log(f"{size.entries:,} entries")
    finished.cut(JournalEntry, JOURNAL_PARTITIONS, start=start, end=end)
    finished.entries(size.entries, start=start, end=end)
    run.log(f"{size.archived:,} archived jobs")
    finished.cut(ArchivedJob, ARCHIVE_DAYS // 31, start=start, end=end)
    finished.archived(size.archived, start=start, end=end - LIVE_DAYS * DAY)
    run.log(f"{size.live:,} live jobs that ended")
    finished.jobs(size.live, start=end - LIVE_DAYS * DAY, end=end)
    tables = ", ".join(map(table, (JournalEntry, ArchivedJob, Job)))
    fetch(f"ANALYZE TABLE {tables}")
    people.settle()
    name = f"history of {size.live + size.archived:,} jobs and {size.entries:,} entries"
    yield figure(name, time.monotonic() - begun, "s", at_most=600)


# --- Holds and the mover --------------------------------------------------------------------------
def holds(run: RunOptions) -> Iterator[Figure]:
    """Hold and settle beside the history and while the mover is at work, and in an empty table."""
    size, turns = _size(run), 10 if run.quick else 30
    backlog.ensure_types()
    empty = _emptied()
    yield from _ensure_history(run)
    in_empty, in_full = [], []
    for _ in range(turns):
        with in_place(empty):
            in_empty.append(_hold_rate())
        in_full.append(_hold_rate())
    name = f"hold + settle beside {size.live:,} ended jobs"
    yield _beside(name, in_full, in_empty, at_least=0.95)
    run.log("the mover")
    before, begun = _archived_rows(), time.monotonic()
    with _beside_this(_move):
        moving = []
        while len(moving) < turns or time.monotonic() - begun < 10:
            moving.append(_hold_rate())
        seconds = time.monotonic() - begun
    moved = _archived_rows() - before
    with in_place(empty):
        in_empty += [_hold_rate() for _ in range(turns)]
    yield _beside("hold + settle while the mover is at work", moving, in_empty, at_least=0.9)
    yield figure("mover beside holds", moved / seconds, "jobs/s", at_least=3000)


def _beside(name: str, ours: list[float], bare: list[float], *, at_least: float) -> Figure:
    return figure(name, median(ours), "jobs/s", baseline=median(bare), at_least=at_least)


def _emptied() -> Copy:
    """A table of jobs without rows, to be used in turn with the other."""
    if Job.objects.exists():
        raise CommandError("Measure holds first: there are jobs already.")
    return Copy(Job, "none")


def _hold_rate() -> float:
    """Jobs a second of a cycle over fresh ones of a type of its own."""
    backlog.waiting(20 * BATCH, "other")
    return 20 * BATCH / seconds_of(lambda: backlog.cycle(["other"]))


def _archived_rows() -> int:
    """How many the mover has told of."""
    told = JournalEntry.objects.filter(source=Source.PLAN, subject_id=0, event=archive.ARCHIVED)
    return sum(entry.data["jobs"] for entry in told)


def _move() -> None:
    archive.archive_ended(until=backlog.later())


# --- Finding --------------------------------------------------------------------------------------
def by_number(run: RunOptions) -> Iterator[Figure]:
    """One job by its number, wherever it is."""
    yield from _ensure_history(run)
    known = {"live": backlog.waiting(300, "other"), "archived": _archived_numbers(300)}
    for name, numbers in known.items():
        # The first time opens the tables.
        find(numbers[0])
        times = [1000 * seconds_of(partial(_find, number)) for number in numbers]
        yield figure(f"find by number, {name}", median(times), "ms", at_most=1)


def _find(number: int) -> None:
    if find(number) is None:
        raise CommandError(f"Job {number} is not found.")


def _archived_numbers(count: int) -> list[int]:
    """Spread over the whole archive."""
    archived = table(ArchivedJob)
    [(low, high)] = fetch(f"SELECT MIN(id), MAX(id) FROM {archived}")
    after = f"SELECT id FROM {archived} WHERE id >= %s ORDER BY id LIMIT 1"
    marks = [low + (high - low) * n // count for n in range(count)]
    return [int(fetch(after, [mark])[0][0]) for mark in marks]


def archive_page(run: RunOptions) -> Iterator[Figure]:
    """The first page of the archive, and the one of a type."""
    yield from _ensure_history(run)
    url = reverse("admin:jobs_archivedjob_changelist")
    with pages.open_doors():
        visitor = Visitor()
        for name, address in (("archive", url), ("archive of a type", f"{url}?type=noop")):
            cost = visitor.cost(Page(name, address), times=3 if run.quick else 15)
            yield figure(f"{name} ({cost.queries} queries)", cost.ms, "ms", at_most=200)


# --- Partitions -----------------------------------------------------------------------------------
def rolling(run: RunOptions) -> Iterator[Figure]:
    """Submits and pulls while partitions of the journal are cut and dropped, and before."""
    yield from _ensure_history(run)
    seconds = 8 if run.quick else 40
    group = people.group()
    [user] = people.users(1, tasks_each=0, group=group)
    shared = {"mode": "blocking", "dispatch_times": 2_000_000_000}
    people.insert(OnceTask, [people.task(people.number(), group, clock.now(), **shared)])
    works: dict[str, Callable[[], float]] = {
        "submit": lambda: 1000 * seconds_of(lambda: submit("other", {"order": 7})),
        "pull": partial(_pull_ms, user),
    }
    before = _times_of(works, seconds)
    log = run.folder / "rolls"
    with _beside_this(partial(_roll, log)):
        during = _times_of(works, seconds)
    rolls = [float(line) for line in log.read_text().split()]
    if not rolls:
        raise CommandError("No partition was dropped meanwhile.")
    note = f"{len(rolls)} cuts and drops in {seconds} s"
    for name in works:
        yield figure(
            f"{name} p99 beside {note}",
            percentile(during[name], 99),
            "ms",
            baseline=percentile(before[name], 99),
            at_most=1.3,
        )
        yield figure(f"slowest {name} meanwhile", max(during[name]), "ms", at_most=1000)
    rows = _size(run).entries // JOURNAL_PARTITIONS
    yield figure(f"drop of a partition of {rows:,} entries", median(rolls), "ms", at_most=200)


def _pull_ms(user: people.User) -> float:
    took, taken = _timed(partial(people.pull, user))
    people.end(user, taken)
    return took


def _timed(work: Callable[[], Any]) -> tuple[float, Any]:
    begun = time.perf_counter()
    answer = work()
    return 1000 * (time.perf_counter() - begun), answer


def _times_of(works: dict[str, Callable[[], float]], seconds: float) -> dict[str, list[float]]:
    """Milliseconds of each kind of work, in turn, over this time."""
    times: dict[str, list[float]] = {name: [] for name in works}
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        for name, work in works.items():
            times[name].append(work())
    return times


def _roll(log: Any) -> None:
    """Cut a partition ahead and drop the oldest, every few seconds; notes how long a drop took."""
    with log.open("w", buffering=1) as lines:
        while True:
            time.sleep(2)
            found = partitions.partitions_of(JournalEntry)
            ends = [each.end for each in found if each.end is not None]
            partitions.cut(JournalEntry, [max(ends) + 30 * DAY])
            took, _ = _timed(partial(partitions.drop, JournalEntry, found[:1]))
            lines.write(f"{took}\n")


# --- Sinks ----------------------------------------------------------------------------------------
def sink(run: RunOptions) -> Iterator[Figure]:
    """A file that takes the journal while entries come faster than the goal."""
    yield from _ensure_history(run)
    a_second, seconds = 5500, 15 if run.quick else 60
    address = SinkAddress("benchmark", f"file://{run.folder}/sink")
    lags: list[float] = []
    with _beside_this(partial(_carry, address)):
        _await_sink(address)
        begun, sent = time.monotonic(), _sink(address).sent
        for second in range(seconds):
            _write_entries(a_second, begun + second)
            lags.append(carry.lag(_sink(address), clock.now()).total_seconds())
        took, sent = time.monotonic() - begun, _sink(address).sent - sent
    name = f"entries to a file sink while {a_second * seconds / took:,.0f}/s come"
    yield figure(name, sent / took, "entries/s", at_least=5000)
    yield figure("longest lag of the sink", max(lags), "s", at_most=10)


def _write_entries(count: int, begun: float) -> None:
    """Write so many over the second that begins then."""
    for tenth in range(10):
        time.sleep(max(0.0, begun + tenth / 10 - time.monotonic()))
        _write_block(count // 10)


@transactional
def _write_block(count: int) -> None:
    now = clock.now()
    one = journal.Entry(
        at=now,
        source=Source.JOB,
        subject_id=1,
        event="succeeded",
        from_state="running",
        to_state="succeeded",
        type_or_task="noop",
        worker="host-1:7",
        run_ms=20,
    )
    journal.write([one] * count)


def _sink(address: SinkAddress) -> Sink:
    return Sink.objects.get(name=address.name)


def _await_sink(address: SinkAddress) -> None:
    """Return when it has taken the entries of the present minute that were there before."""
    _write_block(1)

    def has_caught_up() -> bool:
        found = Sink.objects.filter(name=address.name, sent__gt=0).first()
        return found is not None and not carry.lag(found, clock.now())

    await_true(has_caught_up, 60, "the sink")


def _carry(address: SinkAddress) -> None:
    """As beat starts it."""
    while True:
        begun = time.monotonic()
        carry.carry(address, until=clock.now() + TURN)
        time.sleep(max(0.0, begun + CARRY_SECONDS - time.monotonic()))


# --- Work beside the measured one -----------------------------------------------------------------
@contextmanager
def _beside_this(work: Callable[[], None]) -> Iterator[None]:
    """The work in a process of its own, as in production, until the block ends.

    CommandError when it ends before.
    """
    connections.close_all()
    child = os.fork()
    if child == 0:
        try:
            work()
        finally:
            os._exit(1)
    try:
        yield
        if os.waitpid(child, os.WNOHANG) != (0, 0):
            raise CommandError("The work in the background has ended too early.")
    finally:
        with suppress(ProcessLookupError):
            os.kill(child, signal.SIGKILL)
        with suppress(ChildProcessError):
            os.waitpid(child, 0)


PARTS = [
    Part("holds", holds),
    Part("find", by_number),
    Part("page", archive_page),
    Part("sink", sink),
    Part("rolling", rolling),
]
