"""A pager that cannot call now is seen not to, and calls as soon as it can: killed, paused, served
by nobody, without channel, without data, behind others that wait, beside one that breaks."""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import time as of_day
from datetime import timedelta
from types import SimpleNamespace
from typing import Any

import pytest
from django.test import Client

from apps.alerts import sweeps
from apps.alerts.models import Alert, AlertRule, Channel, Delivery, Event
from apps.alerts.services import alerts, judging, notify, settings
from apps.common import clock, tidy, ttl_cache
from apps.jobs.models import Job, JobType
from tests.alerts import address, channel, evaluate, only, rule, sent
from tests.caches import clear_caches
from tests.emptying import undone
from tests.frozen import FrozenClock
from tests.integration.reports.home import home, notices
from tests.integration.reports.prometheus import samples
from tests.jobs import ended, job_type, jobs
from tests.pages import text_of

pytestmark = pytest.mark.django_db


@pytest.fixture
def due(frozen_clock: FrozenClock) -> FrozenClock:
    """A job has been due for an hour."""
    late_job("mail")
    return frozen_clock


def late_job(type_: str) -> None:
    job_type(type_, max_attempts=1)
    jobs(1, type_, run_at=clock.now() - timedelta(hours=1))


def late(name: str = "late", **values: Any) -> AlertRule:
    return rule(name, "oldest_due", for_seconds=0, **values)


def change(row: AlertRule, **changes: Any) -> None:
    row.refresh_from_db()
    settings.update(row, changes, version=row.version, actor="test")


# --- seen from outside ----------------------------------------------------------------------------
def killed() -> None:
    sweeps.evaluate()


def paused() -> None:
    """As people could pause it in earlier releases."""
    unserved()
    JobType.objects.filter(name=notify.TYPE).update(paused=True)


def unserved() -> None:
    late_job("mail")
    late(channels=[channel()])
    evaluate()


def lacking_channel() -> None:
    late(channels=[channel(enabled=False)])


def lacking_data() -> None:
    late(channels=[channel()], target="nosuchtype")


# How each is seen in the metrics after five minutes, and on the page of the rule.
UNWATCHED: tuple[tuple[Callable[[], None], dict[str, float], str], ...] = (
    (killed, {"sweep_overdue_seconds{sweep=alerts.evaluate}": 285}, ""),
    (paused, {"alert_messages_late_seconds": 300, "job_type_paused{type=deliver}": 1}, ""),
    (unserved, {"alert_messages_late_seconds": 300, "worker_places": 0}, ""),
    (
        lacking_channel,
        {"alert_rules{state=unheard}": 1, "alert_rules{state=watching}": 0},
        "Nobody is notified: it has no enabled channel.",
    ),
    (
        lacking_data,
        {"alert_rules{state=watching}": 1},
        "No: it reads nothing now. There is no job type nosuchtype (yet).",
    ),
)


@pytest.mark.both
def test_pager_that_does_not_watch_is_seen(
    frozen_clock: FrozenClock,
    client: Client,
    admin_client: Client,
    settings: Any,
    subtests: pytest.Subtests,
) -> None:
    settings.EMBEDDED = True
    assert samples(client)["alert_messages_late_seconds"] == 0

    for break_it, seen, sentence in UNWATCHED:
        with subtests.test(break_it.__name__), undone():
            clear_caches()
            break_it()
            frozen_clock.advance(minutes=5)
            said = samples(client)
            assert {name: said[name] for name in seen} == seen
            for row in AlertRule.objects.all():
                shown = text_of(admin_client.get(address("alertrule", "change", row.pk)))
                assert sentence in shown
                assert ("Nobody is notified" in shown) == sentence.startswith("Nobody")


# --- without channel ------------------------------------------------------------------------------
def without_channels() -> tuple[AlertRule, Callable[[], None]]:
    made = late()
    return made, lambda: change(made, channels=[channel()])


def with_one_that_is_off() -> tuple[AlertRule, Callable[[], None]]:
    off = channel(enabled=False)
    made = late(channels=[off])
    return made, lambda: _enable(off)


def _enable(row: Channel) -> None:
    settings.update(row, {"enabled": True}, version=1, actor="test")


