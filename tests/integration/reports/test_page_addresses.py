"""Addresses of report pages: what makes no sense is named, and who may not see is refused."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import timedelta
from typing import Any
from urllib.parse import urlencode
from zoneinfo import ZoneInfo

import pytest
from django.contrib.auth.models import User
from django.http import QueryDict
from django.test import Client
from django.urls import reverse

from apps.common.errors import Invalid
from apps.dispatch.models import Executor, OperatorScope
from apps.jobs.models import JobScope
from apps.reports.services.choice import Reader
from tests import factories
from tests.frozen import FrozenClock
from tests.integration.reports.day import NOW, URL, roll_up, table
from tests.integration.reports.history import entry, utc, write
from tests.pages import form_of, tables_of, text_of

pytestmark = pytest.mark.django_db


def test_impossible_address_is_named_and_the_usual_is_shown(
    admin_client: Client, history: None, subtests: pytest.Subtests
) -> None:
    for query, message in [
        ({"source": "plan"}, "source=plan is none of job, dispatch, flow, step."),
        ({"by": "task"}, "by=task is none of type, host, worker, minute, hour, day."),
        ({"period": "1y"}, "period=1y is none of 1h, 24h, 7d, 30d, 90d, month, last_month."),
        ({"sort": "name"}, "sort=name is none of total,"),
        ({"zone": "Mars/Base"}, "There is no time zone Mars/Base;"),
        ({"from": "yesterday"}, "yesterday is not a time;"),
        ({"from": "1500-01-01T00:00"}, "1500-01-01T00:00 is not a time;"),
        ({"to": "9999-12-31T23:59"}, "9999-12-31T23:59 is not a time;"),
        ({"from": "2026-03-02T10:00", "to": "2026-03-02T10:00"}, "The period ends before it"),
        ({"from": "2024-03-02T10:00", "to": "2026-03-02T10:00"}, "A report is of 400 days at"),
        ({"only": "mail", "by": "hour"}, "only=mail names no group;"),
        ({"only": "task:1", "by": "hour"}, "only=task:1 names no group;"),
        ({"only": "type:a b", "by": "hour"}, "only=type:a b names no group;"),
        ({"only": "type:mail", "by": "type"}, "A single group is shown through time only;"),
        ({"from": "\0", "by": "\0x" + 900 * "y"}, "by=xyyy"),
    ]:
        with subtests.test(query=query):
            page = admin_client.get(URL, query)
            assert page.status_code == 200
            assert message in text_of(page)
            assert tables_of(page)[0][1:]
            answer = admin_client.get(reverse("report_csv"), query)
            assert (answer.status_code, answer.url) == (302, f"{URL}?{urlencode(query)}")  # type: ignore[attr-defined]


def test_months_begin_by_the_clocks_of_the_zone() -> None:
    for now, zone, preset, start, end in (
        ("2026-03-30T12:34:56", "UTC", "month", "2026-03-01T00:00:00", "2026-03-30T13:00:00"),
        ("2026-03-30T12:34:56", "UTC", "last_month", "2026-02-01T00:00:00", "2026-03-01T00:00:00"),
        # It is April there already, and a month of two offsets before it.
        *(
            ("2026-03-31T22:00:00", "Europe/Berlin", preset, start, end)
            for preset, start, end in (
                ("month", "2026-03-31T22:00:00", "2026-03-31T23:00:00"),
                ("last_month", "2026-02-28T23:00:00", "2026-03-31T22:00:00"),
            )
        ),
        # It is the second midnight with which that November begins.
        *(
            ("2026-11-01T05:30:00", "America/Havana", preset, start, end)
            for preset, start, end in (
                ("month", "2026-11-01T04:00:00", "2026-11-01T06:00:00"),
                ("last_month", "2026-10-01T04:00:00", "2026-11-01T04:00:00"),
            )
        ),
        ("2026-01-01T00:00:00", "UTC", "last_month", "2025-12-01T00:00:00", "2026-01-01T00:00:00"),
    ):
        found = Reader(QueryDict(f"period={preset}")).period(utc(now), ZoneInfo(zone))
        assert (found["start"], found["end"]) == (utc(start), utc(end)), (now, zone, preset)


@pytest.mark.parametrize("address", [URL, "/admin/failures/"])
def test_reports_and_failures_of_a_month(admin_client: Client, history: None, address: str) -> None:
    for period, title in (("month", "This month"), ("last_month", "Last month")):
        page = admin_client.get(address, {"period": period})
        assert page.status_code == 200
        assert re.search(rf'aria-current="[a-z]+">\s*{title}\s*</a>', page.content.decode())
        assert "is none of" not in text_of(page)


def test_one_form_keeps_what_nobody_types(
    admin_client: Client, history: None, subtests: pytest.Subtests
) -> None:
    """And its address becomes that of the report, to be kept as a bookmark."""
    for query, typed, meant in [
        ({}, {}, "period=24h&zone=UTC"),
        ({"period": "7d"}, {"zone": "Asia/Shanghai"}, "period=7d&zone=Asia%2FShanghai"),
        (
            {"from": "2026-03-02T08:00", "to": "2026-03-02T09:00"},
            {"zone": "Asia/Shanghai"},
            "from=2026-03-02T08%3A00Z&to=2026-03-02T09%3A00Z&zone=Asia%2FShanghai",
        ),
        (
            {"period": "7d"},
            {"from": "2026-03-02T08:00", "to": "2026-03-02T09:00", "zone": "Asia/Shanghai"},
            "from=2026-03-02T00%3A00Z&to=2026-03-02T01%3A00Z&zone=Asia%2FShanghai",
        ),
    ]:
        with subtests.test(query=query, typed=typed):
            page = admin_client.get(URL, {"by": "hour", **query})
            sent = form_of(page, "zone") | typed
            # As browsers send times of a full minute.
            for name in {"from", "to"} - typed.keys():
                sent[name] = sent[name].removesuffix(":00")
            answer = admin_client.get(URL, sent)
            assert answer["Location"] == f"{URL}?source=job&by=hour&{meant}"


def test_period_without_ends_is_shown_and_has_no_charts(
    admin_client: Client, now: FrozenClock
) -> None:
    write(entry(NOW - timedelta(days=3)))
    roll_up()
    page = admin_client.get(URL)
    assert "Nothing ended in this period." in text_of(page)
    assert "echarts" not in page.content.decode()


def test_finest_times_that_are_no_longer_kept_are_shown(
    admin_client: Client, history: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: Any, **__: Any) -> Any:
        raise Invalid.field("by", "no longer kept")

    monkeypatch.setattr("apps.reports.services.sheet.summarise", refuse)
    page = admin_client.get(URL)
    assert page.status_code == 200
    assert "are not kept for so long; choose groups" in text_of(page)
    assert admin_client.get(reverse("report_csv")).status_code == 302


# --- who may --------------------------------------------------------------------------------------


@pytest.mark.both
def test_operator_with_limits_sees_those_executors_only(
    role_client: Any, role_user: Callable[[str], User], now: FrozenClock
) -> None:
    mine: Executor = factories.group("gid_mine", members=["uid_mine"])
    factories.user("uid_other")
    OperatorScope.objects.create(operator=role_user("operator"), executor=mine)
    ended = ("succeeded", "open", "succeeded")
    for name in ("uid_mine", "uid_other", "uid_other"):
        fields = {"kind": ended, "executor": name, "type_or_task": "once:1"}
        write(entry(NOW - timedelta(hours=1), "dispatch", **fields))
    roll_up()
    operator = role_client("operator")
    rows = table(operator, source="dispatch")
    assert [(row[0].text.split()[0], row[1].text) for row in rows] == [
        ("uid_mine", "1"),
        ("All", "1"),
    ]
    page = operator.get(URL, {"source": "dispatch", "by": "task"})
    assert "by=task is none of executor, minute, hour, day." in text_of(page)
    for query in ({"by": "hour"}, {"by": "hour", "only": "executor:uid_other"}):
        text = operator.get(reverse("report_csv"), {"source": "dispatch", **query})
        assert '"total","' + ("0" if "only" in query else "1") in text.content.decode()


def test_figures_of_jobs_are_those_of_the_types_that_an_operator_is_limited_to(
    role_client: Any, role_user: Callable[[str], User], now: FrozenClock
) -> None:
    """They count jobs of all users, so one who is limited to executors gets none."""
    write(*[entry(NOW - timedelta(minutes=9, seconds=n)) for n in range(3)])
    write(entry(NOW - timedelta(minutes=9), type_or_task="sms"))
    roll_up()
    person, operator = role_user("operator"), role_client("operator")
    JobScope.objects.create(operator=person, type="mail")

    row, _total = table(operator, by="type")

    assert (row[0].text.split()[0], row[1].text) == ("mail", "3")
    OperatorScope.objects.create(operator=person, executor=factories.group("gid_mine"))
    page = operator.get(URL, {"source": "job", "by": "type"})
    assert tables_of(page) == []
    assert "Figures of jobs include jobs of others; your limits hide them." in text_of(page)
    assert "Nothing ended" not in text_of(page)


def test_who_sees_no_figures_of_jobs_begins_with_dispatches(
    role_client: Any, role_user: Callable[[str], User], now: FrozenClock
) -> None:
    executor = factories.group("gid_mine")
    client: Any = role_client("operator")
    assert client.get(URL).context["choice"].source == "job"
    OperatorScope.objects.create(operator=role_user("operator"), executor=executor)
    page = client.get(URL)
    assert page.context["choice"].source == "dispatch"
    assert "Figures of jobs" not in text_of(page)
