"""From what is wrong to an alert, and from an alert to messages."""

from __future__ import annotations

from datetime import time, timedelta
from typing import Any

import pytest
from django.db import IntegrityError, transaction

from apps.alerts.models import Alert, AlertRule, Delivery, Event
from apps.alerts.services import alerts, settings
from apps.alerts.services.judging import readings
from apps.common import clock
from apps.common.errors import Conflict
from apps.jobs.models import Job, JobType
from apps.jobs.services import types
from apps.reports.services.fact_sheet import FactSheet
from apps.schedules.models import Schedule
from tests import factories
from tests.alerts import channel, evaluate, only, rule, sent
from tests.frozen import FrozenClock
from tests.jobs import ended, job_type, jobs
from tests.statements import sent_by

pytestmark = pytest.mark.django_db


@pytest.fixture
def mail() -> JobType:
    return job_type(max_attempts=1)


@pytest.fixture
def due(frozen_clock: FrozenClock, mail: JobType) -> FrozenClock:
    """A job that has been due for an hour, about which people are notified at once."""
    jobs(1, run_at=clock.now() - timedelta(hours=1))
    return frozen_clock


def late(**values: Any) -> Any:
    return rule("late", "oldest_due", for_seconds=0, channels=[channel()], **values)


def test_a_rule_of_which_nothing_is_wrong_costs_no_statement(mail: JobType) -> None:
    rule()
    ended("succeeded", 3)
    evaluate()
    one = len(sent_by(evaluate))
    for number in range(5):
        rule(f"more {number}")
    assert len(sent_by(evaluate)) == one


def test_twenty_failures_fire_once_and_resolve_once(frozen_clock: FrozenClock, mail: Any) -> None:
    rule(channels=[channel()])
    ended("failed", 19)
    assert evaluate() == {"nothing": 1}
    ended("failed", 1)
    for _ in range(40):
        evaluate()
        frozen_clock.advance(seconds=15)
    assert (sent(), only().value) == ([Event.FIRING], 1.0)

    ended("succeeded", 200)
    for _ in range(40):
        evaluate()
        frozen_clock.advance(seconds=15)

    assert sent() == [Event.FIRING, Event.RESOLVED]
    assert (only().open_key, only().resolved_at is not None) == (None, True)
    deliveries = Delivery.objects.order_by("pk")
    keys = [Job.objects.get(pk=each.job).key for each in deliveries]
    assert keys == [f"delivery:{each.pk}" for each in deliveries]


@pytest.mark.both
def test_condition_that_ends_before_its_time_leaves_nothing(
    frozen_clock: FrozenClock, mail: Any
) -> None:
    rule(channels=[channel()], for_seconds=120)
    ended("failed", 20)
    evaluate()
    assert only().state(clock.now()) == Alert.State.PENDING
    ended("succeeded", 200)

    evaluate()

    assert (Alert.objects.count(), sent()) == (0, [])


@pytest.mark.both
def test_two_open_alerts_about_one_subject_cannot_be(due: FrozenClock) -> None:
    """I66."""
    late()
    evaluate()
    twin = only()
    twin.pk = None

    with pytest.raises(IntegrityError), transaction.atomic():
        twin.save(force_insert=True)


@pytest.mark.both
def test_rule_that_is_switched_off_ends_its_alerts(due: FrozenClock) -> None:
    made = late()
    evaluate()
    settings.update(made, {"enabled": False}, version=1, actor="test")

    evaluate()

    assert (sent(), only().open_key) == ([Event.FIRING, Event.RESOLVED], None)


# --- when people are notified ---------------------------------------------------------------------


@pytest.mark.both
def test_snoozed_alert_notifies_again_when_the_time_is_over(due: FrozenClock) -> None:
    late(target="mail", repeat_minutes=10)
    evaluate()
    due.advance(minutes=1)
    alerts.snooze(alert=only(), time=timedelta(hours=1), actor="admin:olga", reason="known")
    due.advance(minutes=59)
    evaluate()
    assert (sent(), only().state(clock.now())) == ([Event.FIRING], Alert.State.SNOOZED)
    due.advance(minutes=1)

    evaluate()

    assert sent() == [Event.FIRING] * 2


def test_only_what_fires_can_be_snoozed(due: FrozenClock) -> None:
    late()
    evaluate()
    Job.objects.filter(type="mail").delete()
    evaluate()

    with pytest.raises(Conflict, match="Only an alert that fires"):
        alerts.snooze(alert=only(), time=timedelta(hours=1), actor="admin:olga", reason="known")


def test_quiet_hours_hold_messages_for_one_digest(due: FrozenClock) -> None:
    job_type("photo")
    jobs(1, "photo", run_at=clock.now() - timedelta(hours=1))
    late(quiet_from=time(8), quiet_to=time(10), quiet_zone="UTC")
    evaluate()
    due.advance(minutes=30)
    evaluate()
    assert (sent(), Alert.objects.filter(fired_at__isnull=False).count()) == ([], 2)
    due.advance(minutes=30)

    evaluate()

    assert sent() == [Event.DIGEST]
    message = Delivery.objects.get().message
    assert [each["subject"] for each in message["wire"]["alerts"]] == [
        "job_type:mail",
        "job_type:photo",
    ]
    assert evaluate().get("sent", 0) == 0


