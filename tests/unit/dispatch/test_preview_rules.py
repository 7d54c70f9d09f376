"""S0.31: the order in which work would be handed out as time goes on, by the rules of a pull."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from apps.dispatch.rules.past import Held, Past
from apps.dispatch.rules.plan import Planned
from apps.dispatch.rules.policy import PastDispatch, Policy
from apps.dispatch.rules.preview import Item, steps_of_group, steps_of_user
from apps.dispatch.rules.queue import Queue, candidate_of
from apps.dispatch.rules.recurrence import EveryMinutes, Recurrence
from apps.dispatch.rules.window import Window, window
from tests.unit.dispatch import POLICY

NOW = datetime(2026, 3, 2, 9, tzinfo=UTC)
LOOKBACK = timedelta(days=7)


def windows(now: datetime) -> Window:
    return window(now=now, hours=6, lookback=LOOKBACK)


def after(minutes: float) -> datetime:
    return NOW + timedelta(minutes=minutes)


def policy(**fields: Any) -> Policy:
    return replace(POLICY, **{"lease_seconds": 600, **fields})


def once(task: int, minutes: float = -1, *, priority: int = 0, **fields: Any) -> Planned:
    ends = fields.pop("end", None)
    return Planned(
        "once",
        task,
        priority,
        after(minutes),
        None if ends is None else after(ends),
        policy(**fields),
        owner=1,
        version=1,
    )


def rotation(task: int, minutes: float, *, every: int, misfire: str = "skip") -> Planned:
    planned = once(task, minutes)._replace(source="rotate", misfire=misfire, misfire_limit=2)
    recurrence = Recurrence(
        rule=EveryMinutes(every), zone=ZoneInfo("UTC"), start_at=planned.start_at
    )
    return planned._replace(recurrence=recurrence)


def past_of(task: int, state: str, *, holds: bool, ago: float = 1, rounds: int = 1) -> Past:
    key = ("once", task, 0)
    last = PastDispatch(
        number=7, rounds=rounds, state=state, holds_stock=holds, finished_at=after(-ago)
    )
    return Past(handed={key: int(holds)}, latest={key: last})


def played(*plan: Planned, hours: float = 1, **fields: Any) -> Iterator[Item]:
    frame = Window(NOW - LOOKBACK, NOW + timedelta(hours=hours))
    queue = Queue(plan, frame=frame, now=NOW)
    past = fields.pop("past", None) or Past()
    return steps_of_user(
        queue, past, fields.pop("held", None), now=NOW, until=frame.upper, windows=windows
    )


def given(steps: Iterator[Item]) -> list[tuple[int, float]]:
    """Which task, and how many minutes from now."""
    return [(step.task, (step.at - NOW) / timedelta(minutes=1)) for step in steps]


def held(task: int, *, deadline: float, minutes: float = -5, **fields: Any) -> Held:
    planned = once(task, minutes, **fields)
    return Held(
        number=7,
        title="Held",
        candidate=candidate_of(planned, planned.start_at),
        deadline_at=after(deadline),
        rounds=1,
    )


def test_what_is_due_comes_in_pull_order_then_the_rest_when_it_is_due() -> None:
    plan = [once(1, 20), once(2, -5), once(3, 10, priority=9), once(4, -3, priority=1)]
    assert given(played(*plan, rotation(5, 10, every=30))) == [
        (4, 0),
        (2, 0),
        (3, 10),
        (5, 10),
        (1, 20),
        (5, 40),
    ]


def test_missed_occurrences_come_first_and_are_not_repeated() -> None:
    steps = played(rotation(1, -70, every=30, misfire="all"))
    assert [(s.occurrence_at, s.at) for s in steps] == [
        (after(-70), NOW),
        (after(-40), NOW),
        (after(-10), NOW),
        (after(20), after(20)),
        (after(50), after(50)),
    ]


def test_blocking_task_comes_as_often_as_there_is_stock() -> None:
    steps = list(played(once(1, -5, mode="blocking", dispatch_times=3), once(2, -4)))
    assert [(step.task, step.remaining) for step in steps] == [(1, 3), (1, 2), (1, 1), (2, 1)]


def test_each_member_has_it_once() -> None:
    """S0.12: what is left are the members who have not had it."""
    had = {(("once", 1, 0), 1): 3}
    past = Past(handed={("once", 1, 0): 4}, people={1: 8}, had=had)
    steps = list(played(once(1, mode="multi", dispatch_times=None), past=past))
    assert [step.remaining for step in steps] == [5]


def test_earlier_dispatches_exclude_or_cool_down(subtests: pytest.Subtests) -> None:
    """S0.17: given back a minute ago under a lease of ten."""
    for state, holds, expected in (
        ("succeeded", True, []),
        ("cancelled", False, []),
        ("released", False, [(1, 9)]),
        ("expired", False, [(1, 9)]),
    ):
        with subtests.test(state=state):
            assert given(played(once(1), past=past_of(1, state, holds=holds))) == expected


def test_cooling_down_past_its_end_is_left_out() -> None:
    assert given(played(once(1, end=9), past=past_of(1, "released", holds=False))) == []


@pytest.mark.parametrize(("rounds", "count"), [(2, 1), (3, 0)])
def test_failed_round_is_tried_again_with_its_stock(rounds: int, count: int) -> None:
    past = past_of(1, "failed", holds=True, rounds=rounds)
    steps = list(played(once(1, on_failure="retry_same"), past=past))
    assert [step.remaining for step in steps] == [0] * count
    assert past.handed == {("once", 1, 0): 1}


def test_open_dispatch_is_first_and_done_then() -> None:
    past = Past(handed={("once", 1, 0): 1})
    steps = list(played(once(1), once(2, priority=9), held=held(1, deadline=5), past=past))
    assert [(step.task, step.number) for step in steps] == [(1, 7), (2, None)]


@pytest.mark.parametrize(
    ("on_expiry", "expected"), [("keep", [(2, 0)]), ("give_back", [(2, 0), (1, 10)])]
)
def test_open_dispatch_past_its_deadline_is_ended_by_its_policy(
    on_expiry: str, expected: list[tuple[int, float]]
) -> None:
    past = Past(handed={("once", 1, 0): 1})
    taken = held(1, deadline=0, on_expiry=on_expiry)
    assert given(played(once(1, on_expiry=on_expiry), once(2), held=taken, past=past)) == expected


def test_a_week_back_and_no_more() -> None:
    """S0.15: also later on."""
    plan = [
        once(1, -7 * 1440),
        once(2, -7 * 1440 + 1),
        once(3, -7 * 1440 + 9, lease_seconds=600),
        once(4, -7 * 1440 + 11, lease_seconds=600),
    ]
    past = past_of(3, "released", holds=False, ago=0)
    past.latest[("once", 4, 0)] = past.latest[("once", 3, 0)]
    assert given(played(*plan, past=past)) == [(2, 0), (4, 10)]


def test_group_is_shown_each_occurrence_once_with_its_stock() -> None:
    plan = [
        once(1, -5, mode="blocking", dispatch_times=3),
        once(2, 10, mode="multi", dispatch_times=None),
        once(3),
        rotation(4, -10, every=30),
        once(5, -5, mode="multi", dispatch_times=None),
    ]
    frame = Window(NOW - LOOKBACK, after(30))
    handed = {("once", 1, 0): 1, ("once", 3, 0): 1, ("once", 5, 0): 6}
    past = Past(handed=handed, people={1: 6}, had={(("once", 5, 0), 1): 6})
    steps = steps_of_group(
        Queue(plan, frame=frame, now=NOW), past, now=NOW, until=frame.upper, windows=windows
    )
    assert [(s.task, s.remaining, s.at) for s in steps] == [
        (4, 1, NOW),
        (1, 2, NOW),
        (2, 6, after(10)),
        (4, 1, after(20)),
    ]
