"""The weekly price round: what is planned once, and the run that stands half done."""

from __future__ import annotations

from collections import Counter
from datetime import timedelta
from io import StringIO
from zoneinfo import ZoneInfo

import pytest
from django.core.management import CommandError, call_command
from django.test import Client

from apps.common import clock
from apps.common.audit import audit
from apps.dispatch.models import Dispatch
from apps.dispatch.services.pull import call_back
from apps.flows.models import Flow, FlowRun, FlowStep
from apps.flows.services.flows import put_flow
from apps.jobs.models import Worker
from apps.jobs.services.control import retry
from apps.reports.services import of_type
from apps.reports.services.coverage import Stored
from apps.schedules.models import Schedule
from taskplatform.audit import CHECKS
from taskplatform.demo import price_round as demo
from taskplatform.demo.company import ACTOR
from tests import history, price_round, trouble
from tests.flows import run_of, states
from tests.frozen import FrozenClock
from tests.jobs import job_type, rescue
from tests.pages import text_of

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("frozen_clock")]

WHOLE = timedelta(weeks=6) + price_round.SO_FAR


@pytest.fixture
def standing(frozen_clock: FrozenClock) -> FlowRun:
    now = frozen_clock.instant
    frozen_clock.move_to(now - WHOLE)
    return price_round.play_up_to(frozen_clock, now)


def test_round_stands_half_done_after_six_that_took_as_long_as_ever(
    standing: FlowRun, frozen_clock: FrozenClock
) -> None:
    now = frozen_clock.instant
    assert (standing.status, standing.created_at) == ("running", now - timedelta(minutes=42))
    photos = Dispatch.objects.filter(part_of=FlowStep.objects.get(run=standing, name="photos").pk)
    ends = Counter(photos.values_list("state", flat=True))
    assert ends == {"succeeded": 5, "open": 1}
    last = photos.get(state="open")
    assert (last.executor.title, last.dispatched_at) == ("Hugo Silva", now - timedelta(minutes=22))
    jobs = price_round.jobs_of(standing, "recognise")
    assert Counter(jobs.values_list("status", flat=True)) == {
        **{"succeeded": 9, "failed": 1, "running": 1, "scheduled": 1}
    }
    failed = jobs.get(status="failed")
    assert (failed.attempts, failed.memo) == (3, demo.ERROR)
    running = jobs.get(status="running")
    assert (running.worker, running.held_at) == ("shop-3", now - timedelta(seconds=27))
    assert states(standing.pk) == {
        **{"photos": "active", "recognise": "active", "sort": "blocked", "again": "blocked"},
        **{"release": "active", "review": "blocked", "report": "blocked", "alarm": "blocked"},
    }
    before = FlowRun.objects.filter(flow=demo.NAME, status="succeeded").order_by("pk")
    took = [(run.finished_at - run.created_at) / timedelta(minutes=1) for run in before]  # type: ignore[operator]
    assert took == [*price_round.TOOK] and sum(took) / len(took) == 80
    again = [states(run.pk)["again"] for run in before]
    assert Counter(again) == {"succeeded": 2, "skipped": 4}
    assert not [breach for each in audit(CHECKS) for breach in each.breaches]