@pytest.mark.both
@pytest.mark.parametrize("lacking", [without_channels, with_one_that_is_off])
def test_alert_that_no_channel_took_is_taken_by_the_next_one(
    due: FrozenClock, lacking: Any
) -> None:
    """And its end as well, which nobody would have understood before."""
    made, add_channel = lacking()
    for _ in range(2):
        evaluate()
        due.advance(minutes=5)
    assert (sent(), only().notified_at, only().unsent) == ([], None, Event.FIRING)
    add_channel()

    evaluate()

    assert (sent(), only().notified_at, only().unsent) == ([Event.FIRING], clock.now(), "")
    change(made, channels=[])
    Job.objects.filter(type="mail").delete()
    evaluate()
    assert sent() == [Event.FIRING]
    change(made, channels=[channel("second")])
    evaluate()
    assert sent() == [Event.FIRING, Event.RESOLVED]


def test_alert_of_before_that_nobody_knows_of_is_taken_too(due: FrozenClock) -> None:
    """Earlier releases forgot what no channel had taken."""
    late(channels=[channel()])
    evaluate()
    Delivery.objects.all().delete()
    Alert.objects.update(notified_at=None, unsent="")

    evaluate()

    assert sent() == [Event.FIRING]


@pytest.mark.both
def test_end_of_what_no_channel_took_is_not_told(due: FrozenClock) -> None:
    made = late()
    evaluate()
    Job.objects.filter(type="mail").delete()
    evaluate()

    change(made, channels=[channel()])
    evaluate()

    assert (sent(), only().unsent) == ([], "")


@pytest.mark.both
def test_page_of_an_alert_says_that_nobody_is_notified(
    due: FrozenClock, admin_client: Client
) -> None:
    made = late()
    evaluate()
    page = address("alert", "change", only().pk)
    assert "Nobody is notified: its rule has no enabled channel." in text_of(admin_client.get(page))

    change(made, channels=[channel()])
    evaluate()

    assert "Nobody is notified" not in text_of(admin_client.get(page))


# --- without data ---------------------------------------------------------------------------------
def test_too_few_ends_to_tell_end_no_alert(frozen_clock: FrozenClock) -> None:
    """The type fails as before, only more seldom."""
    job_type(max_attempts=1)
    rule(channels=[channel()], for_seconds=0)
    ended("failed", 40)
    evaluate()
    for how, count in (("failed", 10), ("failed", 0), ("succeeded", 10)):
        frozen_clock.advance(minutes=16)
        ended(how, count)
        evaluate()
        assert (sent(), only().state(clock.now())) == ([Event.FIRING], Alert.State.FIRING), how

    ended("succeeded", 30)
    evaluate()

    assert sent() == [Event.FIRING, Event.RESOLVED]


def test_alert_about_a_type_that_is_no_more_is_over(frozen_clock: FrozenClock) -> None:
    made = job_type(max_attempts=1)
    rule(channels=[channel()], for_seconds=0)
    ended("failed", 40)
    evaluate()
    JobType.objects.filter(pk=made.pk).delete()
    job_type("other")

    evaluate()

    assert sent() == [Event.FIRING, Event.RESOLVED]


