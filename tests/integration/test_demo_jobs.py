"""The demo's jobs: submitted once, drained, and proven by the rows and the journal."""

from __future__ import annotations

from collections import Counter
from io import StringIO
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.core.management import CommandError, call_command

from apps.alerts.models import Alert
from apps.common import clock
from apps.jobs.handlers import http, ready
from apps.jobs.models import Job, JobType
from apps.jobs.runner.drain import Drain
from apps.jobs.runner.process import Node, Process
from apps.jobs.runner.worker import verify
from apps.jobs.services import admission
from apps.jobs.services.explain import explain
from apps.jobs.services.promote import promote_due
from apps.jobs.testing import run_due
from taskplatform.demo import handlers, jobs
from taskplatform.demo.alerts import make_rules
from taskplatform.demo.bulk import cancel_a_mistake
from taskplatform.demo.company import JOB_TYPES, ORDER_TYPES, ORDERS
from taskplatform.demo.jobs import (
    CHECKPOINTS,
    FAILING,
    HTTP,
    SLOW,
    JobRun,
    submit_first_jobs,
)
from tests.alerts import evaluate
from tests.frozen import FrozenClock
from tests.integration.bulk.conftest import carry_out, counts
from tests.jobs import end, take

pytestmark = pytest.mark.django_db

COUNTS = {HTTP: 3, FAILING: 2, SLOW: 1, CHECKPOINTS: 1}


def allow_http(settings: Any) -> None:
    settings.JOB_HTTP_HOSTS = (f"127.0.0.1:{settings.PORT}",)
    settings.JOB_HTTP_NETWORKS = ("127.0.0.1/32",)


