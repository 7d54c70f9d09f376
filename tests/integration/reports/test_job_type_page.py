"""The page of a job type that says how it goes now: what it shows, to whom, and what it costs."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from django.contrib.auth.models import User
from django.test import Client

from apps.common import clock
from apps.dispatch.models import OperatorScope
from apps.jobs.models import JobScope, JobType, TypeState
from apps.jobs.rules import breaker
from apps.reports.admin.job_type.page import PARTS
from apps.reports.services.of_type import first_of
from tests import factories
from tests.frozen import FrozenClock
from tests.integration.jobs.admin.pages import now_url, statuses
from tests.integration.reports.history import utc
from tests.integration.reports.test_failures import REFUSED, roll_up
from tests.jobs import end, job_type, jobs, take
from tests.pages import form_of, text_of
from tests.statements import sent_by

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("now")]


def fail(count: int, error: str = REFUSED, name: str = "mail") -> list[int]:
    """So many jobs that fail for good."""
    numbers = jobs(count, name)
    for held in take(count, types=(name,)):
        end(held, "failed", error=error.format(held.id, 1), retry="never")
    return numbers


def settled(now: FrozenClock) -> None:
    now.advance(minutes=2)
    roll_up()


def fill(now: FrozenClock, times: int = 1) -> JobType:
    """A type that fails, waits, runs and comes again by a schedule."""
    made = job_type("mail", max_attempts=1, max_running=500, breaker_enabled=False)
    for number in range(times):
        fail(20, f"ValueError: shop {'abcdefgh'[number]}")
        jobs(4)
        for held in take(4):
            end(held)
        jobs(3)
        take(2)
        factories.schedule(title=f"Every minute {number}")
    settled(now)
    return made


def test_page_says_that_a_type_fails_and_retries_the_cause(
    role_client: Any, now: FrozenClock
) -> None:
    made = job_type("mail", max_attempts=1)
    numbers = fail(24)
    jobs(2)
    [held] = take(1)
    factories.schedule(title="Evening photos")
    settled(now)
    client = role_client("operator")

    page = client.get(now_url(made))

    text = text_of(page)
    assert "24 of 24 mail jobs failed in 15 min; the limit is 20 %" in text
    assert "ConnectionRefusedError: 10.0.0." in text
    assert "Waiting 1 oldest 2 min" in text
    assert "Running 1 " in text
    assert "Succeeded, 15 min 0 % 24 h: 0 %" in text
    assert re.search(r"Run p50 / p95 \d+ m?s / \d+ m?s 24 h: ", text)
    assert "Evening photos" in text
    assert f"{held.id}" in text
    assert 'class="run-line run-p95"' in page.content.decode()
    assert "24 ended, 24 failed" in page.content.decode()
    [retry] = re.findall(r'href="([^"]+)">Retry 24<', page.content.decode())
    plan = client.get(retry.replace("&amp;", "&"))
    assert "24" in text_of(plan)
    assert form_of(plan, "reason")["back"] == now_url(made)
    assert {*statuses(numbers)} == {"failed"}


def test_each_part_comes_alone_and_renews_itself(admin_client: Client, now: FrozenClock) -> None:
    made = fill(now)
    job_type("mail", limit_by="key", limit_running=500)
    whole = admin_client.get(now_url(made)).content.decode()
    for part in PARTS:
        assert f'id="type-{part}"' in whole
        alone = admin_client.get(now_url(made), {"part": part, "period": "7d"}).content.decode()
        assert f'id="type-{part}"' in alone
        assert "<html" not in alone
        assert f"?part={part}&amp;period=7d" in alone
    for period in ("1h", "24h", "7d", "30d", "'"):
        page = admin_client.get(now_url(made), {"period": period})
        assert "24 ended, 20 failed" in page.content.decode(), period


def test_page_is_for_who_sees_the_type_and_shows_nothing_of_others(
    role_client: Any, role_user: Callable[[str], User], now: FrozenClock
) -> None:
    made, other = fill(now), job_type("web")
    person, client = role_user("operator"), role_client("operator")
    whole = text_of(client.get(now_url(made)))
    scope = JobScope.objects.create(operator=person, type="mail")
    # All but the way to the failures of all types.
    found = text_of(client.get(now_url(made)))
    said = whole[whole.index(" mail jobs failed in 15 min") :].replace("for good all", "for good")
    assert found.endswith(said)
    for words in ("Succeeded, 15 min", "Retry 20", "Every minute 0"):
        assert words in whole
    assert client.get(now_url(other)).status_code == 404
    scope.delete()
    JobScope.objects.create(operator=person, type="web")
    assert client.get(now_url(made)).status_code == 404
    # The jobs of users are not counted together.
    JobScope.objects.create(operator=person, type="mail")
    OperatorScope.objects.create(operator=person, executor=factories.group("gid_mine"))
    page = client.get(now_url(made))
    for words in ("Succeeded", "Waiting", "Retry 20", "failed;"):
        assert words not in text_of(page)
    assert "Running now" in text_of(page)


def test_open_breaker_and_pause_stand_on_top(admin_client: Client, now: FrozenClock) -> None:
    made = job_type("mail", breaker_enabled=True, paused=True, pause_reason="CRM is down")
    TypeState.objects.create(type="mail", breaker=breaker.OPEN, breaker_since=clock.now())
    text = text_of(admin_client.get(now_url(made)))
    assert "The breaker of the job type mail is open: its jobs do not start." in text
    assert "Paused “CRM is down”" in text
    # Before the first minute is added up there are no figures of the past.
    assert "Nothing ended in this period." in text
    assert "Succeeded" not in text


@pytest.mark.both
def test_page_takes_as_many_statements_for_more(admin_client: Client, now: FrozenClock) -> None:
    counts = []
    for times in (1, 4):
        made = fill(now, times)
        admin_client.get(now_url(made))
        counts.append(len(sent_by(lambda made=made: admin_client.get(now_url(made)))))  # type: ignore[misc]
    assert counts[1] <= counts[0] <= 60, counts


def test_first_step_of_a_period_begins_by_the_clocks_of_the_zone() -> None:
    end = utc("2026-03-30T12:34:00")
    for zone, step, count, first in (
        ("UTC", "minute", 60, "2026-03-30T11:34:00"),
        ("UTC", "hour", 24, "2026-03-29T13:00:00"),
        ("Asia/Kolkata", "hour", 24, "2026-03-29T13:30:00"),
        # Clocks went forward on the 29th.
        ("Europe/Berlin", "day", 2, "2026-03-28T23:00:00"),
    ):
        assert first_of(end, step, count, ZoneInfo(zone)) == utc(first), (zone, step)
