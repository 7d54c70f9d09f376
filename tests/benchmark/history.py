"""The figures of history: what long tables cost, and what it costs to move and forget their rows.

Before any part, millions of jobs that ended and entries of the journal are made; they are kept for
the parts that follow.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from django.core.management.base import CommandError
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
from tests.benchmark.backlog import seconds_of
from tests.benchmark.figures import Figure, Part, RunOptions, figure, median
from tests.benchmark.finished import DAY
from tests.benchmark.pages import Page, Visitor
from tests.benchmark.processes import while_it_works
from tests.benchmark.statements import Copy, in_place

JOURNAL_PARTITIONS = 20
# Live jobs of this time end where the archive begins.
LIVE_DAYS, ARCHIVE_DAYS = 30, 370
GRACE = 8 * DAY
CARRY_SECONDS = 2


MOVED_FOR = timedelta(seconds=3)
# In so much time one partition is cut and one dropped, which happens once a day at most.
ROLL_SECONDS = 10
Works = dict[str, Callable[[], float]]
Times = dict[str, list[float]]


class Size(NamedTuple):
    """How many jobs that ended are live, and in the archive, and how long the journal is."""

    live: int
    archived: int
    entries: int


FULL = Size(5_000_000, 2_000_000, 10_000_000)
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
    turns = 10 if run.quick else 30
    backlog.ensure_types()
    empty = _emptied()
    yield from _ensure_history(run)
    beside, moving = [], []
    for _ in range(turns):
        bare = _rate_in(empty)
        beside.append((_usual_rate(), bare))
    before, seconds = _told_of(), 0.0
    run.log("the mover")
    for _ in range(turns):
        bare = _rate_in(empty)
        begun = time.monotonic()
        for _still_moving in while_it_works(_move):
            moving.append((backlog.hold_rate(), bare))
        seconds += time.monotonic() - begun
    moved = _told_of() - before
    yield _beside(f"hold + settle beside {_size(run).live:,} ended jobs", beside, at_least=0.95)
    yield _beside("hold + settle while the mover is at work", moving, at_least=0.9)
    yield figure("mover beside holds", moved / seconds, "jobs/s", at_least=3000)


def _beside(name: str, pairs: list[tuple[float, float]], *, at_least: float) -> Figure:
    """With the middle of the ratios: each pair was measured in the same moments."""
    rate = median([ours for ours, _ in pairs])
    ratio = median([ours / bare for ours, bare in pairs])
    return figure(name, rate, "jobs/s", baseline=rate / ratio, at_least=at_least)


def _rate_in(empty: Copy) -> float:
    with in_place(empty):
        return _usual_rate()


def _usual_rate() -> float:
    """Not only the first one, for which the table has to be opened again after a rename."""
    return median([backlog.hold_rate() for _ in range(3)])


def _emptied() -> Copy:
    """A table of jobs without rows, to be used in turn with the other."""
    if Job.objects.exists():
        raise CommandError("Measure holds first: there are jobs already.")
    return Copy(Job, "none")


def _told_of() -> int:
    """How many jobs the mover has told of."""
    told = JournalEntry.objects.filter(source=Source.PLAN, subject_id=0, event=archive.ARCHIVED)
    return sum(entry.data["jobs"] for entry in told if entry.data is not None)


def _move() -> None:
    archive.archive_ended(until=clock.now() + MOVED_FOR)


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
    group = people.group()
    [user] = people.users(1, tasks_each=0, group=group)
    shared = {"mode": "blocking", "dispatch_times": 2_000_000_000}
    people.insert(OnceTask, [people.task(people.number(), group, clock.now(), **shared)])
    works: Works = {
        "submit": lambda: 1000 * seconds_of(lambda: submit("other", {"order": 7})),
        "pull": partial(_pull_ms, user),
    }
    before: Times = {name: [] for name in works}
    during: Times = {name: [] for name in works}
    log = run.folder / "rolls"
    for _ in range(2 if run.quick else 6):
        begun = time.monotonic()
        for _still_rolling in while_it_works(partial(_roll, log)):
            _note(works, during)
        until = time.monotonic() + time.monotonic() - begun
        while time.monotonic() < until:
            _note(works, before)
    rolls = [float(line) for line in log.read_text().split()]
    for name in works:
        yield figure(
            f"{name} p99, a partition cut and one dropped each {ROLL_SECONDS} s",
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


def _note(works: Works, times: Times) -> None:
    """Do each kind of work once, and note how long it took."""
    for name, work in works.items():
        times[name].append(work())


def _roll(log: Path) -> None:
    """Cut a partition ahead and drop the oldest, within ROLL_SECONDS; notes how long that took."""
    begun = time.monotonic()
    found = partitions.partitions_of(JournalEntry)
    ends = [each.end for each in found if each.end is not None]
    partitions.cut(JournalEntry, [max(ends) + 30 * DAY])
    took, _ = _timed(partial(partitions.drop, JournalEntry, found[:1]))
    with log.open("a") as lines:
        lines.write(f"{took}\n")
    time.sleep(max(0.0, begun + ROLL_SECONDS - time.monotonic()))


# --- Sinks ----------------------------------------------------------------------------------------
def sink(run: RunOptions) -> Iterator[Figure]:
    """A file that takes the journal while entries come faster than the goal."""
    yield from _ensure_history(run)
    a_second, seconds = 5500, 20 if run.quick else 60
    address = SinkAddress("benchmark", f"file://{run.folder}/sink")
    lags, sent = [], []
    writing = partial(_write_entries, a_second, seconds)
    _carry_turn(address)
    for _still_writing in while_it_works(writing):
        begun = time.monotonic()
        _carry_turn(address)
        state = Sink.objects.get(name=address.name)
        sent.append((time.monotonic(), state.sent))
        lags.append(carry.lag(state, clock.now()).total_seconds())
        time.sleep(max(0.0, begun + CARRY_SECONDS - time.monotonic()))
    # At first it waits for the grace.
    steady = sent[len(sent) // 3 :]
    (since, first), (until, last) = steady[0], steady[-1]
    name = f"entries to a file sink while {a_second:,}/s come"
    yield figure(name, (last - first) / (until - since), "entries/s", at_least=5000)
    yield figure("longest lag of the sink", max(lags), "s", at_most=10)


def _carry_turn(address: SinkAddress) -> None:
    """As beat starts it every two seconds."""
    carry.carry(address, until=clock.now() + TURN)


def _write_entries(a_second: int, seconds: int) -> None:
    begun = time.monotonic()
    for tenth in range(10 * seconds):
        time.sleep(max(0.0, begun + tenth / 10 - time.monotonic()))
        _write_block(a_second // 10)


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


PARTS = [
    Part("holds", holds),
    Part("find", by_number),
    Part("page", archive_page),
    Part("sink", sink),
    Part("rolling", rolling),
]
