"""Runs that fail and steps that go on for too long: problems, alerts, metrics and reports."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import timedelta
from html import unescape
from typing import Any
from urllib.parse import unquote

import pytest
from django.contrib.auth.models import User
from django.test import Client
from django.urls import reverse

from apps.alerts.models import Alert, Delivery
from apps.common import clock
from apps.dispatch.models import OperatorScope
from apps.flows.services import control, figures
from apps.flows.services.advance import advance
from apps.flows.services.flows import put_flow
from apps.flows.services.start import start
from apps.jobs.models import JobScope
from apps.reports.rules.outcomes import FLOW, STEP
from apps.reports.services.summary import TYPES, Period, summarise
from tests import factories
from tests.alerts import channel, evaluate, rule
from tests.flows import OLGA, failing, job, jobs, run_of, started, wait, work
from tests.frozen import FrozenClock
from tests.integration.reports.day import roll_up
from tests.integration.reports.prometheus import samples
from tests.pages import text_of
from tests.statements import explained, sent_by

pytestmark = [pytest.mark.django_db, pytest.mark.both]


def flow(name: str, *steps: dict[str, Any]) -> int:
    put_flow(name=name, definition={"steps": [*steps]}, actor="deploy")
    return start(name).id


def alerts() -> set[tuple[str, str]]:
    return {*Alert.objects.filter(resolved_at=None).values_list("subject", "rule__name")}


def test_failed_run_is_a_problem_until_it_is_tried_again(
    mail: FrozenClock, admin_client: Client, role_client: Callable[[str], Client]
) -> None:
    may_fail = job("glance", optional=True)
    run = flow("night", may_fail, job("list", needs=["glance"]), job("resize", needs=["list"]))
    work(run, "glance", failing)
    work(run, "list")
    work(run, "resize", failing)
    assert run_of(run).status == "failed"

    page = admin_client.get(reverse("problems"))
    assert f"Run night ({run}) failed at step resize" in text_of(page)
    chinese = admin_client.get(reverse("problems"), headers={"Accept-Language": "zh-hans"})
    assert "1 个作业中有 0 个成功" in text_of(chinese)
    assert reverse("admin:flows_flowrun_act", args=["retry"]) in page.content.decode()
    viewer = role_client("viewer").get(reverse("problems"))
    assert f"Run night ({run})" in text_of(viewer)
    assert reverse("admin:flows_flowrun_act", args=["retry"]) not in viewer.content.decode()

    control.retry(run=run_of(run), **OLGA)
    mail.advance(seconds=10)
    assert f"({run})" not in text_of(admin_client.get(reverse("problems")))
    work(run, "resize", failing)
    mail.advance(days=7, seconds=1)
    assert f"({run})" not in text_of(admin_client.get(reverse("problems")))


def test_people_with_limits_hear_of_no_run(
    mail: FrozenClock, role_user: Callable[[str], User], client: Client, subtests: Any
) -> None:
    work(flow("night", job("list")), "list", failing)
    factories.group(members=["uid_ann"])
    for role, limit in (("operator", "types"), ("configurer", "people")):
        with subtests.test(limit=limit):
            person = role_user(role)
            if limit == "types":
                JobScope.objects.create(operator=person, type="mail")
            else:
                OperatorScope.objects.create(operator=person, executor=factories.user("uid_eve"))
            client.force_login(person)
            for address in (reverse("problems"), reverse("admin:index")):
                assert "night" not in client.get(address).content.decode()
            report = client.get(reverse("report"), {"source": "flow"})
            assert "night" not in report.content.decode()
            assert "source=flow is none of" in text_of(report)


def test_rules_notify_people_of_runs_of_their_flow(mail: FrozenClock, admin_client: Client) -> None:
    for name, of in (("night fails", "night"), ("any fails", "")):
        rule(name, "run_failed", target=of, channels=[channel(name)])
    rule("long", "step_active", threshold=600, channels=[channel()])
    night, day = flow("night", job("list")), flow("day", wait("gate"))
    own = started(job("list"))
    assert evaluate().keys() <= {"nothing"}
    for run in (night, own):
        work(run, "list", failing)
    mail.advance(seconds=601)
    evaluate()

    assert alerts() == {
        (f"flow_run:{night}", "night fails"),
        (f"flow_run:{night}", "any fails"),
        (f"flow_run:{own}", "any fails"),
        (f"flow_run:{day}", "long"),
    }
    # The alert stands in place of the problem, and has its button.
    page = unescape(admin_client.get(reverse("problems")).content.decode())
    assert f"{reverse('admin:flows_flowrun_act', args=['retry'])}?ids={night}" in page
    messages = {each.message["text"]: each.message for each in Delivery.objects.all()}
    assert f"Run night ({night}) failed." in messages
    assert any(f"A step of run day ({day}) has been active for 10 min 1 s" in t for t in messages)

    control.finish(run=run_of(day), step="gate", **OLGA)
    mail.advance(seconds=15)
    evaluate()
    assert (f"flow_run:{day}", "long") not in alerts()
    assert Delivery.objects.filter(event="alert.resolved").count() == 1


def test_longest_steps_and_latest_failures_are_read_by_an_index(mail: FrozenClock) -> None:
    run = started(wait("first"), wait("second"))
    work(started(job("a")), "a", failing)
    mail.advance(hours=1)
    later = started(wait("third"))
    found = figures.long_active(10)
    assert [(each.run, each.step) for each in found] == [(run, "first"), (later, "third")]
    week = clock.now() - timedelta(days=7)
    for read, index in (
        (lambda: figures.failed_since(week, 10), "flow_run_ended"),
        (lambda: figures.long_active(10), "flow_step_active"),
    ):
        assert index in explained(sent_by(read)[0])


def test_metrics_tell_of_open_and_failed_runs(mail: FrozenClock, api: Any) -> None:
    started(wait("gate"))
    cancelled = started(jobs("a", [1]))
    control.cancel(run=run_of(cancelled), **OLGA)
    work(started(job("b")), "b", failing)
    mail.advance(seconds=90)
    roll_up()
    found = samples(api)
    assert found["flow_runs{status=running}"] == found["flow_runs{status=failed}"] == 1
    assert found["flow_step_oldest_seconds"] == 90
    assert found["ended_total{outcome=failed,source=flow,type=}"] == 1


def test_reports_count_runs_and_steps(
    mail: FrozenClock,
    admin_client: Client,
    api: Any,
    api_with: Any,
    make_key: Any,
    subtests: Any,
) -> None:
    begin = clock.now()
    for how in ("succeeded", "succeeded", failing):
        run = flow("night", job("list"), job("resize", needs=["list"]))
        mail.advance(seconds=10)
        work(run, "list")
        mail.advance(seconds=30)
        work(run, "resize", how)
    again = flow("day", job("list"))
    control.cancel(run=run_of(again), **OLGA)
    advance(again)
    work(started(job("own")), "own")
    mail.advance(minutes=3)
    roll_up()
    period = Period(begin, clock.now(), clock.now().tzinfo)  # type: ignore[arg-type]

    def figures(source: str) -> dict[str, Any]:
        return {row.group: row for row in summarise(source, TYPES[source], period).rows}

    runs, steps = figures(FLOW), figures(STEP)
    assert {name: (row.succeeded, row.failed, row.cancelled) for name, row in runs.items()} == {
        "night": (2, 1, 0),
        "day": (0, 0, 1),
    }
    assert {name: row.total for name, row in steps.items()} == {
        "night/list": 3,
        "night/resize": 3,
        "day/list": 1,
    }
    assert abs((runs["night"].run.p50 or 0) - 40_000) < 1_000
    assert abs((steps["night/resize"].run.p95 or 0) - 30_000) < 1_000
    assert summarise(FLOW, "day", period).total.total == 5
    assert summarise(STEP, "day", period).total.total == 8

    for query, shown, hidden in (
        ({"source": "flow"}, ["night", "66.7 %"], ["night/list"]),
        ({"source": "step"}, ["night/list", "day/list"], []),
        ({"source": "step", "flow": "night"}, ["night/resize"], ["day/list"]),
        ({"source": "flow", "by": "hour", "only": "flow:night"}, ["66.7 %"], ["day"]),
    ):
        with subtests.test(**query):
            page = admin_client.get(reverse("report"), {"period": "1h", **query})
            table = page.content.decode().partition("<table")[2].partition("</table>")[0]
            assert all(each in table for each in shown), table
            assert not any(f">{each}<" in table for each in hidden)
            text = admin_client.get(reverse("report_csv"), {"period": "1h", **query})
            assert "run_p95_ms" in text.content.decode()
    summary = "/api/v1/reports/summary/?source=flow&by=flow"
    assert [row["group"] for row in api.get(summary).json()["rows"]] == ["night", "day"]
    for bound in ({"job_types": ["mail"]}, {"executors": ["uid_ann"]}):
        assert api_with(make_key(["read"], **bound)).get(summary).status_code == 403


def test_figures_lead_to_the_entries_and_runs_that_they_count(
    mail: FrozenClock, admin_client: Client
) -> None:
    run = flow("night", job("list"), job("resize", needs=["list"]))
    work(run, "list")
    work(run, "resize")
    mail.advance(minutes=3)
    roll_up()
    page = admin_client.get(reverse("report"), {"period": "1h", "source": "step"})
    urls = re.findall(r'href="([^"]+)"', unescape(page.content.decode()))
    totals = [url for url in urls if "counted=total" in url and "run_from" not in url]
    for url, count in ((totals[0], 2), (next(u for u in totals if "night/list" in unquote(u)), 1)):
        found = admin_client.get(url)
        assert len(found.context["cl"].result_list) == count
    assert f"{reverse('admin:flows_flowrun_changelist')}?flow=night" in urls
