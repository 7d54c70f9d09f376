"""The day of ends that the tests of report pages use."""

from __future__ import annotations

from datetime import timedelta
from zoneinfo import ZoneInfo

from django.test import Client
from django.urls import reverse

from apps.common import clock
from apps.reports.services import rollup
from apps.reports.services.summary import Period
from tests.frozen import FrozenClock
from tests.integration.reports.history import drawn, utc, write
from tests.pages import Cell, tables_of
from tests.remembered import Scene

NOW = utc("2026-03-03T13:52:10")
START = utc("2026-03-02T14:00:00")
DAY = Period(START, START + timedelta(days=1), ZoneInfo("UTC"))
URL = reverse("report")


def roll_up() -> int:
    return rollup.roll_up(until=clock.now() + timedelta(minutes=1))


def table(client: Client, **query: str) -> list[list[Cell]]:
    """The rows of the first table, without its head."""
    page = client.get(URL, query)
    assert page.status_code == 200
    return tables_of(page)[0][1:]


def _history(clock: FrozenClock) -> None:
    clock.move_to(NOW)
    write(*drawn(200, NOW - timedelta(hours=11), NOW - timedelta(minutes=3)))
    roll_up()


HISTORY = Scene(_history)
