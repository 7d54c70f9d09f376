"""What can be asked for, and what is answered of totals as they are stored."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from functools import partial
from zoneinfo import ZoneInfo

import pytest

from apps.common.errors import Invalid
from apps.reports.models import Rollup, RollupBucket
from apps.reports.rules.sketch import pack
from apps.reports.services.rows import First
from apps.reports.services.summary import Period, summarise, total_of

pytestmark = pytest.mark.django_db
UTC_ZONE = ZoneInfo("UTC")
START = datetime(2026, 3, 2, tzinfo=UTC)


def period(**length: float) -> Period:
    return Period(START, START + timedelta(**length), UTC_ZONE)


def store(level: int, start: datetime, *rows: tuple[str, str, int]) -> None:
    """Totals of jobs as (dimension, value, succeeded) in one bucket."""
    second = int(start.timestamp())
    RollupBucket.objects.create(level=level, start=second, entries=len(rows))
    counts = dict.fromkeys(
        ("failed", "retried", "timed_out", "expired", "released", "cancelled", "stage_done"), 0
    )
    for dimension, value, succeeded in rows:
        Rollup.objects.create(
            level=level,
            source="job",
            dimension=dimension,
            start=second,
            value=value,
            total=succeeded,
            succeeded=succeeded,
            wait=pack({0: succeeded}),
            run=pack({1: succeeded}),
            **counts,
        )


def test_first_groups_are_complete_and_beside_the_total_of_all(subtests: pytest.Subtests) -> None:
    stored = {"mail": 3, "push": 9, "sms": 4}
    store(86_400, START, ("all", "", 16), *(("type", name, n) for name, n in stored.items()))
    store(3600, START + timedelta(days=1), ("all", "", 1), ("type", "sms", 1))
    summary = partial(summarise, "job", "type", period(hours=25))
    for by, names in [
        ("", ["push", "sms"]),
        ("-run_p95", ["push", "sms"]),
        ("total", ["mail", "sms"]),
        ("-succeeded", ["push", "sms"]),
    ]:
        for within in [None, ("mail", "push", "sms")]:
            with subtests.test(by=by, within=within):
                every, found = summary(within=within), summary(within=within, first=First(2, by))
                assert found.rows == tuple(row for row in every.rows if row.group in names)
                assert found.total == every.total
                assert sorted(found.names) == sorted(every.names) == ["mail", "push", "sms"]
                assert sorted(found.names[:2]) == names


def test_groups_that_have_no_rate_come_last_whichever_way_they_are_taken() -> None:
    store(3600, START, ("all", "", 4), ("type", "mail", 4), ("type", "none", 0))
    for by in ("success_rate", "-success_rate"):
        [row] = summarise("job", "type", period(hours=1), first=First(1, by)).rows
        assert row.group == "mail"


def test_total_of_a_period_is_that_of_its_days() -> None:
    store(86_400, START, ("all", "", 5), ("type", "mail", 3))
    store(3600, START + timedelta(days=1), ("all", "", 4))
    for only in (None, ("type", "mail")):
        days = summarise("job", "day", period(hours=25), only=only)
        assert total_of("job", period(hours=25), only=only) == days.total


def test_limit_shows_some_types_and_their_total() -> None:
    store(3600, START, ("all", "", 5), ("type", "mail", 3), ("type", "sms", 2))
    by_type = summarise("job", "type", period(hours=1), within=["sms", "fax"])
    assert [(row.group, row.total) for row in by_type.rows] == [("sms", 2)]
    assert by_type.total.total == 2
    assert summarise("job", "day", period(hours=1), within=["mail"]).total.total == 3
    assert summarise("job", "day", period(hours=1), within=[]).total.total == 0
    other = summarise("job", "day", period(hours=1), only=("type", "mail"), within=["sms"])
    assert other.total.total == 0


def test_limit_hides_what_it_cannot_apply_to() -> None:
    with pytest.raises(Invalid, match="by type, hour and day only"):
        summarise("job", "host", period(hours=1), within=["mail"])
    with pytest.raises(Invalid, match="by executor, hour and day only"):
        summarise("dispatch", "hour", period(hours=1), only=("task", "once:1"), within=["uid_a"])


def test_unknown_words_are_refused_with_those_known(subtests: pytest.Subtests) -> None:
    for source, by, hint in [
        ("plan", "type", "dispatch, job, flow, step"),
        ("job", "executor", "type, host, worker"),
        ("dispatch", "host", "task, executor"),
        ("job", "all", "type, host, worker"),
        ("job", "month", "hour, day"),
    ]:
        with subtests.test(source=source, by=by, hint=hint), pytest.raises(Invalid, match=hint):
            summarise(source, by, period(hours=1))


def test_periods_have_bounds() -> None:
    with pytest.raises(Invalid, match="ends before it begins"):
        summarise("job", "type", Period(START, START, UTC_ZONE))
    with pytest.raises(Invalid, match="longer than 400 days"):
        summarise("job", "type", period(days=400, seconds=1))
    summarise("job", "type", period(days=400))


def test_hours_are_refused_where_only_days_are_kept() -> None:
    store(86_400, START, ("all", "", 5))
    store(3600, START + timedelta(days=1), ("all", "", 1))
    with pytest.raises(Invalid, match="no longer kept as finely as by hour"):
        summarise("job", "hour", period(days=2))
    assert summarise("job", "day", period(days=1)).total.total == 5
