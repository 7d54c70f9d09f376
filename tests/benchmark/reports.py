"""The figures of what operators see: pages beside a long history, the overview, and rollups."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any
from unittest.mock import patch
from urllib.parse import urlencode

from django.core.management.base import CommandError
from django.db import connection
from django.urls import reverse

from apps.common import clock
from apps.common.db import fetch
from apps.common.leases import load_position
from apps.common.ttl_cache import TTLCache
from apps.reports.admin.overview.page import KNOWN, OVERVIEW_URL, known_of
from apps.reports.rules.outcomes import SOURCES
from apps.reports.services import fact_sheet
from apps.reports.services.coverage import Stored
from apps.reports.services.rollup import SWEEP, roll_up
from apps.reports.watches import troubles
from tests.benchmark import pages, weeks
from tests.benchmark.figures import Figure, Part, RunOptions, figure
from tests.benchmark.pages import Cost, Page, Visitor
from tests.benchmark.people import settle

MAX_MS = 200
MAX_PLAN_MS = 1000
MAX_QUERIES = 30
MAX_HOME_MS, MAX_PALETTE_MS = 60, 150
# A person, a job type, a word of titles, and part of an error.
PALETTE = ("uid_1001", "webhook", "price", "timeout")
SHOWN = 12
TURN = timedelta(seconds=10)


def _beside_history(run: RunOptions) -> Iterator[Figure]:
    """A history and its totals, unless another part has made them already."""
    # `migrate` has written some entries.
    if Stored.read().end is not None:
        return
    size = weeks.QUICK if run.quick else weeks.FULL
    begun = time.monotonic()
    weeks.make(size, run.log)
    yield figure(
        f"history of {size.entries:,} entries and {size.live:,} live jobs",
        time.monotonic() - begun,
        "s",
        at_most=600,
    )
    run.log("totals of all of it")
    begun = time.monotonic()
    _catch_up()
    yield figure("totals of all of it", time.monotonic() - begun, "s", at_most=600)
    _settle()


def _settle() -> None:
    if connection.vendor == "mysql":
        settle()


def _catch_up() -> None:
    """As the sweep does it, until no gap is left."""
    while True:
        roll_up(until=clock.now() + timedelta(minutes=1))
        if not load_position(SWEEP).get("gaps"):
            return


def _overview(run: RunOptions) -> Iterator[Figure]:
    """As the only open page requests it: first as a whole, then every few seconds the present
    state, for which nobody else has just read anything, each fifth second the troubles with it, and
    once a minute the trends of the last hour; and the hits of the palette."""
    yield from _beside_history(run)
    weeks.beat_hearts()
    url = reverse(OVERVIEW_URL)
    present = f"{url}?{urlencode({KNOWN: known_of(_until())})}"
    times = 5 if run.quick else 31
    facts: list[TTLCache[Any]] = [fact_sheet.sheets]
    anew = [*facts, troubles.found]
    with pages.open_doors():
        visitor = Visitor()
        home = Page("overview as a whole", reverse("admin:index"))
        yield _timed(visitor.cost(home, times=times, without=anew), MAX_HOME_MS)
        for name, address, without in (
            ("overview refresh, trends", url, facts),
            ("overview refresh", present, facts),
            ("overview refresh, troubles anew", present, anew),
        ):
            yield _timed(visitor.cost(Page(name, address), times=times, without=without), 20)
        for term in PALETTE:
            asked = urlencode({"term": term, "part": "hits"})
            page = Page(f"palette, {term}", f"{reverse('admin:search')}?{asked}")
            yield _timed(visitor.cost(page, times=times, without=facts), MAX_PALETTE_MS)


def _pages(run: RunOptions) -> Iterator[Figure]:
    """The slowest pages, all that miss the goal, and the most queries of any."""
    yield from _beside_history(run)
    weeks.beat_hearts()
    times = 0 if run.quick else 7
    with pages.open_doors():
        visitor = Visitor()
        hourly = [pages.report(source, "hour", "90d") for source in SOURCES]
        for page in hourly:
            yield _timed(visitor.cost(page, times=times), 300)
        for page in pages.plans():
            yield _timed(visitor.cost(page, times=times), MAX_PLAN_MS)
        costs = [
            visitor.cost(page, times=times) for page in pages.every(_until()) if page not in hourly
        ]
    costs.sort(key=lambda cost: -cost.ms)
    slow = sum(cost.ms > MAX_MS for cost in costs)
    for cost in costs[: max(SHOWN, slow)]:
        yield _timed(cost, MAX_MS)
    most = max(costs, key=lambda cost: cost.queries)
    name = f"queries of {most.page.name}, the most of {len(costs)} pages"
    yield figure(name, most.queries, "", at_most=MAX_QUERIES)


def _until() -> datetime:
    """Up to when everything is added up."""
    until = Stored.read().closed_until
    if until is None:
        raise CommandError("Nothing is added up yet, so there is nothing to show.")
    return until


def _timed(cost: Cost, limit: float) -> Figure:
    return figure(f"{cost.page.name} ({cost.queries} queries)", cost.ms, "ms", at_most=limit)


def _rollups(run: RunOptions) -> Iterator[Figure]:
    """Percent of a core that the sweep takes while 5,000 entries come every second, or 1,000 when
    it must be quick.

    The entries of future minutes are written first; then the clock of this process moves on.
    """
    yield from _beside_history(run)
    a_second, minutes = (1000, 1) if run.quick else (5000, 16)
    at = start = _until()
    end = start + timedelta(minutes=minutes)
    size = weeks.QUICK if run.quick else weeks.FULL
    entries = weeks.load(size, start, minutes, a_second)
    _settle()
    with _measured() as effort:
        # The last minute is added up in the round after its end.
        while at <= end:
            at += TURN
            with patch.object(clock, "now", lambda now=at: now):
                roll_up(until=at + timedelta(seconds=15))
    if Stored.read().closed_until != end:
        raise CommandError("The rollups fell behind.")
    yield figure(
        f"rollups of {entries // minutes // 60:,} entries/s, {effort.counted}",
        100 * effort.seconds / (end - start).total_seconds(),
        "% of a core",
        at_most=20,
    )


# --- The share of a core --------------------------------------------------------------------------
@dataclass
class Effort:
    """Seconds of a core, of this process and of the database's.

    `counted` says how: for a server on another machine the time of its answers, an upper limit.
    """

    counted: str
    seconds: float = 0.0


@contextmanager
def _measured() -> Iterator[Effort]:
    """What the work inside takes."""
    pid = _database_pid()
    waited = 0.0

    def wait(execute: Any, *arguments: Any) -> Any:
        nonlocal waited
        begun = time.perf_counter()
        try:
            return execute(*arguments)
        finally:
            waited += time.perf_counter() - begun

    if connection.vendor == "sqlite":
        effort = Effort("one process")
    else:
        effort = Effort("client + server" if pid else "client + time of statements")
    client, server = time.process_time(), _used(pid)
    with connection.execute_wrapper(wait):
        yield effort
    effort.seconds = time.process_time() - client + _used(pid) - server
    if connection.vendor != "sqlite" and pid is None:
        effort.seconds += waited


def _database_pid() -> int | None:
    """The database's process, when it is a readable one of this machine."""
    if connection.vendor == "sqlite":
        return None
    [(pid_file, data)] = fetch("SELECT @@pid_file, @@datadir")
    try:
        pid = int(Path(data, pid_file).read_text())
        return pid if _used(pid) else None
    except (OSError, ValueError):
        return None


def _used(pid: int | None) -> float:
    """Seconds of a core that the process has used."""
    if pid is None:
        return 0.0
    # The name in parentheses may hold anything.
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


PARTS = [
    Part("overview", _overview, on="both"),
    Part("pages", _pages, on="both"),
    Part("rollups", _rollups, on="both"),
]