def test_more_than_ten_in_a_minute_are_a_digest(frozen_clock: FrozenClock) -> None:
    for n in range(15):
        job_type(f"type-{n:02}")
        jobs(1, f"type-{n:02}", run_at=clock.now() - timedelta(hours=1))
    late()

    evaluate()

    assert sent() == [Event.FIRING] * 10 + [Event.DIGEST]
    assert Delivery.objects.last().message["wire"]["count"] == 5  # type: ignore[union-attr]


def test_message_is_in_the_language_of_the_channel_and_has_no_secret(due: FrozenClock) -> None:
    made = channel("组", language="zh-hans", url="https://a.example/T0KEN", secret="S3CRET")
    rule("late", "oldest_due", for_seconds=0, channels=[made])

    evaluate()

    message = Delivery.objects.get().message
    assert message["open"] == "打开告警"
    assert message["wire"]["subject"] == {"kind": "job_type", "name": "mail"}
    assert not {"T0KEN", "S3CRET"} & set(str(message).split("/"))


# --- what rules read ------------------------------------------------------------------------------
def subjects(kind: str, **periods: float) -> dict[str, float]:
    read = readings(AlertRule(kind=kind), FactSheet(periods, clock.now()))
    return {subject: round(each.value, 3) for subject, each in read.items()}


def test_paused_type_is_not_late(due: FrozenClock, mail: JobType) -> None:
    assert list(subjects("oldest_due")) == ["job_type:mail"]
    types.pause_type(job_type=mail, reason="holiday", actor="test")
    assert subjects("oldest_due") == {}


def test_share_of_a_quota_that_ends_soon(frozen_clock: FrozenClock) -> None:
    now = clock.now()
    task = factories.once_task(
        factories.group("gid_sales"),
        start_at=now - timedelta(hours=1),
        end_at=now + timedelta(minutes=30),
        mode="multi",
        dispatch_times=4,
    )
    assert subjects("quota_unfilled") == {f"once_task:{task.pk}": 0.0}
    found = readings(AlertRule(kind="quota_unfilled", target="gid_sales"), FactSheet({}, now))
    assert len(found) == 1


def test_backlog_that_grows_for_a_quarter_of_an_hour_fires(
    frozen_clock: FrozenClock, mail: Any
) -> None:
    """Within 30 s of the time; and it ends when no more come than end."""
    rule("backlog", "backlog_growth", channels=[channel()])
    jobs(99)
    evaluate()
    assert Alert.objects.count() == 0
    for _ in range(61):
        jobs(1)
        evaluate()
        if not sent():
            frozen_clock.advance(seconds=15)
    assert (sent(), only().fired_at - only().since) == ([Event.FIRING], timedelta(minutes=15))  # type: ignore[operator]
    message = Delivery.objects.get().message["text"]
    assert message.startswith("160 jobs of type mail are ready, and more come than end")

    frozen_clock.advance(minutes=6)
    evaluate()

    assert sent() == [Event.FIRING, Event.RESOLVED]


def test_sweep_that_is_late_by_periods(frozen_clock: FrozenClock) -> None:
    from apps.common.leases import sweep_lease

    with sweep_lease("jobs.scan", at_most=timedelta(minutes=1)):
        pass
    frozen_clock.advance(seconds=35)

    assert subjects("sweep_overdue", **{"jobs.scan": 10}) == {"sweep:jobs.scan": 2.5}


@pytest.mark.both
def test_schedules_in_trouble_by_the_type_of_their_jobs(frozen_clock: FrozenClock) -> None:
    failing = factories.schedule("mail", title="Every minute")
    unmade = factories.schedule("photo", title="Prints")
    factories.schedule("photo")
    Schedule.objects.filter(pk=failing.pk).update(trouble="failing")
    Schedule.objects.filter(pk=unmade.pk).update(trouble="unmade")
    assert subjects("schedule_failed") == {
        f"schedule:{failing.pk}": 1.0,
        f"schedule_run:{unmade.pk}": 1.0,
    }
    of_photos = AlertRule(kind="schedule_failed", target="photo")
    assert [*readings(of_photos, FactSheet({}, clock.now()))] == [f"schedule_run:{unmade.pk}"]
    rule("plans", "schedule_failed", channels=[channel()])

    evaluate()

    messages = [each.message for each in Delivery.objects.order_by("pk")]
    every_minute, prints = f"Every minute ({failing.pk})", f"Prints ({unmade.pk})"
    assert [each["text"] for each in messages] == [
        f"The last three jobs of schedule {every_minute} failed.",
        f"The last run of schedule {prints} made no job; its page says why.",
    ]
    assert messages[0]["title"] == f"Warning · plans · {every_minute}"
    assert messages[0]["wire"]["subject"] == {"kind": "schedule", "name": str(failing.pk)}
    assert str(Alert.objects.order_by("pk")[0]) == f"plans: {every_minute}"
    Schedule.objects.update(trouble="")
    evaluate()
    assert sent()[2:] == [Event.RESOLVED] * 2
