"""Schedules in the admin: typed, shown, run, paused, copied."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse

from apps.common import ids
from apps.jobs.models import Job, JobType
from apps.jobs.services.type_snapshots import forget_type_snapshots
from apps.schedules.models import Schedule, ScheduleRun
from tests import factories
from tests.frozen import FrozenClock
from tests.integration.schedules.conftest import sweep
from tests.pages import english_in, form_of, tables_of, text_of

pytestmark = pytest.mark.django_db

ADD = "admin:schedules_schedule_add"
LIST = "admin:schedules_schedule_changelist"
CHANGE = "admin:schedules_schedule_change"
ACT = "admin:schedules_schedule_act"


def form(**fields: Any) -> dict[str, Any]:
    return {
        "title": "Send the report",
        "job_type": "mail",
        "every": "every_minutes",
        "every_minutes": "30",
        "time_zone": "Asia/Shanghai",
        "misfire": "skip",
        "misfire_limit": "10",
        "overlap": "allow",
        "params-raw": "{}",
        **fields,
    }


def act(client: Client, name: str, *rows: Schedule) -> Any:
    ids = ",".join(str(row.pk) for row in rows)
    return client.post(reverse(ACT, args=[name]), {"ids": ids, "reason": "why"}, follow=True)


@pytest.fixture(autouse=True)
def mail(nine: FrozenClock) -> JobType:
    return factories.job_type()


@pytest.mark.parametrize(
    ("parts", "rule"),
    [
        ({}, {"every_minutes": 30}),
        # What another choice has is left out.
        ({"every": "once"}, None),
        (
            {"every": "every_days", "every_days": "2", "at": "09:30"},
            {"every_days": 2, "at": "09:30"},
        ),
        ({"every": "cron", "cron": "*/9 9 * * 1"}, {"cron": "*/9 9 * * 1"}),
        ({"every": "week", "weekdays": ["1", "4"], "at": "09:00"}, {"cron": "0 9 * * 1,4"}),
        ({"every": "month", "month_day": "L", "at": "09:00"}, {"cron": "0 9 L * *"}),
    ],
)
def test_rule_is_one_of_the_choices(
    admin_client: Client, parts: dict[str, str], rule: dict[str, Any] | None
) -> None:
    page: Any = admin_client.post(reverse(ADD), form(**parts))
    assert page.status_code == 302, page.context["adminform"].form.errors
    made = Schedule.objects.get()
    assert (made.rule, made.created_by) == (rule, "admin:admin")
    # The form of what was saved shows the same choice, and saves nothing when sent back.
    url = reverse(CHANGE, args=[made.pk])
    shown = form_of(admin_client.get(url), "title")
    assert shown["every"] == (parts.get("every") or "every_minutes")
    assert admin_client.post(url, shown).status_code == 302
    made.refresh_from_db()
    assert (made.rule, made.version) == (rule, 1)


def test_mistake_is_shown_beside_its_field(admin_client: Client, subtests: pytest.Subtests) -> None:
    for parts, field in [
        ({"every_minutes": ""}, "every_minutes"),
        ({"every_minutes": "0"}, "every_minutes"),
        ({"every": "cron", "cron": "61 * * * *"}, "cron"),
        ({"every": "cron"}, "cron"),
        ({"every": "week", "at": "09:00"}, "weekdays"),
        ({"every": "week", "weekdays": ["1"], "at": "09:00:30"}, "at"),
        ({"every": "month", "at": "09:00"}, "month_day"),
        ({"every": "every_days", "every_days": "1", "at": "25:00"}, "at"),
        ({"every": "every_days", "every_days": "1"}, "at"),
        ({"every": "never"}, "every"),
        ({"time_zone": "Mars/Olympus"}, "time_zone"),
        ({"title": " "}, "title"),
        ({"job_type": "sms"}, "job_type"),
        ({"priority": "500"}, "priority"),
    ]:
        with subtests.test(parts=parts):
            page: Any = admin_client.post(reverse(ADD), form(**parts))
            assert page.status_code == 200
            assert set(page.context["adminform"].form.errors) == {field}
            assert not Schedule.objects.exists()


def test_context_is_asked_for_by_the_schema_of_the_type(admin_client: Client) -> None:
    schema = {
        "type": "object",
        "properties": {"to": {"type": "string"}},
        "required": ["to"],
        "additionalProperties": False,
    }
    factories.job_type("letter", params_schema=schema)
    page = admin_client.post(reverse(ADD), form(job_type="letter"))
    assert page.status_code == 200
    fields = form(job_type="letter") | {"params-value/to": "all"}
    del fields["params-raw"]
    assert admin_client.post(reverse(ADD), fields).status_code == 302
    assert Schedule.objects.get().context == {"to": "all"}


def test_draft_shows_the_next_runs_and_saves_nothing(admin_client: Client) -> None:
    page = admin_client.post(
        reverse(ADD), form(every="cron", cron="30 9 * * *", title="", _draft="1")
    )
    text = text_of(page)
    assert "Next five Tue 3 Mar 09:30 Wed 4 Mar 09:30 Thu 5 Mar 09:30 Fri 6 Mar 09:30 Sat" in text
    assert page.content.decode().count('<time class="run"') == 5
    assert "2026-03-03T01:30:00Z" in page.content.decode()
    assert "Daily at 09:30, Asia/Shanghai: a job of mail" in text
    assert "This field is required" not in text
    assert not Schedule.objects.exists()
    for cron, said in {
        "": "none yet",
        "bad": "'bad' has 1 fields",
    }.items():
        page = admin_client.post(reverse(ADD), form(every="cron", cron=cron, _draft="1"))
        assert said in text_of(page)


@pytest.mark.parametrize("header", ["HX-Request", "X-Requested-With"])
def test_message_waits_for_the_page_while_a_script_draws_the_form_anew(
    admin_client: Client, header: str
) -> None:
    """*Save* takes the focus from a box, whose change asks for the next runs once more."""
    saved = admin_client.post(reverse(ADD), form())
    assert saved.status_code == 302
    draft = admin_client.post(reverse(ADD), form(_draft="1"), headers={header: "true"})
    assert draft.status_code == 200
    said = "was added successfully"
    assert said in text_of(admin_client.get(saved["Location"]))
    assert said not in text_of(admin_client.get(saved["Location"]))


def test_page_tells_the_rule_what_comes_and_what_was(
    admin_client: Client, role_client: Callable[[str], Client], nine: FrozenClock
) -> None:
    made = factories.schedule("letter", context={"to": "all"})
    assert sweep() == 1
    job = Job.objects.get()
    JobType.objects.filter(name="letter").delete()
    forget_type_snapshots()
    nine.advance(minutes=1)
    assert sweep() == 0
    page = admin_client.get(reverse(CHANGE, args=[made.pk]))
    text = text_of(page)
    assert "every minute" in text
    [runs] = [table for table in tables_of(page) if table[0][0].text == "Planned for"]
    _head, newest, oldest = runs
    assert newest[1].text.startswith("No job There is no job type 'letter'")
    assert oldest[1].text == f"Ready {job.pk}"
    assert reverse("admin:jobs_job_change", args=[job.pk]) in page.content.decode()
    for minute in range(1, 6):
        assert f'datetime="2026-03-02T09:{minute:02}:00' in page.content.decode()
    # Who may not change it has no form, which would say it.
    seen = text_of(role_client("viewer").get(reverse(CHANGE, args=[made.pk])))
    for minute in range(2, 12):
        assert f"2026-03-02 09:{minute:02}:00" in seen
    assert "2026-03-02 09:12:00" not in seen
    assert "No job made" in text
    [rows] = tables_of(admin_client.get(reverse(LIST)))[-1:]
    assert [cell.text for cell in rows[1]][1:] == [
        *("Send the report", "letter", "Active", "every minute"),
        *("09:02", "Ready 09:00"),
    ]


def test_actions(admin_client: Client, nine: FrozenClock) -> None:
    made = factories.schedule(start_at=datetime(2026, 3, 3, tzinfo=UTC))
    assert "1 job made." in text_of(act(admin_client, "run_now", made))
    act(admin_client, "run_now", made)
    assert Job.objects.count() == ScheduleRun.objects.count() == 2
    page = text_of(admin_client.get(reverse(CHANGE, args=[made.pk])))
    assert page.count("run by hand") == 2
    assert "1 paused." in text_of(act(admin_client, "pause", made))
    assert "Nothing was left to do." in text_of(act(admin_client, "pause", made))
    assert "1 resumed." in text_of(act(admin_client, "resume", made))
    assert "1 paused copy made." in text_of(act(admin_client, "copy", made))
    twin = Schedule.objects.latest("pk")
    assert (twin.title, twin.status) == ("Send the report (copy)", "paused")
    assert "1 schedule deleted." in text_of(act(admin_client, "delete", twin))
    listed = text_of(admin_client.get(reverse(LIST)))
    assert "(copy)" not in listed
    assert "(copy)" in text_of(admin_client.get(reverse(LIST), {"status": "deleted"}))
    page = admin_client.get(reverse(CHANGE, args=[twin.pk]))
    assert "Run now" not in text_of(page)


def test_job_leads_to_its_schedule_and_search_finds_it(admin_client: Client) -> None:
    made = factories.schedule(title="Night report of shops")
    assert sweep() == 1
    page = admin_client.get(reverse("admin:jobs_job_change", args=[Job.objects.get().pk]))
    url = reverse(CHANGE, args=[made.pk])
    assert f'<a class="text-link" href="{url}">{made.subject}</a>' in page.content.decode()
    found = admin_client.get(reverse("admin:search"), {"term": "night shops"})
    assert found["Location"] == url


def test_list_tells_the_last_run_by_its_time_beside_its_end(admin_client: Client) -> None:
    factories.schedule()
    assert sweep() == 1
    job = Job.objects.get()
    page = admin_client.get(reverse(LIST))
    linked = r'<a [^>]*href="([^"]+)"[^>]*><time [^>]*>([^<]+)<'
    [(url, shown)] = re.findall(linked, page.content.decode())
    assert url == reverse("admin:jobs_job_change", args=[job.pk])
    assert shown == f"{ids.made_at(job.pk):%H:%M}" and str(job.pk) not in text_of(page)


def test_sweep_does_not_make_a_form_outdated(admin_client: Client) -> None:
    made = factories.schedule()
    url = reverse(CHANGE, args=[made.pk])
    fields = form_of(admin_client.get(url), "title")
    assert sweep() == 1
    assert admin_client.post(url, {**fields, "title": "Mine"}).status_code == 302
    made.refresh_from_db()
    assert (made.title, made.last_job) == ("Mine", Job.objects.get().pk)


# --- rights ---------------------------------------------------------------------------------------


def test_operator_keeps_the_context_that_is_not_shown(role_client: Callable[[str], Client]) -> None:
    made = factories.schedule(context={"to": "secret-place"})
    client = role_client("blind")
    url = reverse(CHANGE, args=[made.pk])
    page = client.get(url)
    assert "secret-place" not in page.content.decode()
    assert client.post(url, {**form_of(page, "title"), "title": "New"}).status_code == 302
    made.refresh_from_db()
    assert (made.title, made.context) == ("New", {"to": "secret-place"})
    operator = role_client("operator").get(url)
    assert "secret-place" in operator.content.decode()


# --- for whom -------------------------------------------------------------------------------------


def test_pages_are_chinese_as_a_whole(admin_client: Client, nine: FrozenClock) -> None:
    made = factories.schedule(title="夜间报表", overlap="skip")
    assert sweep() == 1
    nine.advance(minutes=1)
    assert sweep() == 0
    act(admin_client, "run_now", made)
    admin_client.defaults["HTTP_ACCEPT_LANGUAGE"] = "zh-hans"
    text = text_of(admin_client.get(reverse(CHANGE, args=[made.pk])))
    assert "无作业 前一个作业尚未结束" in text and "手动运行" in text
    for url in (reverse(ADD), reverse(LIST), reverse(CHANGE, args=[made.pk])):
        assert english_in(admin_client.get(url)) == []
    refused = form(title="", every_minutes="", cron="61 * * * *", time_zone="Mars")
    assert english_in(admin_client.post(reverse(ADD), refused)) == []
    for name in ("run_now", "pause", "copy", "delete"):
        page = admin_client.get(reverse(ACT, args=[name]), {"ids": made.pk})
        assert english_in(page) == []


def test_schedules_of_a_type_that_is_gone_are_found_by_it(admin_client: Client) -> None:
    left = factories.schedule()
    Schedule.objects.update(job_type="gone")
    page: Any = admin_client.get(reverse(LIST), {"type": "gone"})
    assert [row.pk for row in page.context["cl"].result_list] == [left.pk]
