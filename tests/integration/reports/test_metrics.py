"""`/metrics`: who may read it, what it says, and that it reads no more of a table than it shows."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from django.db import connection
from django.test import Client
from prometheus_client.parser import text_string_to_metric_families

from apps.access.rules.clients import Scope
from apps.alerts.models import Alert, AlertRule
from apps.common import clock
from apps.common.leases import sweep_lease
from apps.dispatch.models import Dispatch
from apps.dispatch.services import pull
from apps.jobs.models import Job, JobType
from apps.journal.conf import SinkAddress
from apps.journal.models import JournalEntry
from apps.reports import metrics
from apps.reports.services import last_minutes
from apps.reports.services.rollup import rebuild, roll_up
from apps.reports.watches.tables import READ
from tests import callback, factories
from tests.caches import clear_caches
from tests.frozen import FrozenClock
from tests.integration.reports.history import entry, write
from tests.integration.reports.prometheus import samples
from tests.jobs import job_type, jobs
from tests.statements import OPEN_JOBS, indexes_on, is_read, is_sorted, sent_by

pytestmark = pytest.mark.django_db
ENDS = ("succeeded", "failed", "released", "expired", "retried")
# Of jobs.
OUTCOMES = (*ENDS, "timed_out", "cancelled", "stage_done")
README = Path(metrics.__file__).with_name("README.md")


@pytest.fixture(autouse=True)
def embedded(settings: Any) -> None:
    settings.EMBEDDED = True


# --- who may read it ----------------------------------------------------------------------------
def test_metrics_need_a_key_for_them_that_is_bound_to_nothing(
    client: Client, make_key: Callable[..., str], settings: Any
) -> None:
    settings.EMBEDDED = False

    def status(key: str | None) -> int:
        headers = {} if key is None else {"Authorization": f"Bearer {key}"}
        return client.get("/metrics", headers=headers).status_code

    assert client.get("/metrics")["WWW-Authenticate"] == "Bearer"
    assert status(None) == 401
    assert status("nobody.nothing") == 401
    for scope in Scope:
        assert status(make_key(scopes=[scope])) == (200 if scope == "metrics" else 403)
    assert status(make_key(scopes=["metrics"], job_types=["mail"])) == 403
    factories.user("uid_alice")
    assert status(make_key(scopes=["metrics"], executors=["uid_alice"])) == 403


def test_metrics_of_a_machine_need_a_key_when_they_are_for_somebody_else(client: Client) -> None:
    """As a job does that calls the platform itself: who submits it may not read them."""
    assert client.get("/metrics").status_code == 200
    for name, value in (
        *(("Via", "1.1 taskplatform"), ("X-Forwarded-For", "192.0.2.1")),
        *(("Forwarded", "for=192.0.2.1"), ("X-Real-IP", "192.0.2.1")),
    ):
        assert client.get("/metrics", headers={name: value}).status_code == 401, name
    assert client.get("/metrics", REMOTE_ADDR="192.0.2.1").status_code == 401


def test_wrong_key_is_refused_where_none_is_needed(client: Client) -> None:
    assert client.get("/metrics", headers={"Authorization": "Bearer a.b"}).status_code == 401


# --- what it says -------------------------------------------------------------------------------
def test_empty_platform_has_its_figures(client: Client, settings: Any) -> None:
    said = samples(client)
    assert said["dispatches_open"] == 0
    assert said["workers{kind=celery,state=active}"] == 0
    assert said[f"info{{database={connection.vendor},version={settings.RELEASE}}}"] == 1
    assert not [name for name in said if name.startswith(("jobs{", "sweep_overdue"))]


def test_readme_names_each_metric_with_its_labels_and_no_other(
    client: Client, frozen_clock: FrozenClock, settings: Any
) -> None:
    """On a platform that has one of everything."""
    settings.JOURNAL_SINKS = (SinkAddress("lake", "file:///nowhere"),)
    job_type(breaker_enabled=True)
    with sweep_lease("jobs.reorder", at_most=timedelta(seconds=30)):
        pass
    write(entry(frozen_clock.instant))
    frozen_clock.advance(minutes=5)
    roll_up(until=clock.now() + timedelta(minutes=1))
    rows = re.findall(r"^\| `(taskplatform_\w+)` \|([^|]*)\|", README.read_text(), re.MULTILINE)

    said = [
        (sample.name if family.type == "counter" else family.name, {*sample.labels} - {"le"})
        for family in text_string_to_metric_families(client.get("/metrics").content.decode())
        for sample in family.samples
    ]

    named = {name: {*re.findall(r"`(\w+)`", labels)} for name, labels in rows}
    assert {name for name, _labels in said} == {*named}
    assert [(name, labels) for name, labels in said if labels != named[name]] == []


def test_rate_of_what_comes_and_alerts_that_fire(client: Client, frozen_clock: FrozenClock) -> None:
    job_type()
    job_type("idle")
    frozen_clock.advance(minutes=10)
    jobs(10)
    jobs(3, run_at=clock.now() + timedelta(hours=1))
    for name, fields in {
        "fires": {"fired_at": clock.now()},
        "snoozed": {"fired_at": clock.now(), "snoozed_until": clock.now() + timedelta(hours=1)},
        "pending": {},
        "over": {"fired_at": clock.now(), "resolved_at": clock.now()},
    }.items():
        rule = AlertRule.objects.create(
            name=name,
            kind="oldest_due",
            severity="critical",
            created_at=clock.now(),
            updated_at=clock.now(),
        )
        Alert.objects.create(rule=rule, subject="type:mail", value=1, since=clock.now(), **fields)
    frozen_clock.advance(seconds=1)

    said = samples(client)

    assert 1 < said["jobs_submitted_per_minute{type=mail}"] <= 2
    assert said["jobs_submitted_per_minute{type=idle}"] == 0
    assert said["alerts_firing{severity=critical}"] == 1
    assert said["alerts_firing{severity=warning}"] == 0


def test_open_dispatches_and_the_earliest_deadline_that_passed(
    client: Client, frozen_clock: FrozenClock
) -> None:
    group = factories.group(members=["uid_alice", "uid_bob"])
    factories.once_task(group, mode="multi", dispatch_times=2, lease_seconds=60)
    for uid in ("uid_alice", "uid_bob"):
        pull.answer_pull(uid)
        frozen_clock.advance(seconds=10)
    said = samples(client)
    assert (said["dispatches_open"], said["dispatches_overdue_seconds"]) == (2, 0)

    frozen_clock.advance(seconds=45)

    assert samples(client)["dispatches_overdue_seconds"] == 5


def test_sweeps_report_how_late_they_are_and_how_long_they_took(
    client: Client, frozen_clock: FrozenClock
) -> None:
    with sweep_lease("jobs.reorder", at_most=timedelta(seconds=30)):
        frozen_clock.advance(seconds=2.5)
    with sweep_lease("audit", at_most=timedelta(seconds=30)):
        pass
    frozen_clock.advance(seconds=17)

    said = samples(client)

    assert said["sweep_overdue_seconds{sweep=jobs.reorder}"] == 7
    assert said["sweep_duration_seconds{sweep=jobs.reorder}"] == 2.5
    assert "sweep_overdue_seconds{sweep=audit}" not in said


def test_what_ended_grows_and_latencies_are_those_of_the_last_quarter(
    client: Client, frozen_clock: FrozenClock
) -> None:
    """Counters and histograms begin with 0: Prometheus sees no increase of what begins with 1."""
    start = frozen_clock.instant
    job_type()
    said = samples(client)
    begun = {n: v for n, v in said.items() if n.startswith(("ended_", "waited_", "ran_", "handed"))}
    assert {*begun.values()} == {0}
    assert {n for n in begun if "type=mail" in n} == {
        f"ended_total{{outcome={each},source=job,type=mail}}" for each in OUTCOMES
    }
    assert "ran_seconds_bucket{le=+Inf,source=dispatch}" in begun
    assert {f"alerts_firing{{severity={each}}}" for each in ("warning", "critical")} <= {*said}
    assert samples(client)["rollup_lag_seconds"] == 0
    write(
        entry(start + timedelta(seconds=5), type_or_task="mail", wait_ms=40, run_ms=2000),
        entry(start + timedelta(hours=2), type_or_task="mail", wait_ms=0, run_ms=100_000),
        # Of a type that is gone since.
        entry(start + timedelta(hours=2), type_or_task="gone", wait_ms=0, run_ms=100_000),
    )
    frozen_clock.advance(hours=1)
    roll_up(until=clock.now() + timedelta(minutes=1))
    assert samples(client)["ended_total{outcome=succeeded,source=job,type=mail}"] == 1
    assert "run_seconds{quantile=0.5,source=job,type=mail}" not in samples(client)

    frozen_clock.advance(hours=1, minutes=5)
    roll_up(until=clock.now() + timedelta(minutes=1))
    frozen_clock.advance(seconds=30)

    said = samples(client)
    assert said["ended_total{outcome=succeeded,source=job,type=mail}"] == 2
    assert said["ended_total{outcome=failed,source=job,type=mail}"] == 0
    assert "ended_total{outcome=total,source=job,type=mail}" not in said, "it would count twice"
    assert said["run_seconds{quantile=0.95,source=job,type=mail}"] == pytest.approx(100, rel=0.02)
    assert said["wait_seconds{quantile=0.5,source=job,type=mail}"] == 0
    assert not [name for name in said if "ended" in name and "type=gone" in name]
    found = {le: said[f"ran_seconds_bucket{{le={le},source=job}}"] for le in ("1.0", "5.0", "+Inf")}
    assert found == {"1.0": 0, "5.0": 1, "+Inf": 3}
    assert said["ran_seconds_count{source=job}"] == 3
    assert said["ran_seconds_sum{source=job}"] == pytest.approx(202, rel=0.02)
    assert said["ran_seconds_count{source=dispatch}"] == 0
    assert 30 <= said["rollup_lag_seconds"] <= 120


def test_hand_outs_and_callbacks_are_counted_once_and_for_ever(
    client: Client, frozen_clock: FrozenClock
) -> None:
    people = [f"uid_{name}" for name in ("ava", "bo", "cy")]
    factories.once_task(
        factories.group(members=people),
        mode="multi",
        dispatch_times=3,
        on_failure="retry_same",
        max_rounds=2,
    )
    ends = {"uid_ava": "succeeded", "uid_bo": "failed"}
    for uid in people:
        for _again in range(2):
            pull.answer_pull(uid)
    for uid, outcome in ends.items():
        mine = Dispatch.objects.get(executor__name=uid)
        callback.call_back(executor=mine.executor, number=mine.pk, outcome=outcome)
    # The one that failed is handed out once more.
    pull.answer_pull("uid_bo")
    callback.release(
        executor=factories.member("uid_cy"), number=Dispatch.objects.get(executor__name="uid_cy").pk
    )
    said = []
    # From minutes, from hours and days, and added up anew once more.
    for pause in (timedelta(minutes=2), timedelta(hours=30), timedelta(days=40)):
        frozen_clock.move_to(frozen_clock.instant + pause)
        roll_up(until=clock.now() + timedelta(minutes=1))
        said.append(samples(client))
    end = clock.now()
    list(rebuild(end - timedelta(days=60), end))
    clear_caches()
    said.append(samples(client))

    for each in said:
        assert each["handed_out_total"] == JournalEntry.objects.filter(event="handed_out").count()
        assert each["handed_out_total"] == 4
        ended = {o: each[f"ended_total{{outcome={o},source=dispatch,type=}}"] for o in ENDS}
        assert ended == {"succeeded": 1, "failed": 1, "released": 1, "expired": 0, "retried": 1}


def test_names_of_people_and_tasks_are_no_labels(client: Client, frozen_clock: FrozenClock) -> None:
    """However many executors, tasks, hosts and errors there are, a scrape is as long."""

    def lines(count: int) -> int:
        made = frozen_clock.instant
        for number in range(count):
            name = f"{count}-{number}"
            write(
                entry(made, "dispatch", type_or_task=f"once:{number}", executor=f"uid_{name}"),
                entry(made, host=f"host-{name}", worker=f"host-{name}:1", error_key=name),
            )
        frozen_clock.advance(minutes=3)
        roll_up(until=clock.now() + timedelta(minutes=1))
        return len(samples(client))

    assert lines(2) == lines(40)


# --- what it costs ------------------------------------------------------------------------------
def test_scrape_takes_as_many_statements_with_a_hundred_types(
    client: Client, frozen_clock: FrozenClock
) -> None:
    job_type()
    few = sent_by(lambda: samples(client))
    now = clock.now()
    JobType.objects.bulk_create(
        [JobType(name=f"type-{n}", created_at=now, updated_at=now) for n in range(100)]
    )
    many = sent_by(lambda: samples(client))

    assert len(many) == len(few) <= 42


@pytest.mark.both
def test_no_statement_reads_finished_jobs(client: Client, frozen_clock: FrozenClock) -> None:
    """History never slows what is asked every few seconds. Only the look at the mover reads the
    first few rows that it has not come to, what comes is a sample of the newest rows, and failed
    jobs are counted up to a limit."""
    job_type()
    jobs(3)
    jobs(400, status="succeeded", finished_at=clock.now())
    every = [sql for sql in sent_by(lambda: samples(client)) if is_read(Job, sql)]
    ends = (f"ORDER BY id LIMIT {READ}", f"LIMIT {last_minutes.MAX_SAMPLED}) newest GROUP BY type")
    reads = [sql for sql in every if not sql.endswith(ends)]
    assert (len(every) - len(reads), READ, last_minutes.MAX_SAMPLED) == (2, 200, 10_000)
    assert len(reads) >= 4
    for sql in reads:
        assert indexes_on(Job, sql) <= {*OPEN_JOBS, "job_failed"}, sql
        assert not is_sorted(Job, sql), sql
