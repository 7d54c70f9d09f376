"""S0.15, S0.23: until when an occurrence can be had, and what has become of a task."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from itertools import islice
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from apps.dispatch.rules.life import OF_ACTIVE, state_of
from apps.dispatch.rules.plan import Planned
from apps.dispatch.rules.queue import Queue
from apps.dispatch.rules.recurrence import EveryDays, EveryMinutes, Recurrence
from apps.dispatch.rules.window import window
from tests.unit.dispatch import POLICY

START = datetime(2026, 3, 2, 9, tzinfo=UTC)
WEEK = timedelta(days=7)
A_MOMENT = timedelta(microseconds=1)
RULES = st.one_of(
    st.none(),
    st.sampled_from([1, 30, 1440, 9 * 1440, 40 * 1440]).map(EveryMinutes),
    st.sampled_from([1, 2, 8, 30]).map(lambda days: EveryDays(days, datetime.min.time())),
)


def planned(rule: Any, *, minutes: int | None, misfire: str, limit: int) -> Planned:
    ends = None if minutes is None else START + timedelta(minutes=minutes)
    made = Planned("once", 1, 0, START, ends, POLICY, owner=1, version=1)
    if rule is None:
        return made
    series = Recurrence(rule=rule, zone=ZoneInfo("Europe/Berlin"), start_at=START, end_at=ends)
    return made._replace(source="rotate", recurrence=series, misfire=misfire, misfire_limit=limit)


def can_be_had(task: Planned, due_at: datetime, now: datetime, lookback: timedelta) -> bool:
    """Whether a pull would come to it."""
    frame = window(now=now, hours=6, lookback=lookback)
    queue = Queue([task], frame=frame, now=now)
    return due_at in [each.occurrence_at for each in queue.due(now, frame)]


@given(
    rule=RULES,
    minutes=st.none() | st.integers(1, 30_000),
    misfire=st.sampled_from(["skip", "once", "all"]),
    limit=st.integers(1, 4),
    lookback=st.sampled_from([timedelta(hours=1), timedelta(days=1), WEEK]),
    number=st.integers(0, 5),
    later=st.integers(-100, 30_000),
)
@example(None, None, "skip", 1, WEEK, 0, 7 * 1440)
@example(EveryMinutes(30), None, "all", 3, WEEK, 2, 120)
@example(EveryMinutes(40 * 1440), None, "skip", 1, WEEK, 0, 7 * 1440)
def test_what_is_promised_is_what_a_pull_does(
    rule: Any,
    minutes: int | None,
    misfire: str,
    limit: int,
    lookback: timedelta,
    number: int,
    later: int,
) -> None:
    task = planned(rule, minutes=minutes, misfire=misfire, limit=limit)
    due_at = START
    if task.recurrence is not None:
        instants = [*islice(task.recurrence.after(START), number + 1)]
        if not instants:
            return
        due_at = instants[-1]
    until = task.until(due_at, lookback)
    for now in (
        due_at - A_MOMENT,
        due_at,
        until - A_MOMENT,
        until,
        due_at + timedelta(minutes=later),
    ):
        assert can_be_had(task, due_at, now, lookback) is (due_at <= now < until), now


def test_states(subtests: pytest.Subtests) -> None:
    for changed, state in (
        ({}, "open"),
        ({"due_at": START + A_MOMENT}, "waiting"),
        ({"due_at": START - timedelta(hours=24)}, "overdue"),
        ({"due_at": START - timedelta(hours=24) + A_MOMENT}, "open"),
        ({"due_at": START - timedelta(hours=24), "is_handed_out": True}, "open"),
        ({"until": START}, "over"),
        ({"until": START + A_MOMENT}, "open"),
        ({"due_at": None, "until": None}, "over"),
        ({"is_full": True, "is_handed_out": True}, "full"),
        ({"is_full": True, "until": START}, "full"),
        ({"is_full": True, "due_at": START + WEEK}, "full"),
        ({"status": "paused", "is_full": True}, "paused"),
        ({"status": "deleted", "until": START}, "deleted"),
    ):
        with subtests.test(changed=changed):
            facts: dict[str, Any] = {
                "status": "active",
                "due_at": START - timedelta(hours=1),
                "until": START + WEEK,
                "is_full": False,
                "is_handed_out": False,
                "overdue_after": timedelta(hours=24),
                "now": START,
                **changed,
            }
            assert state_of(**facts) == state
            assert state in (*OF_ACTIVE, "paused", "deleted")
