"""Worlds of tasks and of what has been handed out before, as Hypothesis draws them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import Any

from django.db import transaction
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from apps.common import ids
from apps.dispatch.models import Dispatch, Executor
from apps.dispatch.services import ending
from tests import callback, factories
from tests.caches import clear_caches
from tests.callback import take_next
from tests.environment import examples
from tests.frozen import FrozenClock, id_maker

# When the first thing happens in each world.
NOW = datetime(2026, 3, 2, 9, tzinfo=UTC)
MINUTES = st.one_of(
    st.sampled_from([-10_080, -10_079, -1441, -361, -360, -359, -30, -1, 0, 1, 30, 359, 360, 361]),
    st.integers(-11_000, 1500),
)
RULES = st.sampled_from(
    [
        {"every_minutes": 30},
        {"every_minutes": 47},
        {"every_minutes": 720},
        {"every_days": 1, "at": "09:30"},
        {"every_days": 2, "at": "00:00"},
        {"cron": "0 */3 * * *"},
    ]
)


@st.composite
def task_fields(draw: st.DrawFn) -> dict[str, Any]:
    """The fields of a task; `start` and `end` are minutes from the present."""
    mode = draw(st.sampled_from(["single", "multi", "blocking"]))
    times = {
        "single": st.just(1),
        "multi": st.sampled_from([None, 1, 2, 3]),
        "blocking": st.integers(1, 4),
    }
    start = draw(MINUTES)
    fields = {
        "owner": draw(st.sampled_from(["uid_alice", "gid_a", "gid_b"])),
        "start": start,
        "end": draw(st.none() | st.integers(start + 1, start + 3000)),
        "mode": mode,
        "dispatch_times": draw(times[mode]),
        "priority": draw(st.integers(-1, 1)),
        "lease_seconds": draw(st.sampled_from([60, 600, 7200])),
        "on_failure": draw(st.sampled_from(["finish", "give_back", "retry_same"])),
        "on_expiry": draw(st.sampled_from(["give_back", "keep"])),
        "max_rounds": draw(st.integers(1, 3)),
        "status": draw(st.sampled_from(["active"] * 5 + ["paused"])),
    }
    if draw(st.booleans()):
        fields |= {
            "rule": draw(RULES),
            "time_zone": draw(st.sampled_from(["UTC", "Asia/Shanghai"])),
            "misfire": draw(st.sampled_from(["skip", "once", "all"])),
            "misfire_limit": draw(st.integers(1, 3)),
        }
    return fields


# Who does what, and the minutes since the step before.
STEPS = st.tuples(
    st.sampled_from([0, 0, 1, 5, 60, 400]),
    st.sampled_from(["uid_alice", "uid_alice", "uid_bob"]),
    st.sampled_from(["succeeded", "failed", "release", "cancel", "keep", "keep"]),
)
WORLDS = st.fixed_dictionaries(
    {
        "tasks": st.lists(task_fields(), min_size=1, max_size=5),
        "history": st.lists(STEPS, max_size=8),
        "enabled": st.sampled_from([True] * 6 + [False]),
        "pause": st.sampled_from([0, 0, 1, 5, 30, 700, 9000]),
    }
)


def in_worlds(number: int, **drawn: st.SearchStrategy[Any]) -> Callable[[Any], Any]:
    """Run a test in that many worlds; it gets each as `world`, with what else is drawn."""
    rules = settings(
        max_examples=examples(number),
        suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
    )
    return lambda test: rules(given(world=WORLDS, **drawn)(test))


@contextmanager
def built(world: dict[str, Any], clock: FrozenClock) -> Iterator[Executor]:
    """The world stands while the block runs; yields alice."""
    clock.move_to(NOW)
    if not Executor.objects.exists():
        _people()
    with forgotten():
        yield build(world, clock)


@contextmanager
def forgotten() -> Iterator[None]:
    """What happens within is undone afterwards, the cache included."""
    clear_caches()
    with transaction.atomic():
        yield
        transaction.set_rollback(True)
    clear_caches()


def _people() -> None:
    """alice in gid_a and gid_b, and bob in gid_a: the same in every world of a test."""
    ids._maker = id_maker(node=1)
    factories.user()
    factories.user("uid_bob")
    factories.group("gid_a", ["uid_alice", "uid_bob"])
    factories.group("gid_b", ["uid_alice"])


def build(world: dict[str, Any], clock: FrozenClock) -> Executor:
    """The tasks, and all that has happened since."""
    # The clock has gone back since the world before, and ids never do within one maker.
    ids._maker = id_maker(node=2)
    alice, bob = factories.member("uid_alice"), factories.member("uid_bob")
    Executor.objects.filter(name="gid_b").update(enabled=world["enabled"])
    for number, fields in enumerate(world["tasks"]):
        plan(fields, clock, title=f"Task {number}")
    people = {"uid_alice": alice, "uid_bob": bob}
    for minutes, name, outcome in world["history"]:
        clock.advance(minutes=minutes)
        act(people[name], outcome)
    clock.advance(minutes=world["pause"])
    return alice


def plan(fields: dict[str, Any], clock: FrozenClock, *, title: str) -> Any:
    made = factories.rotation if "rule" in fields else factories.once_task
    return made(title=title, **resolved(fields, clock))


def resolved(fields: dict[str, Any], clock: FrozenClock) -> dict[str, Any]:
    """The fields as the services take them."""
    found = {name: value for name, value in fields.items() if name not in {"owner", "start", "end"}}
    if "owner" in fields:
        found["executor"] = Executor.objects.get(name=fields["owner"])
    for name in ("start", "end"):
        if name in fields:
            minutes = fields[name]
            at = None if minutes is None else clock.instant + timedelta(minutes=minutes)
            found[f"{name}_at"] = at
    return found


def act(executor: Executor, outcome: str) -> None:
    """Pull, and do that with what comes."""
    taken = take_next(executor)
    if not isinstance(taken, Dispatch) or outcome == "keep":
        return
    if outcome == "release":
        ending.release(dispatch=taken, actor="test")
    elif outcome == "cancel":
        ending.cancel(dispatch=taken, actor="test", reason="test")
    else:
        callback.call_back(executor=executor, number=taken.pk, outcome=outcome)
