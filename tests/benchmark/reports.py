"""The figures of what operators see: every page beside a long history, rollups, the overview."""

from __future__ import annotations

import time
from collections.abc import Iterator
from datetime import datetime, timedelta
from unittest.mock import patch
from urllib.parse import urlencode

from django.core.management.base import CommandError
from django.db import connection
from django.urls import reverse

from apps.common import clock
from apps.common.leases import load_position
from apps.journal.models import JournalEntry
from apps.reports.admin.overview.page import KNOWN, OVERVIEW_URL, known_of
from apps.reports.rules.outcomes import SOURCES
from apps.reports.services.coverage import Stored
from apps.reports.services.rollup import SWEEP, roll_up
from tests.benchmark import history, pages
from tests.benchmark.effort import measured
from tests.benchmark.figures import Figure, Part, Run, figure
from tests.benchmark.pages import Cost, Page, Visitor
from tests.benchmark.people import settle

MAX_MS = 200
MAX_QUERIES = 30
SHOWN = 12
A_SECOND = 5000
TURN = timedelta(seconds=10)


def _beside_history(run: Run) -> Iterator[Figure]:
    """A history and its totals, unless another part has made them already."""
    if JournalEntry.objects.exists():
        return
    size = history.QUICK if run.quick else history.FULL
    begun = time.monotonic()
    history.make(size, run.log)
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


def _overview(run: Run) -> Iterator[Figure]:
    """As a page asks for it every few seconds: how everything stands, or, once a minute and just
    before that, a part of how the last hour went."""
    yield from _beside_history(run)
    history.beat_hearts()
    url = reverse(OVERVIEW_URL)
    parts = known_of(_until())
    told = [*(f"overview refresh, {part.partition('-')[0]}" for part in parts), "overview refresh"]
    with pages.open_doors():
        visitor = Visitor()
        for known, name in enumerate(told):
            page = Page(name, f"{url}?{urlencode({KNOWN: parts[:known]}, doseq=True)}")
            yield _timed(visitor.cost(page, times=5 if run.quick else 31), 20)


def _pages(run: Run) -> Iterator[Figure]:
    """The slowest pages, all that miss the goal, and the most queries of any."""
    yield from _beside_history(run)
    history.beat_hearts()
    times = 1 if run.quick else 7
    with pages.open_doors():
        visitor = Visitor()
        hourly = [pages.report(source, "hour", "90d") for source in SOURCES]
        for page in hourly:
            yield _timed(visitor.cost(page, times=times), 300)
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


def _timed(cost: Cost, most: float) -> Figure:
    return figure(f"{cost.page.name} ({cost.queries} queries)", cost.ms, "ms", at_most=most)


def _rollups(run: Run) -> Iterator[Figure]:
    """Percent of a core of the sweep, turn by turn, while so many entries come every second.

    They are there at once, in minutes to come, and the clock of this process goes on by turns.
    """
    yield from _beside_history(run)
    minutes = 1 if run.quick else 16
    at = start = _until()
    end = start + timedelta(minutes=minutes)
    size = history.QUICK if run.quick else history.FULL
    entries = history.load(size, start, minutes, A_SECOND)
    _settle()
    with measured() as effort:
        # The last minute is added up in the turn after its end.
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


PARTS = [
    Part("overview", _overview, on="both"),
    Part("pages", _pages, on="both"),
    Part("rollups", _rollups, on="both"),
]
