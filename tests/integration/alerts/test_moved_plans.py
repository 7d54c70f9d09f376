"""Report plans of release 0.3.0 become schedules, and go back to it."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from importlib import import_module
from types import SimpleNamespace
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.db import connection
from django.db.migrations.loader import MigrationLoader

from apps.alerts.handlers import deliver, send_report
from apps.alerts.models import Delivery, ReportPlan
from apps.alerts.services import invariants
from apps.jobs.handlers import registry
from apps.jobs.models import JobType
from apps.schedules.models import Schedule, ScheduleRun
from apps.schedules.services import invariants as of_schedules
from apps.schedules.services import schedules
from apps.schedules.services.make import make_due
from tests.alerts import Attempt, Receiver, channel
from tests.frozen import FrozenClock

pytestmark = [pytest.mark.django_db, pytest.mark.both]
moving = import_module("apps.alerts.migrations.0009_move_report_plans")
# 08:00 in Shanghai.
LAST = datetime(2026, 3, 2, tzinfo=UTC)


@pytest.fixture(scope="module")
def before() -> Any:
    """The models as the migration finds them."""
    nodes = [("alerts", "0008_reports_by_schedules"), ("jobs", "0016_words")]
    return MigrationLoader(None).project_state(nodes).apps


class Old:
    """A plan of 0.3.0 with two channels."""

    def __init__(self, before: Any, owner: User, site: Receiver, **values: Any) -> None:
        self._models = before
        self.channels = [channel(name, url=site.url) for name in "ab"]
        self.row = before.get_model("alerts", "OldReportPlan").objects.create(
            **{"title": "Nights", "query": "source=job&by=type&period=24h&zone=UTC"},
            **{"rule": {"every_days": 1, "at": "08:00"}, "time_zone": "Asia/Shanghai"},
            **{"owner_id": owner.pk, "enabled": True, "version": 3, "created_by": "admin:ann"},
            **{"start_at": LAST, "created_at": LAST, "updated_at": LAST, "updated_by": "admin:bea"},
            **{"next_at": LAST + timedelta(days=1), **values},
        )
        with connection.cursor() as cursor:
            for each in self.channels:
                sql = f"INSERT INTO {moving.LINKS} (reportplan_id, channel_id) VALUES (%s, %s)"
                cursor.execute(sql, [self.row.pk, each.pk])

    def ran(self, day: int, *states: str, why: str = "") -> None:
        """A time of the plan, with a delivery of each state."""
        at = LAST - timedelta(days=day)
        models = self._models
        run = models.get_model("alerts", "ReportRun").objects.create(
            plan=self.row, occurrence=int(at.timestamp()), at=at, why=why
        )
        for place, (to, state) in enumerate(zip(self.channels, states, strict=False)):
            models.get_model("alerts", "Delivery").objects.create(
                **{"report": run, "channel_id": to.pk, "event": "report", "created_at": at},
                **{"state": state, "job": 100 * day + place},
                message={"title": "Nights", "text": "", "url": "", "open": "", "wire": {}},
            )


def move(how: Any, before: Any) -> None:
    how(before, SimpleNamespace(connection=connection))


def test_plan_goes_on_as_a_schedule(
    frozen_clock: FrozenClock, before: Any, owner: User, site: Receiver
) -> None:
    JobType.objects.filter(name="send_report").delete()
    old = Old(before, owner, site)
    old.ran(3, why="Its owner was deleted.")
    old.ran(2, "sent", "failed")
    old.ran(1, "sent", "waiting")

    move(moving.move, before)

    plan = ReportPlan.objects.get()
    assert (plan.title, plan.owner, plan.status, plan.version) == ("Nights", owner, "active", 3)
    assert (plan.rule, plan.time_zone) == ({"every_days": 1, "at": "08:00"}, "Asia/Shanghai")
    assert (plan.next_at, plan.updated_by) == (LAST + timedelta(days=1), "admin:bea")
    assert [*plan.channels.order_by("name")] == old.channels
    runs = ScheduleRun.objects.order_by("pk").values_list("job", "why", "outcome")
    assert [*runs] == [
        (None, "Its owner was deleted.", "refused"),
        (200, "", "failed"),
        (100, "", ""),
    ]
    assert {*Delivery.objects.filter(job=200).values_list("state", flat=True)} == {"sent", "failed"}
    assert plan.last_job == 100
    checks = (*of_schedules.CHECKS, *invariants.CHECKS)
    found = {breach.invariant for check in checks for breach in check.run(100).breaches}
    assert not found & {"I64", "I67"}
    # What waits is sent as what it is.
    deliver({"delivery": Delivery.objects.get(state="waiting").pk}, Attempt())
    assert b'"at":"2026-03-01T00:00:00Z"' in site.taken[0].body
    # And the next one by the schedule.
    frozen_clock.move_to(LAST + timedelta(days=1))
    assert make_due(until=frozen_clock.instant + timedelta(minutes=1)) == 1
    job = ScheduleRun.objects.latest("pk").job or 0
    assert send_report({}, Attempt(job_id=job)) == {"sent": 2}
    assert registry.differences(JobType.objects.get(name="send_report")) == {}
    # The release before sends nothing beside.
    old.row.refresh_from_db()
    assert (old.row.enabled, old.row.next_at) == (False, None)


def test_way_back_and_forth_keeps_what_was_changed_since(
    frozen_clock: FrozenClock, before: Any, owner: User, site: Receiver
) -> None:
    old = Old(before, owner, site)
    same = {name: getattr(old.row, name) for name in (*moving.SAME, *moving.STAMPS)}
    for hour, title in enumerate(("Off", "Deleted"), 1):
        other = {"title": title, "enabled": False, "next_at": None}
        created_at = LAST + timedelta(hours=hour)
        type(old.row).objects.create(**{**same, **other, "created_at": created_at})
    old.ran(1, "sent", "sent")
    move(moving.move, before)
    plans = ReportPlan.objects.order_by("pk")
    assert [*plans.values_list("status", flat=True)] == ["active", "paused", "paused"]
    ReportPlan.objects.filter(title="Nights").update(title="Mornings")
    schedules.delete_schedule(schedule=plans.get(title="Deleted"), actor="test")
    before_it = [*plans.exclude(title="Deleted").values_list("pk", "title", "status", "next_at")]

    move(moving.move_back, before)

    assert not plans.exists()
    assert {*Schedule.objects.values_list("status", "next_at")} == {("deleted", None)}
    rows = type(old.row).objects.order_by("pk").values_list("title", "enabled", "next_at")
    assert [*rows] == [("Mornings", True, LAST + timedelta(days=1)), ("Off", False, None)]
    links = moving._channels(SimpleNamespace(connection=connection))
    assert {*links[old.row.pk]} == {each.pk for each in old.channels}

    move(moving.move, before)
    assert [*plans.values_list("pk", "title", "status", "next_at")] == before_it
    assert ScheduleRun.objects.get().schedule_id == before_it[0][0]
