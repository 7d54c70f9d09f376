"""GET /reports/summary/: what ended, on the wire. S1.19, I54."""

from __future__ import annotations

from datetime import timedelta
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from rest_framework.serializers import Serializer

from apps.reports.api.summary import FiguresOut
from apps.reports.services.rollup import roll_up
from apps.reports.services.summary import Period, summarise
from tests import factories
from tests.integration.api.contract import ApiFor, ContractClient, mistakes
from tests.integration.reports.history import entry, utc, write

pytestmark = pytest.mark.django_db

SUMMARY = "/api/v1/reports/summary/"
NOW = utc("2026-03-30T12:34:56")
LATE = utc("2026-03-29T23:30:00")


@pytest.fixture
def history(frozen_clock: Any) -> None:
    frozen_clock.move_to(NOW)
    failed = ("failed", "running", "failed")
    write(
        entry(LATE, host="h1", worker="h1:1", wait_ms=20, run_ms=40),
        entry(LATE, host="h1", worker="h1:1", wait_ms=20, run_ms=40, kind=failed),
        entry(NOW - timedelta(hours=1), type_or_task="sms", wait_ms=0, run_ms=None),
        entry(LATE, "dispatch", type_or_task="once:1", executor="uid_alice"),
        entry(LATE, "dispatch", type_or_task="once:2", executor="uid_bob"),
        entry(LATE, "dispatch", type_or_task="once:2", executor="uid_bob"),
    )
    roll_up(until=NOW + timedelta(minutes=1))


def figures(**fields: Any) -> dict[str, Any]:
    none = {"p50": None, "p95": None, "p99": None}
    counts = "total succeeded failed retried timed_out expired released cancelled stage_done"
    return {
        "start": None,
        **dict.fromkeys(counts.split(), 0),
        "wait": none,
        "run": none,
        "success_rate": None,
        **fields,
    }


def times(ms: int) -> dict[str, int]:
    return {"p50": ms, "p95": ms, "p99": ms}


def test_groups_with_their_counts_and_times(history: None, api: ContractClient) -> None:
    body = api.get(SUMMARY, source="job", by="type").json()
    mail = figures(
        group="mail",
        total=2,
        succeeded=1,
        failed=1,
        success_rate=0.5,
        wait=times(20),
        run=times(40),
    )
    sms = figures(group="sms", total=1, succeeded=1, success_rate=1.0, wait=times(0))
    assert body == {
        "rows": [mail, sms],
        "total": figures(
            group="",
            total=3,
            succeeded=2,
            failed=1,
            success_rate=2 / 3,
            wait={"p50": 20, "p95": 20, "p99": 20},
            run=times(40),
        ),
        "start": "2026-03-23T12:34:00Z",
        "as_of": "2026-03-30T12:34:00Z",
    }


def test_local_days(history: None, api: ContractClient) -> None:
    """S1.19: half past eleven in the evening of UTC is the next morning in Shanghai."""
    period = {"from": "2026-03-27T16:00:00Z", "to": "2026-03-30T16:00:00Z"}
    body = api.get(SUMMARY, source="job", by="day", time_zone="Asia/Shanghai", **period).json()
    assert [(row["group"], row["start"], row["total"]) for row in body["rows"]] == [
        ("2026-03-28", "2026-03-27T16:00:00Z", 0),
        ("2026-03-29", "2026-03-28T16:00:00Z", 0),
        ("2026-03-30", "2026-03-29T16:00:00Z", 3),
    ]
    assert body["as_of"] == "2026-03-30T12:34:00Z"
    body = api.get(SUMMARY, source="job", by="day", **period).json()
    assert [row["total"] for row in body["rows"]] == [0, 0, 2, 1]


@pytest.mark.both
def test_key_bound_to_executors_sees_theirs(history: None, api_for: ApiFor) -> None:
    """I60: by group as well; not what others' tasks did."""
    factories.group("gid_sales", ["uid_alice"])
    client = api_for(executors=["gid_sales"])
    body = client.get(SUMMARY, source="dispatch", by="executor").json()
    assert [(row["group"], row["total"]) for row in body["rows"]] == [("uid_alice", 1)]
    assert body["total"]["total"] == 1
    assert client.get(SUMMARY, source="dispatch", by="day").json()["total"]["total"] == 1
    refused = client.get(SUMMARY, source="dispatch", by="task")
    assert refused.status_code == 400
    assert refused.json()["errors"][0]["field"] == "by"


def test_key_bound_to_types_sees_theirs(history: None, api_for: ApiFor) -> None:
    """I60."""
    client = api_for(job_types=["sms"])
    body = client.get(SUMMARY, source="job", by="type").json()
    assert [(row["group"], row["total"]) for row in body["rows"]] == [("sms", 1)]
    assert client.get(SUMMARY, source="job", by="hour").json()["total"]["total"] == 1
    assert client.get(SUMMARY, source="job", by="host").status_code == 400


def test_bad_questions_are_refused_with_what_to_do(
    history: None, api: ContractClient, subtests: pytest.Subtests
) -> None:
    for query, field, hint in (
        ({"by": "type"}, "source", "missing"),
        ({"source": "job"}, "by", "missing"),
        ({"source": "plan", "by": "type"}, "source", "none of: dispatch, job"),
        ({"source": "job", "by": "month"}, "by", "none of: type, task"),
        ({"source": "job", "by": "executor"}, "by", "type, host, worker, hour, day"),
        ({"source": "dispatch", "by": "host"}, "by", "task, executor, hour, day"),
        ({"source": "job", "by": "step"}, "by", "type, host, worker, hour, day"),
        ({"from": "2026-03-02T00:00:00Z", "to": "2026-03-01T00:00:00Z"}, "to", "later `to`"),
        ({"from": "2026-03-02T00:00:00Z", "to": "2026-03-02T00:00:00Z"}, "to", "later `to`"),
        ({"from": "2025-02-01T00:00:00Z"}, "to", "longer than 400 days"),
        ({"from": "1970-01-01T00:00:00Z", "to": "2070-01-01T00:00:00Z"}, "to", "400 days"),
        ({"from": "2026-03-31T00:00:00Z", "to": "2026-04-01T00:00:00Z"}, "from", "not begun"),
        ({"from": "9999-12-30T00:00:00Z", "to": "9999-12-31T23:59:59Z"}, "from", "not begun"),
        ({"from": "yesterday"}, "from", "write 2026"),
        ({"to": "2026-03-02"}, "to", "with offset"),
        ({"time_zone": "Mars/Olympus"}, "time_zone", "no time zone"),
        ({"time_zone": "shanghai"}, "time_zone", "did you mean Asia/Shanghai"),
        ({"bucket": "-1"}, "bucket", ""),
    ):
        with subtests.test(query=query):
            if not {"source", "by"} & query.keys():
                query = {"source": "job", "by": "hour", **query}
            answer = api.get(SUMMARY, **query)
            assert mistakes(answer) == [field]
            assert hint in answer.json()["errors"][0]["message"]


def test_figures_are_answered_as_any_other_row(history: None) -> None:
    """By a way of their own, because the hours of a year are very many."""
    day = timedelta(days=1)
    for by in ("type", "hour"):
        found = summarise("job", by, Period(NOW - day, NOW, ZoneInfo("UTC")))
        assert len(found.rows) > 1
        for row in (*found.rows, found.total):
            assert FiguresOut.of(row) == Serializer.to_representation(FiguresOut(), row)
