"""S0.20–S0.24, I8: the queue hands out in a total and stable order, now and as time goes on."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import islice, permutations
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from apps.dispatch.rules.plan import Planned
from apps.dispatch.rules.queue import Queue, _Series
from apps.dispatch.rules.recurrence import EveryMinutes, Recurrence, parse_rule
from apps.dispatch.rules.window import Window
from tests.unit.dispatch import POLICY as GIVEN_BACK

NOW = datetime(2026, 3, 2, 9, tzinfo=UTC)
FRAME = Window(NOW - timedelta(hours=6), NOW + timedelta(hours=6))
POLICY = replace(GIVEN_BACK, on_expiry="keep")


def after(minutes: float) -> datetime:
    return NOW + timedelta(minutes=minutes)


def once(task: int, *, minutes: float = -1, **fields: Any) -> Planned:
    given = {
        "source": "once",
        "priority": 0,
        "end_at": None,
        "policy": POLICY,
        "owner": 1,
        "version": 1,
        **fields,
    }
    return Planned(task=task, start_at=after(minutes), **given)


def rotation(task: int, *, every: int, minutes: float = -60, **fields: Any) -> Planned:
    planned = once(task, minutes=minutes, source="rotate", **fields)
    recurrence = Recurrence(
        rule=EveryMinutes(every),
        zone=ZoneInfo("UTC"),
        start_at=planned.start_at,
        end_at=planned.end_at,
    )
    return planned._replace(recurrence=recurrence)


def queue(*plan: Planned, now: datetime = NOW, frame: Window = FRAME) -> Queue:
    return Queue(plan, frame=frame, now=now)


def due(made: Queue, now: datetime = NOW, window: Window = FRAME) -> list[int]:
    return [candidate.task for candidate in made.due(now, window)]


def test_due_are_ordered_by_priority_then_due_instant_then_source_then_id() -> None:
    ordered = [
        once(9, priority=5),
        once(8, minutes=-3),
        once(2, minutes=-2),
        once(3, minutes=-2),
        rotation(1, minutes=-2, every=30),
        once(4, priority=-1, minutes=-200),
    ]
    for shuffled in permutations(ordered):
        assert due(queue(*shuffled)) == [9, 8, 2, 3, 1, 4]


def test_future_is_in_the_queue_but_not_handed_out() -> None:
    made = queue(once(1, minutes=90), once(2, minutes=30), rotation(3, minutes=45, every=5))
    assert due(made) == []
    assert made.next_at(NOW) == after(30)


def test_ended_and_outside_the_frame_drop_out() -> None:
    made = queue(
        once(1, end_at=NOW),
        once(2, minutes=-361),
        once(3, minutes=361),
        once(4, end_at=NOW + timedelta(microseconds=1)),
    )
    assert due(made) == [4]
    assert made.next_at(NOW) is None


def test_a_kept_queue_follows_a_window_that_moves_forward() -> None:
    made = queue(once(1, minutes=-300), once(2, minutes=-10))
    assert due(made, window=Window(after(-60), after(300))) == [2]


def test_a_queue_covers_windows_that_begin_no_earlier_until_its_frame_ends() -> None:
    """S0.24: a queue is used until the end of the frame that it was built for."""
    made = queue()
    assert made.covers(Window(FRAME.lower, after(9999)), NOW)
    assert not made.covers(Window(FRAME.lower - timedelta(seconds=1), FRAME.upper), NOW)
    assert made.covers(FRAME, FRAME.upper - timedelta(seconds=1))
    assert not made.covers(FRAME, FRAME.upper)


def test_dropped_occurrences_are_gone_and_the_next_ones_are_not() -> None:
    made = queue(once(1), rotation(2, every=30))
    made.drop({("once", 1, 0), ("rotate", 2, int(NOW.timestamp()))})
    assert due(made) == []
    assert [*made] == []
    assert due(made, after(30)) == [2]


def test_a_merged_queue_hands_out_what_its_parts_have() -> None:
    parts = [queue(once(1, minutes=-3), rotation(2, every=30)), queue(once(3, minutes=-5))]
    merged = Queue.merged(parts, frame=FRAME, now=NOW)
    assert due(merged) == [3, 1, 2]
    assert due(merged, after(30)) == [3, 1, 2]
    assert merged.size == 3


def test_what_one_user_drops_is_kept_for_the_others() -> None:
    """S0.18: the members of a group share its plan."""
    part = queue(once(1), rotation(2, every=30))
    mine, others = (Queue.merged([part], frame=FRAME, now=NOW) for _ in range(2))
    mine.drop({("once", 1, 0), ("rotate", 2, int(NOW.timestamp()))})
    assert (due(mine), due(others)) == ([], [1, 2])


def test_a_merged_queue_leaves_out_what_begins_before_its_frame() -> None:
    frame = Window(after(-60), FRAME.upper)
    assert due(Queue.merged([queue(once(1, minutes=-61), once(2))], frame=frame, now=NOW)) == [2]


def test_what_another_thread_has_found_due_is_ahead_of_a_slower_one() -> None:
    """S0.19: nobody is asked to come back a whole period later."""
    made = queue(rotation(2, every=30))
    assert due(made, after(30)) == [2]
    assert made.next_at(after(30) - timedelta(milliseconds=1)) == after(30)


MISSED = {"misfire": "all", "misfire_limit": 1000}


def test_rotations_that_make_up_for_thousands_cost_a_pull_what_it_looks_at(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Also when most of them are done: neither are all made, nor those that are closed passed."""
    plan = [
        rotation(task, every=1 + task % 7, minutes=-9000, priority=task % 5)._replace(**MISSED)
        for task in range(100)
    ]
    made, far = queue(*plan), Window(after(-10_000), after(1))
    everything = list(made.due(NOW, far))
    assert len(everything) > 90_000
    assert everything == sorted(made, key=lambda each: each.order)
    made.drop([each.identity for each in everything[:50_000]])
    assert list(made.due(NOW, far)) == everything[50_000:]
    looked_at: Counter[str] = Counter()
    for name in ("candidate", "identity_of"):
        monkeypatch.setattr(_Series, name, counting(looked_at, name, getattr(_Series, name)))
    assert list(islice(made.due(NOW, far), 16)) == everything[50_000:50_016]
    assert looked_at["candidate"] == 16
    assert looked_at["identity_of"] <= 100 + 16


