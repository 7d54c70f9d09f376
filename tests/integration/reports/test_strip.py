"""The strip on the home page: what needs somebody, worst first, and what people say about it."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import timedelta

import pytest
from django.contrib.auth.models import User
from django.test import Client
from django.urls import reverse

from apps.alerts.models import Alert
from apps.common import clock
from apps.common.leases import sweep_lease
from apps.jobs.models import JobScope, JobType
from apps.jobs.services import types
from apps.journal.models import JournalEntry
from apps.reports.models import Problem, StandingMinute
from apps.reports.sweeps import note_standing
from apps.reports.watches import troubles
from tests.alerts import rule
from tests.frozen import FrozenClock
from tests.integration.reports.home import home, notices
from tests.jobs import job_type, jobs

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def beat(frozen_clock: FrozenClock) -> None:
    with sweep_lease("jobs.scan", at_most=timedelta(seconds=30)):
        pass


def pause(name: str) -> None:
    job_type(name)
    made = JobType.objects.get(name=name)
    types.pause_type(job_type=made, reason="New tax rates", actor="admin:hugo")


def say(client: Client, act: str, kind: str, key: str) -> int:
    page = client.post(reverse("problems_said"), {"act": act, "row": f"{kind} {key}"})
    return page.status_code


def rows(html: str) -> list[str]:
    return re.findall(r'<li class="trouble trouble-(\w+)', html)


def test_all_is_well_since_the_last_minute_with_a_trouble(
    admin_client: Client, frozen_clock: FrozenClock
) -> None:
    assert "All well" in home(admin_client)
    pause("mail")
    note_standing()
    assert StandingMinute.objects.get().troubles == 2  # it lacks a worker, too
    JobType.objects.all().delete()
    frozen_clock.advance(minutes=30)
    with sweep_lease("jobs.scan", at_most=timedelta(seconds=30)):
        note_standing()
    html = home(admin_client)
    assert rows(html) == []
    until = frozen_clock.instant - timedelta(minutes=29)
    assert f"All well since {until:%H:%M}" in html


def test_worst_come_first_and_seven_are_shown(admin_client: Client) -> None:
    for number in range(9):
        pause(f"type-{number}")
    at = clock.now()
    made = rule("Jobs fail", severity="critical")
    columns = {"subject": "job_type:type-1", "open_key": "x", "since": at, "fired_at": at}
    Alert.objects.create(rule=made, value=0.4, **columns)

    html = home(admin_client)

    # The types lack workers, too, and the rule a channel.
    assert rows(html) == ["critical", "warning", *["held"] * 5]
    assert "12 things need you" in html
    assert "5 more" in html


def test_figures_are_in_the_language_of_the_page_whoever_asked_before(
    admin_client: Client, frozen_clock: FrozenClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(troubles.found, "seconds", 60)
    job_type("mail")
    jobs(1)
    frozen_clock.advance(minutes=12, seconds=14)
    english = notices(home(admin_client))["oldest_due"]
    assert "has been due for 12 min 14 s" in english

    page = admin_client.get("/admin/", headers={"accept-language": "zh-hans"})

    assert "已到期 12 分钟 14 秒" in notices(page.content.decode())["oldest_due"]


def test_pause_says_who_since_when_and_how_many_wait(
    admin_client: Client, frozen_clock: FrozenClock
) -> None:
    pause("mail")
    jobs(3)
    since = frozen_clock.instant
    frozen_clock.advance(minutes=70)
    text = notices(home(admin_client))["paused"]
    assert f"mail is paused by hugo since {since:%H:%M}; 3 jobs wait" in text
    assert "“New tax rates” · no end was set" in text
    assert "Resume" in text
    types.resume_type(job_type=JobType.objects.get(), actor="admin:hugo")
    made = JobType.objects.get()
    assert (made.paused_at, made.paused_by) == (None, "")


def test_what_somebody_has_seen_or_snoozed(
    admin_client: Client, frozen_clock: FrozenClock, role_client: Callable[[str], Client]
) -> None:
    pause("mail")
    trouble = ("paused", "job_type:mail")
    assert say(role_client("viewer"), "seen", *trouble) == 403
    assert say(admin_client, "nothing", *trouble) == 404
    assert not Problem.objects.exists()

    assert say(admin_client, "seen", *trouble) == 302
    assert "seen by admin" in notices(home(admin_client))["paused"]

    say(admin_client, "hour", *trouble)
    html = home(admin_client)
    assert "paused" not in notices(html)
    assert "1 snoozed until" in html
    frozen_clock.advance(minutes=61)
    with sweep_lease("jobs.scan", at_most=timedelta(seconds=30)):
        html = home(admin_client)
    assert "seen by" not in notices(html)["paused"]
    events = JournalEntry.objects.filter(event__startswith="problem_").values_list("event", "actor")
    assert [*events] == [("problem_seen", "admin:admin"), ("problem_snoozed", "admin:admin")]
    # A new trouble of the same name is not yet seen.
    say(admin_client, "seen", *trouble)
    made = JobType.objects.get()
    types.resume_type(job_type=made, actor="admin:ann")
    frozen_clock.advance(minutes=1)
    types.pause_type(job_type=made, reason="Again", actor="admin:ann")
    assert "seen by" not in notices(home(admin_client))["paused"]


@pytest.mark.both
def test_alert_is_snoozed_as_on_its_page_and_hides_what_it_is_about(
    admin_client: Client, frozen_clock: FrozenClock
) -> None:
    job_type("mail")
    jobs(1, run_at=clock.now() - timedelta(hours=1))
    assert "oldest_due" in notices(home(admin_client))
    at = clock.now()
    columns = {"subject": "job_type:mail", "open_key": "x", "since": at, "fired_at": at}
    alert = Alert.objects.create(rule=rule("Late", kind="oldest_due"), value=3600.0, **columns)
    found = notices(home(admin_client))
    assert "oldest_due" not in found
    assert "Late:" in found["alerts"]
    say(admin_client, "shift", "alerts", f"alert:{alert.pk}")
    alert.refresh_from_db()
    assert alert.snoozed_until == at + timedelta(hours=8)
    found = notices(home(admin_client))
    assert not {"oldest_due", "alerts"} & found.keys()


def test_nobody_speaks_about_what_is_foreign(
    role_user: Callable[[str], User], role_client: Callable[[str], Client]
) -> None:
    pause("mail")
    JobScope.objects.create(operator=role_user("operator"), type="sms")
    client = role_client("operator")
    assert notices(home(client)) == {}
    assert say(client, "hour", "paused", "job_type:mail") == 403


def test_alerts_that_reach_nobody_are_a_trouble(admin_client: Client) -> None:
    assert "unheard" not in notices(home(admin_client))
    rule("Jobs fail")
    text = notices(home(admin_client))["unheard"]
    assert "Alerts reach nobody: no channel is set" in text
    assert "Add channel" in text
