"""The pages of planned reports."""

from __future__ import annotations

from typing import Any

import pytest
from django.contrib.auth.models import User
from django.urls import reverse

from apps.alerts.handlers import send_report
from apps.alerts.models import Delivery, ReportPlan
from apps.jobs.models import JobScope
from apps.schedules.models import ScheduleRun
from tests.alerts import Attempt, Receiver, address, channel, report_plan
from tests.pages import form_of, text_of

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("frozen_clock")]


def test_report_is_planned_from_its_page(role_client: Any) -> None:
    client, made_channel = role_client("operator"), channel()
    page = client.get(reverse("report"), {"by": "host", "period": "7d", "zone": "Asia/Shanghai"})
    add = page.context["plan_url"]
    form = form_of(client.get(add), "query")
    assert form["query"] == "source=job&by=host&period=7d&zone=Asia%2FShanghai"
    assert (form["time_zone"], form["every_days"], form["at"]) == ("Asia/Shanghai", "1", "08:00")

    typed = {**form, "title": "Hosts", "channels": [str(made_channel.pk)]}
    assert client.post(address("reportplan", "add"), typed).status_code == 302

    made = ReportPlan.objects.get()
    assert (made.owner.get_username(), made.rule) == ("operator", {"every_days": 1, "at": "08:00"})
    shown = text_of(client.get(address("reportplan", "change", made.pk)))
    assert "Jobs · By host · 7 days · Asia/Shanghai" in shown
    assert "Next five Tue 3 Mar 08:00" in shown
    assert "Daily at 08:00, Asia/Shanghai: Jobs · By host · 7 days" in shown
    assert "report source=job&by=host" in " ".join(shown.split())


def test_form_of_a_report_says_itself_back_and_saves_nothing(role_client: Any) -> None:
    client, made_channel = role_client("operator"), channel()
    add = address("reportplan", "add")
    assert "Fill in the form; what it means is said here." in text_of(client.get(add))
    form = form_of(client.get(add), "query")
    typed = {**form, "_draft": "1", "query": "/admin/reports/?source=job&by=host&period=7d"}
    weekly = {**typed, "every": "week", "weekdays": ["1", "4"], "at": "08:30", "time_zone": "UTC"}

    text = " ".join(text_of(client.post(add, {**weekly, "channels": [made_channel.pk]})).split())

    assert "Next five Thu 5 Mar 08:30 Mon 9 Mar 08:30" in text
    said = "Every Monday and Thursday at 08:30, UTC: Jobs · By host · 7 days · UTC, to ops."
    assert said in text
    for wrong, said in (
        ({"query": "by=colour"}, "Fill in the form; what it means is said here."),
        ({"at": "25:00"}, "Fill in the form; what it means is said here."),
        ({"weekdays": []}, "none yet"),
        ({"query": "source=job"}, "; nobody gets it yet."),
    ):
        assert said in text_of(client.post(add, {**weekly, **wrong})), wrong
    assert not ReportPlan.objects.exists()


def test_wrong_report_is_named_beside_its_field(role_client: Any) -> None:
    client = role_client("operator")
    form = form_of(client.get(address("reportplan", "add")), "query")
    answer = client.post(address("reportplan", "add"), {**form, "title": "x", "query": "by=colour"})
    assert "query" in answer.context["adminform"].form.errors


def test_report_is_sent_by_one_click(role_client: Any, site: Receiver) -> None:
    client = role_client("operator")
    owner = User.objects.get(username="operator")
    made = report_plan(owner, channels=[channel(url=site.url)])

    client.post(address("reportplan", "act", "send_now"), {"ids": str(made.pk)})

    run = ScheduleRun.objects.get()
    send_report({}, Attempt(job_id=run.job or 0))
    assert (run.by_hand, Delivery.objects.get().event) == (True, "report")
    page = address("reportplan", "change", made.pk)
    shown = text_of(client.get(page))
    assert "run by hand" in shown and "report → ops sent code 200" in " ".join(shown.split())
    # Whoever comes by the schedule, such as from its job, is led there.
    assert client.get(reverse("admin:schedules_schedule_change", args=[made.pk])).url == page


def test_plan_is_no_schedule_of_people(admin_client: Any, api: Any) -> None:
    """Whoever may plan jobs has no hand on what is sent with the rights of others."""
    made = report_plan(User.objects.create_superuser("owner"), channels=[channel()])
    acts = reverse("admin:schedules_schedule_act", args=["run_now"])
    admin_client.post(acts, {"ids": str(made.pk), "reason": "x"})
    assert "Every morning" not in text_of(
        admin_client.get(reverse("admin:schedules_schedule_changelist"))
    )
    assert api.get("/api/v1/schedules/").json()["results"] == []
    for call in ("pause", "resume", "run"):
        assert api.post(f"/api/v1/schedules/{made.pk}/{call}/", {}).status_code == 404
    assert not ScheduleRun.objects.exists()


def test_plan_is_paused_resumed_and_deleted(role_client: Any) -> None:
    client = role_client("operator")
    made = report_plan(User.objects.get(username="operator"), channels=[channel()])
    for act, status in (("pause", "paused"), ("resume", "active")):
        client.post(address("reportplan", "act", act), {"ids": str(made.pk), "reason": "x"})
        made.refresh_from_db()
        assert (made.status, made.next_at is None) == (status, status == "paused")

    client.post(address("reportplan", "delete", made.pk), {"post": "yes"})

    made.refresh_from_db()
    assert (made.status, made.next_at) == ("deleted", None)
    listed = client.get(address("reportplan", "changelist"))
    assert [*listed.context["cl"].result_list] == []


def test_page_says_why_a_report_is_not_sent(role_client: Any) -> None:
    client = role_client("operator")
    gone = User.objects.create_user("gone", is_active=False)
    made = report_plan(User.objects.get(username="operator"), channels=[channel()])
    ReportPlan.objects.update(owner=gone)
    shown = text_of(client.get(address("reportplan", "change", made.pk)))
    assert "Its owner may not sign in any more." in shown


@pytest.mark.parametrize("role", ["viewer", "operator"])
def test_report_page_leads_to_a_plan_for_who_may(role_client: Any, role: str) -> None:
    client = role_client(role)
    assert bool(client.get(reverse("report")).context["plan_url"]) == (role == "operator")
    JobScope.objects.create(operator=User.objects.get(username=role), type="mail")
    assert client.get(reverse("report")).context["plan_url"] == ""