def counting(counts: Counter[str], name: str, call: Callable[..., Any]) -> Callable[..., Any]:
    def counted(*words: Any) -> Any:
        counts[name] += 1
        return call(*words)

    return counted


def test_a_kept_queue_has_what_a_new_one_has(subtests: pytest.Subtests) -> None:
    """However far it moves at once, over changes of clocks and the end of a rotation."""
    zone = ZoneInfo("Europe/Berlin")
    for rule in (EveryMinutes(17), parse_rule({"every_days": 1, "at": "02:30"})):
        for misfire, limit in (("skip", 0), ("once", 0), ("all", 3)):
            with subtests.test(f"{rule} {misfire}"):
                begin = datetime(2026, 3, 26, tzinfo=UTC)
                recurrence = Recurrence(
                    rule=rule, zone=zone, start_at=begin, end_at=begin + timedelta(days=6)
                )
                planned = rotation(1, every=1)._replace(
                    recurrence=recurrence,
                    start_at=begin,
                    end_at=recurrence.end_at,
                    misfire=misfire,
                    misfire_limit=limit,
                )
                ever = Window(begin - timedelta(days=1), begin + timedelta(days=9))
                now = begin - timedelta(hours=1)
                kept = queue(planned, now=now, frame=ever)
                for minutes in (59, 1, 1, 16, 17, 18, 700, 1440, 2, 2880, 1440, 1440):
                    now += timedelta(minutes=minutes)
                    new = queue(planned, now=now, frame=ever)
                    assert list(kept.due(now, ever)) == list(new.due(now, ever))
                    assert kept.next_at(now) == new.next_at(now)
