"""Growth stops by itself: every table has a bound, and the small ones are tidied in one sweep."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

import pytest
from axes.models import AccessAttempt, AccessFailureLog, AccessLog
from django.apps import apps
from django.contrib.admin.models import CHANGE, LogEntry
from django.contrib.auth.models import User
from django.contrib.sessions.models import Session
from django.db.models import Model
from django.test import override_settings

from apps.alerts.models import Alert, AlertRule, Channel, Delivery
from apps.common import ids, tidy
from apps.common.leases import save_position, sweep_lease
from apps.common.models import SentForm, SweepLease
from apps.common.sweeps import tidy_up
from apps.flows.models import FlowRun
from apps.jobs.models import Bucket, Hold
from apps.journal.models import SinkReject
from apps.reports.models import Problem
from taskplatform import beat
from tests import alerts, factories
from tests.emptying import undone
from tests.frozen import FrozenClock

pytestmark = pytest.mark.both

PEOPLE = "people make its rows, one by one"
WITH_PARENT = "goes with the row that it belongs to"
TYPES = "one row for each job type"

BOUNDS = {
    # What grows with the work.
    "journal.JournalEntry": "JOURNAL_RETENTION; journal.roll",
    "jobs.Job": "JOB_ARCHIVE_AFTER; jobs.archive",
    "jobs.InboxRow": "until it is a job; a person discards what was refused",
    "jobs.KeyState": "until no job has the key; the sweep that a scan starts",
    "jobs.ArchivedJob": "JOB_RETENTION; jobs.roll and jobs.forget",
    "jobs.JobLog": "JOB_RETENTION; jobs.roll and jobs.forget",
    "dispatch.Dispatch": "DISPATCH_ARCHIVE_AFTER; dispatch.purge",
    "dispatch.ArchivedDispatch": "DISPATCH_RETENTION; dispatch.roll and dispatch.purge",
    "dispatch.Stock": "DISPATCH_ARCHIVE_AFTER; dispatch.purge",
    "dispatch.OnceTask": "TASK_ARCHIVE_AFTER; dispatch.purge",
    "dispatch.RotateTask": "TASK_ARCHIVE_AFTER; dispatch.purge",
    "dispatch.ArchivedTask": "TASK_RETENTION; dispatch.purge",
    "reports.Rollup": "REPORT_…_KEPT, but days for ever; reports.rollup",
    "reports.RollupBucket": "REPORT_…_KEPT, but a row a day for ever; reports.rollup",
    "reports.Problem": "90 days after the last word; common.tidy",
    "reports.StandingMinute": "seven days; reports.rollup",
    "reports.ErrorGroup": "REPORT_ERRORS_KEPT, at most 200,000; reports.rollup",
    "schedules.Schedule": "90 days after its end; schedules.purge",
    "schedules.ScheduleRun": "90 days; schedules.purge",
    "bulk.BulkRow": "BULK_ROWS_KEPT; bulk.purge",
    "bulk.BulkRun": "BULK_RUNS_KEPT; bulk.purge",
    "flows.FlowRun": "FLOW_RUNS_KEPT; common.tidy",
    "flows.FlowStep": WITH_PARENT,
    # The small ones.
    "journal.SinkReject": "30 days; common.tidy",
    "jobs.Worker": "7 days after they left; common.tidy",
    "jobs.Bucket": "a day after the last call; common.tidy",
    "jobs.Hold": "until the last of its leases ends, a submission an hour; common.tidy",
    "common.SentForm": "2 days; common.tidy",
    "common.SweepLease": "30 days after its sweep is no more; common.tidy",
    "sessions.Session": "until it ends; common.tidy",
    "axes.AccessAttempt": "30 days; common.tidy",
    "axes.AccessFailureLog": "30 days; common.tidy",
    "axes.AccessLog": "JOURNAL_RETENTION; common.tidy",
    "admin.LogEntry": "JOURNAL_RETENTION; common.tidy",
    "alerts.Delivery": "ALERT_RETENTION; common.tidy",
    "alerts.Alert": "ALERT_RETENTION, at most 200 open ones for each rule; common.tidy",
    # Those that have a bound by what they are.
    "alerts.AlertRule": PEOPLE,
    "alerts.ReportPlan": PEOPLE,
    "alerts.Channel": PEOPLE,
    "common.NodeLease": "16,384 numbers, used again",
    "jobs.UniqueLock": "1,024 rows",
    "jobs.JobType": PEOPLE,
    "jobs.TypeState": TYPES,
    "jobs.JobScope": PEOPLE,
    "journal.Sink": "one row for each name of JOURNAL_SINKS",
    "dispatch.Executor": PEOPLE,
    "dispatch.Membership": PEOPLE,
    "dispatch.OperatorScope": PEOPLE,
    "dispatch.Template": PEOPLE,
    "flows.Flow": PEOPLE,
    "access.ApiClient": PEOPLE,
    "access.Limited": PEOPLE,
    "common.Preference": "one row for each account",
    "common.SavedView": "100 rows for each account",
    "auth.User": PEOPLE,
    "auth.Group": PEOPLE,
    "auth.Permission": "one row for each permission of the code",
    "contenttypes.ContentType": "one row for each model",
    "axes.AccessAttemptExpiration": WITH_PARENT,
}


def test_each_table_says_what_bounds_it() -> None:
    """A model without a line here grows for ever, or nobody has thought about it."""
    known = {
        model._meta.label for model in apps.get_models() if not model.__module__.startswith("tests")
    }
    assert known - BOUNDS.keys() == set(), "say in BOUNDS what removes their rows"
    assert BOUNDS.keys() - known == set()


def test_bounds_name_sweeps_that_run() -> None:
    named = {word for bound in BOUNDS.values() for word in bound.replace(";", " ").split()}
    sweeps = {
        word
        for word in named
        if word.partition(".")[0]
        in {"common", "jobs", "journal", "dispatch", "bulk", "reports", "schedules"}
        and "." in word
    }
    assert sweeps and sweeps <= beat.periods().keys()


# --- the small ones -------------------------------------------------------------------------------
def reject(at: datetime) -> Model:
    return SinkReject.objects.create(sink="lake", entry_id=1, at=at, error="no", body="{}")


def worker(at: datetime) -> Model:
    return factories.worker(f"w:{at}".replace(" ", "T"), state="gone", last_heartbeat_at=at)


def bucket(at: datetime) -> Model:
    return Bucket.objects.create(type="keys", worker=str(at.timestamp()), seen_at=at)


def hold(at: datetime) -> Model:
    return Hold.objects.create(
        client="c", request_id=str(at.timestamp()), body_key="b", token="t", expires_at=at
    )


def flow_run(at: datetime) -> Model:
    number = ids.lowest_id_at(at) + FlowRun.objects.count()
    return FlowRun.objects.create(
        id=number, definition={}, status="failed", created_at=at, finished_at=at
    )


def problem(at: datetime) -> Model:
    return Problem.objects.create(
        kind="paused", key=str(at.timestamp()), first_seen=at, last_seen=at, changed_at=at
    )


def lease(at: datetime) -> Model:
    return SweepLease.objects.create(name=f"journal.sink.{at.timestamp()}", finished_at=at)


def session(at: datetime) -> Model:
    return Session.objects.create(session_key=str(at.timestamp()), session_data="", expire_date=at)


def attempt(at: datetime) -> Model:
    return _signed(AccessAttempt, at, failures_since_start=1)


def failure(at: datetime) -> Model:
    return _signed(AccessFailureLog, at)


def sign_in(at: datetime) -> Model:
    return _signed(AccessLog, at)


def _signed(model: Any, at: datetime, **fields: Any) -> Model:
    row = model.objects.create(username=str(at), ip_address="10.0.0.1", user_agent="x", **fields)
    model.objects.filter(pk=row.pk).update(attempt_time=at)
    return row  # type: ignore[no-any-return]


def edit(at: datetime) -> Model:
    person, _made = User.objects.get_or_create(username="ann")
    return LogEntry.objects.create(user=person, action_flag=CHANGE, action_time=at)


def delivery(at: datetime) -> Model:
    channel = Channel.objects.first() or alerts.channel()
    return Delivery.objects.create(channel=channel, event="test", message={}, created_at=at)


def alert(at: datetime) -> Model:
    rule = AlertRule.objects.first() or alerts.rule()
    return Alert.objects.create(rule=rule, subject="worker:w", value=0, since=at, resolved_at=at)


def sent_form(at: datetime) -> Model:
    return SentForm.objects.create(number=int(at.timestamp()), sent_at=at)


SMALL: dict[Callable[[datetime], Model], timedelta] = {
    reject: timedelta(days=30),
    worker: timedelta(days=7),
    bucket: timedelta(days=1),
    hold: timedelta(),
    flow_run: timedelta(days=400),
    lease: timedelta(days=30),
    sent_form: timedelta(days=2),
    session: timedelta(),
    attempt: timedelta(days=30),
    failure: timedelta(days=30),
    sign_in: timedelta(days=400),
    edit: timedelta(days=400),
    delivery: timedelta(days=90),
    alert: timedelta(days=90),
    problem: timedelta(days=90),
}


@pytest.mark.django_db
def test_small_table_keeps_what_is_young_and_loses_what_is_old(
    frozen_clock: FrozenClock, subtests: pytest.Subtests
) -> None:
    """S2.8."""
    for make, kept in SMALL.items():
        with subtests.test(make=make), undone():
            horizon = frozen_clock.instant - kept
            model = type(make(horizon - timedelta(seconds=1)))
            for n in range(2):
                make(horizon - timedelta(minutes=n + 1))
            young = make(horizon + timedelta(minutes=1))

            assert tidy_up() == 3

            rows = model._default_manager.all()
            if model is SweepLease:
                rows = rows.exclude(name=tidy.SWEEP)
            assert [row.pk for row in rows] == [young.pk]
            assert tidy_up() == 0


def test_all_tables_that_are_tidied_are_tried_here() -> None:
    assert len(tidy._small) == len(SMALL)
    assert len([bound for bound in BOUNDS.values() if "common.tidy" in bound]) == len(SMALL)


@pytest.mark.django_db
def test_many_rows_go_chunk_by_chunk_until_the_time_is_over(
    frozen_clock: FrozenClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tidy, "CHUNK", 2)
    for n in range(5):
        session(frozen_clock.instant - timedelta(minutes=n + 1))

    assert tidy.tidy(until=frozen_clock.instant) == {}
    assert Session.objects.count() == 5
    assert tidy.tidy(until=frozen_clock.instant + timedelta(seconds=1)) == {"sessions": 5}


@pytest.mark.django_db
@override_settings(JOURNAL_RETENTION=timedelta(0))
def test_what_is_kept_with_the_journal_stays_for_ever_with_it(frozen_clock: FrozenClock) -> None:
    sign_in(frozen_clock.instant - timedelta(days=5_000))
    edit(frozen_clock.instant - timedelta(days=5_000))
    assert tidy_up() == 0


@pytest.mark.django_db
def test_sweep_keeps_the_lease_of_another_that_has_a_place_or_runs(
    frozen_clock: FrozenClock,
) -> None:
    """A platform may stand still for longer than leases are kept, and then goes on."""
    with sweep_lease("jobs.archive", at_most=timedelta(minutes=1)):
        pass
    save_position("jobs.archive", {"after": 7})
    for name in ("gone", "old"):
        with sweep_lease(name, at_most=timedelta(minutes=1)):
            pass
    frozen_clock.advance(days=31)
    with sweep_lease("old", at_most=timedelta(minutes=1)):
        assert tidy_up() == 1
    names = {*SweepLease.objects.values_list("name", flat=True)}
    assert names == {"jobs.archive", "old", tidy.SWEEP}