def test_what_stands_goes_on_to_its_end(standing: FlowRun, frozen_clock: FrozenClock) -> None:
    """What failed is retried by hand, a worker is lost, and the last photo is too dark."""
    open_ = Dispatch.objects.get(state="open")
    call_back(price_round.LAST, open_.pk, "succeeded", result={"photos": price_round.PHOTOS[10:]})
    jobs = price_round.jobs_of(standing, "recognise")
    retry(job=jobs.get(status="failed"), actor="admin:olga", reason="It answers again")
    frozen_clock.advance(minutes=31)
    assert rescue(frozen_clock) == 1
    ends, dark = frozen_clock.instant + timedelta(minutes=20), price_round.PHOTOS[11]
    price_round.go_on(frozen_clock, standing.pk, until=ends, dark=dark)
    assert states(standing.pk).pop("alarm") == "skipped"
    assert Counter(states(standing.pk).values()) == {"succeeded": 7, "skipped": 1}
    assert run_of(standing.pk).finished_at == ends
    again = Dispatch.objects.get(part_of=FlowStep.objects.get(run=standing, name="again").pk)
    assert again.params == {"shop": "Nanjing Road", "photos": [dark]}
    review = FlowStep.objects.get(run=standing, name="review").result
    assert review == [{"prices": 11 * 24, "agreed": True}]
    report = price_round.jobs_of(standing, "report").get()
    assert report.context["photos"] == {"run": str(standing.pk), "step": "recognise", "count": 12}


def test_flow_is_planned_once_and_its_schedule_has_missed_nothing(
    standing: FlowRun, frozen_clock: FrozenClock
) -> None:
    schedule = Schedule.objects.get(job_type=demo.START)
    assert standing.started_by == f"schedule:{schedule.pk}"
    assert schedule.next_at is not None
    assert timedelta() < schedule.next_at - frozen_clock.instant <= timedelta(weeks=1)
    assert schedule.context["flow"] == demo.NAME
    out = StringIO()
    call_command("demo", "--flow", stdout=out)
    assert out.getvalue().startswith(f"Run {standing.pk}, running, is the newest:\n")
    assert "12 price-read       9 of 12       1\n" in out.getvalue()
    assert (Flow.objects.count(), FlowRun.objects.count(), Worker.objects.count()) == (1, 7, 1)


def test_round_is_refused_where_its_programs_are_run_otherwise() -> None:
    job_type(demo.RECOGNISE, handler="http_request")
    with pytest.raises(CommandError, match="play this one on a new platform"):
        demo.plan_flow()
    assert not Flow.objects.exists()


@pytest.mark.parametrize("order", [("trouble", "flow"), ("flow", "trouble")])
def test_round_and_the_things_that_need_somebody_stand_beside_each_other(
    order: tuple[str, ...], admin_client: Client
) -> None:
    for scene in order:
        call_command("demo", f"--{scene}", stdout=StringIO())

    assert FlowRun.objects.filter(flow=demo.NAME, status="running").count() == 1
    text = text_of(admin_client.get("/admin/"))
    for said in (
        f"64 of 128 {trouble.PRICES} jobs failed in 15 min",
        f"“{trouble.TASK}” will not fill: 11 of 18",
        f"Worker {trouble.SILENT} has been silent for 3 min; it holds 4 jobs",
        f"{trouble.INVOICES} is paused by Hugo Silva",
        "Alerts reach nobody: no channel is set",
    ):
        assert said in text, text[:900]


def test_flow_of_an_earlier_demo_gets_its_next_version_and_that_of_an_operator_stays() -> None:
    demo.plan_flow()
    earlier = {"steps": demo.definition()["steps"][:2], "params": demo.definition()["params"]}
    for actor, versions in ((ACTOR, 3), ("admin:olga", 4)):
        put_flow(name=demo.NAME, title=demo.TITLE, definition=earlier, actor=actor)
        planned, _schedule = demo.plan_flow()
        assert planned.version == Flow.objects.count() == versions
    assert planned.created_by == "admin:olga"


def test_reports_have_the_rounds_of_weeks_before_the_platform_ran() -> None:
    """What is added up so far begins today, and the rounds lie before it."""
    history.add_up_since(clock.now())

    price_round.play()

    stored, zone = Stored.read(), ZoneInfo("UTC")
    by_hour = of_type.through_time("price-read", "24h", zone, stored)
    by_day = of_type.through_time("price-read", "30d", zone, stored)
    assert by_hour is not None and by_day is not None
    assert (by_hour.total.succeeded, by_hour.total.failed) == (9, 1)
    assert by_day.total.succeeded == 9 + 4 * 12