@pytest.fixture
def web(settings: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """A web process that answers and that jobs may call."""
    allow_http(settings)
    monkeypatch.setattr(jobs.urllib.request, "urlopen", lambda *_, **__: StringIO())


@pytest.fixture
def drained(frozen_clock: FrozenClock, settings: Any, monkeypatch: pytest.MonkeyPatch) -> JobRun:
    """A run whose jobs have all been done by a worker, retries after their waits."""
    allow_http(settings)
    monkeypatch.setattr(http, "send", lambda *_: (200, {}, b"ok"))
    monkeypatch.setattr(ready.time, "sleep", lambda _: None)
    verify()
    monkeypatch.setattr(jobs, "counts_of", lambda _: COUNTS)
    run = JobRun(7)
    process = Process(Node("worker@test", ("fast", "slow"), 4))
    for _ in range(3):
        Drain(process, "slow").run(wait=False)
        frozen_clock.advance(seconds=30)
        promote_due()
    return run


def breaches(run: JobRun) -> dict[str, list[str]]:
    return {proof.promise: list(proof.breaches) for proof in run.proofs() if proof.breaches}


def test_every_promise_is_kept_by_a_drained_run(drained: JobRun) -> None:
    """S1.9, S4.1: one table serves calls, failures with retries, slow work and checkpoints."""
    assert breaches(drained) == {}
    line, over = drained.look()
    assert over and "██████████ 7 of 7 ended" in line
    assert [row[:5] for row in drained.rows()] == [
        [HTTP, "0", "3", "0", "0"],
        [FAILING, "0", "0", "2", "4"],
        [SLOW, "0", "1", "0", "0"],
        [CHECKPOINTS, "0", "1", "0", "0"],
    ]


def test_what_is_lost_or_wrong_is_a_breach(drained: JobRun) -> None:
    kinds = dict(Job.objects.values_list("pk", "type"))
    failing = [number for number in drained.numbers if kinds[number] == FAILING]
    others = [number for number in drained.numbers if kinds[number] != FAILING]
    lost, open_, wrong = others[:3]
    tired = failing[0]
    Job.objects.filter(pk=lost).delete()
    Job.objects.filter(pk=open_).update(status="ready")
    Job.objects.filter(pk=wrong).update(status="failed")
    Job.objects.filter(pk=tired).update(attempts=2)
    found = breaches(drained)
    assert found["nothing is lost"] == [f"job {lost} is not in the table any more"]
    assert found["every job has ended"] == [
        f"{kinds[open_]} {open_} is ready after 1 of 3 attempts"
    ]
    assert found["each failing job failed after exactly its attempts"] == [
        f"{FAILING} {tired} is failed after 2 of 3 attempts"
    ]
    assert found["every other job succeeded"] == [
        f"{kinds[wrong]} {wrong} is failed after 1 of 3 attempts"
    ]
    audited = " ".join(breach for breaches in found.values() for breach in breaches)
    # The journal knows that it succeeded.
    assert f"I53 job {wrong}: " in audited


# --- the first start ----------------------------------------------------------------------------
def test_first_jobs_are_submitted_once_and_some_for_later() -> None:
    assert submit_first_jobs() == 38 + sum(ORDERS.values())
    assert set(JobType.objects.values_list("name", flat=True)) == {*JOB_TYPES, *ORDER_TYPES}
    # Those that call the platform wait until that is allowed.
    assert not Job.objects.filter(type=HTTP).exists()
    assert Job.objects.filter(status="scheduled").count() == 4
    assert submit_first_jobs() == 0


def test_an_order_has_a_log_and_is_followed_by_its_receipt(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(handlers.time, "sleep", lambda _: None)
    monkeypatch.setattr(jobs, "ORDERS", {"Marktplatz": 2})
    submit_first_jobs()
    packed = run_due(handlers.ORDER)
    assert [len(outcome.logged) for outcome in packed] == [10, 10]
    assert [outcome.end for outcome in run_due(handlers.RECEIPT)] == ["succeeded"] * 2


@pytest.mark.both
def test_orders_of_a_shop_wait_for_each_other_and_not_for_those_of_other_shops(
    frozen_clock: FrozenClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two of each shop at once, and of its receipts two at once and then one in 15 s."""
    monkeypatch.setattr(handlers.time, "sleep", lambda _: None)
    submit_first_jobs()
    admission.sweep(clock.now())
    assert by_shop(handlers.ORDER, "ready") == dict.fromkeys(ORDERS, 2)
    assert by_shop(handlers.ORDER, "blocked") == {"Nanjing Road": 98, "Harbour Street": 6}
    last = Job.objects.filter(type=handlers.ORDER, status="blocked").latest("pk")
    why = " ".join(str(each.detail) for each in explain(last))
    assert "2 of 2 jobs with the same context.shop are ready or running; 5 are before" in why

    run_due(handlers.ORDER)
    run_due(handlers.RECEIPT)
    assert by_shop(handlers.RECEIPT, "succeeded") == dict.fromkeys(ORDERS, 2)
    frozen_clock.advance(seconds=15)
    assert len(run_due(handlers.RECEIPT)) == 2
    assert by_shop(handlers.RECEIPT, "blocked") == {"Nanjing Road": 97, "Harbour Street": 5}


def by_shop(name: str, status: str) -> dict[str, int]:
    contexts = Job.objects.filter(type=name, status=status).values_list("context", flat=True)
    return dict(Counter(context["shop"] for context in contexts))


def test_failing_jobs_of_the_demo_fire_an_alert(frozen_clock: FrozenClock) -> None:
    submit_first_jobs()
    assert (make_rules(), make_rules()) == (10, 0)
    for held in take(types=(FAILING,)):
        end(held, "failed", retry="never")

    evaluate()

    fired = Alert.objects.filter(fired_at__isnull=False)
    assert [str(each) for each in fired] == ["Jobs fail: demo-failing"]


def test_jobs_of_a_mistake_are_cancelled_by_a_bulk_run(admin_user: User) -> None:
    run = cancel_a_mistake()
    assert run is not None
    carry_out(run)

    assert counts(run) == ("done", 120, 120, 0, 0)
    assert Job.objects.filter(key="spring-letters", status="cancelled").count() == 120
    assert cancel_a_mistake() is None


# --- what keeps it from running -----------------------------------------------------------------
@pytest.mark.usefixtures("web")
def test_demo_without_a_worker_says_how_to_start_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jobs, "WORKER_SECONDS", 0.0)
    with pytest.raises(CommandError, match=r"No worker takes jobs of type demo-http.* make run"):
        call_command("demo", "--jobs", "4", stdout=StringIO())
    assert not Job.objects.exists()


def test_platform_that_jobs_may_not_call_or_that_is_down_is_named(settings: Any) -> None:
    with pytest.raises(CommandError, match=r"may not call .* JOB_HTTP_HOSTS=127.0.0.1:\d+ and"):
        call_command("demo", "--jobs", "4", stdout=StringIO())
    allow_http(settings)
    settings.PORT = 1
    settings.JOB_HTTP_HOSTS = ("127.0.0.1:1",)
    with pytest.raises(CommandError, match=r"127\.0\.0\.1:1/health/live\. Start .*same PORT"):
        call_command("demo", "--jobs", "4", stdout=StringIO())
    assert not Job.objects.exists()