# --- behind others that wait ----------------------------------------------------------------------
def test_alerts_that_wait_hide_no_newer_ones(
    due: FrozenClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Snoozed, held in quiet hours, or without a channel: however many there are."""
    monkeypatch.setattr(notify, "_AT_ONCE", 2)
    for name in ("photo", "scan"):
        late_job(name)
    made = channel()
    told = late("told", channels=[made], repeat_minutes=1)
    late("quiet", channels=[made], quiet_from=of_day(8), quiet_to=of_day(10), quiet_zone="UTC")
    late("nobody's")
    for _ in range(3):
        evaluate()
    for alert in Alert.objects.filter(rule=told):
        alerts.snooze(alert=alert, time=timedelta(hours=1), actor="test", reason="known")
    Alert.objects.filter(rule=told).update(unsent=Event.FIRING)
    assert Alert.objects.exclude(unsent="").count() == 9
    before = len(sent())
    late("newest", target="mail", channels=[made])

    evaluate()

    assert sent()[before:] == [Event.FIRING]
    assert Delivery.objects.latest("pk").message["title"] == "Warning · newest · mail"


# --- beside one that breaks -----------------------------------------------------------------------
def test_rule_that_breaks_keeps_no_other_from_being_judged(
    due: FrozenClock, monkeypatch: pytest.MonkeyPatch, caplog: Any
) -> None:
    late("first", channels=[channel()], target="mail")
    broken = rule("broken", "failure_rate")
    late("last", channels=[channel("second")], target="mail")
    # As a later release may have written it, or a zone that the system no longer knows.
    AlertRule.objects.filter(pk=broken.pk).update(kind="of_later")
    odd = late("odd zone", channels=[channel("third")], target="mail")
    AlertRule.objects.filter(pk=odd.pk).update(
        quiet_from=of_day(8), quiet_to=of_day(10), quiet_zone="Mars/Base"
    )

    evaluate()

    assert sent() == [Event.FIRING] * 3
    assert f"alert rule {broken.pk} failed; the others go on" in caplog.text
    assert f"the quiet hours of alert rule {odd.pk} failed" in caplog.text


def test_channel_that_breaks_keeps_no_other_from_being_notified(
    due: FrozenClock, monkeypatch: pytest.MonkeyPatch, caplog: Any
) -> None:
    """And takes what is its own as soon as it can."""
    odd, well = channel("odd"), channel("well")
    late("first", channels=[odd], target="mail")
    late("second", channels=[well], target="mail")
    make = notify.message_of
    with monkeypatch.context() as patch:
        patch.setattr(
            notify,
            "message_of",
            lambda alert, event, to, now: 1 // 0 if to == odd else make(alert, event, to, now),
        )
        evaluate()
    assert [each.channel for each in Delivery.objects.all()] == [well]
    assert f"notifying channel {odd.pk} failed" in caplog.text

    evaluate()

    assert [each.channel for each in Delivery.objects.order_by("pk")] == [well, odd]


def test_alert_of_a_rule_that_became_of_another_kind_is_told(
    due: FrozenClock, admin_client: Client
) -> None:
    made = late(channels=[channel()], quiet_from=of_day(8), quiet_to=of_day(10), quiet_zone="UTC")
    late_job("photo")
    evaluate()
    change(made, kind="sweep_overdue")
    Alert.objects.update(notified_at=clock.now())
    evaluate()
    due.advance(hours=1)

    evaluate()

    assert sent() == [Event.DIGEST]
    page = admin_client.get(address("alert", "change", Alert.objects.earliest("pk").pk))
    assert "mail was wrong when the rule was of another kind." in text_of(page)


def test_small_table_that_breaks_keeps_no_other_from_being_tidied(
    frozen_clock: FrozenClock, monkeypatch: pytest.MonkeyPatch, caplog: Any
) -> None:
    asked = []
    tables = {"broken": lambda _now: 1 // 0, "well": lambda now: asked.append(now) or 0}
    monkeypatch.setattr(tidy, "_small", tables)

    tidy.tidy(until=clock.now() + timedelta(seconds=30))

    assert (len(asked), "common.tidy: broken failed" in caplog.text) == (1, True)


def test_rule_that_breaks_is_one_line_of_the_log_and_a_problem(
    due: FrozenClock, admin_client: Client, caplog: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An hour, as long as it is broken by the same: each round would be four lines a minute."""
    late("well", channels=[channel()])
    broken = late("foreign")
    AlertRule.objects.filter(pk=broken.pk).update(kind="later_kind")
    for hours in (0, 1):
        elapsed = time.monotonic() + 3600 * hours
        monkeypatch.setattr(ttl_cache, "time", SimpleNamespace(monotonic=lambda at=elapsed: at))
        for _ in range(20):
            sweeps.evaluate()
            due.advance(seconds=15)
        logged = [each.message for each in caplog.records if "failed" in each.message]
        assert logged == [f"alert rule {broken.pk} failed; the others go on"] * (hours + 1)

    clear_caches()
    words = notices(home(admin_client))["unjudged"]
    assert "The alert rule foreign cannot be judged, so it tells nobody: This release" in words
    assert "began 09:00" in words

    AlertRule.objects.filter(pk=broken.pk).update(kind="oldest_due")
    sweeps.evaluate()
    clear_caches()
    assert "unjudged" not in notices(home(admin_client))


@pytest.mark.both
def test_error_of_a_rule_is_shown_without_its_secrets(
    due: FrozenClock, admin_client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    late()

    def breaks(*_args: Any, **_more: Any) -> Any:
        raise ValueError("no answer from https://ann:s3cr3t@db/")

    monkeypatch.setattr(judging, "_judged", breaks)
    sweeps.evaluate()
    shown = home(admin_client)
    assert "s3cr3t" not in shown
    assert "ValueError: no answer from https://••••••@db/" in notices(shown)["unjudged"]
