"""How tasks stand: full, over and overdue, and who of the members has had what goes to all.

S0.9, S0.12, S0.15, S0.31.
"""

from __future__ import annotations

from datetime import timedelta
from itertools import product
from typing import Any

import pytest
from django.test import Client

from apps.common import clock
from apps.common.messages import wire_time
from apps.dispatch.admin import filters
from apps.dispatch.models import TASK_MODELS, Dispatch, Executor, OnceTask, Stock
from apps.dispatch.rules.life import DELETED, OF_ACTIVE, PAUSED, UNFILLED, Availability
from apps.dispatch.services import executors
from apps.dispatch.services.availability import (
    ending_within,
    in_state,
    once_in_state,
    read_availability,
)
from tests import factories
from tests.callback import end, finish, take_next
from tests.frozen import FrozenClock
from tests.integration.dispatch import plans
from tests.pages import text_of

pytestmark = pytest.mark.django_db

HOUR, DAY = timedelta(hours=1), timedelta(days=1)
OTHERS = (PAUSED, DELETED)
ONCE, ROTATE = "/admin/dispatch/oncetask/", "/admin/dispatch/rotatetask/"


def availability(task: Any) -> Availability:
    found = type(task).objects.get(pk=task.pk)
    read_availability([found])
    return found.availability


def counts(task: Any) -> tuple[str, int, int]:
    found = availability(task)
    return (found.state, found.handed, found.quota)


@pytest.fixture
def group(frozen_clock: FrozenClock) -> Executor:
    return factories.group("gid_a", ["uid_ann", "uid_bob"])


def ann() -> Executor:
    return factories.member("uid_ann")


class TestOnce:
    def test_way_of_a_task_that_nobody_takes(
        self, group: Executor, frozen_clock: FrozenClock
    ) -> None:
        start = frozen_clock.instant + HOUR
        task = factories.once_task(group, start_at=start)
        assert availability(task) == Availability("waiting", start, start + 7 * DAY, 0, 1)
        for wait, state in ((HOUR, "open"), (DAY, "overdue"), (6 * DAY, "over")):
            frozen_clock.advance(seconds=wait.total_seconds())
            assert availability(task).state == state

    def test_what_is_handed_out_is_not_overdue(
        self, group: Executor, frozen_clock: FrozenClock, settings: Any
    ) -> None:
        settings.TASK_OVERDUE_HOURS = 2
        task = factories.once_task(group, mode="multi", dispatch_times=2)
        frozen_clock.advance(hours=2)
        assert availability(task).state == "overdue"
        take_next(ann())
        assert availability(task).state == "open"


class TestEveryMember:
    @pytest.mark.both
    def test_members_are_counted(self, group: Executor) -> None:
        task = factories.once_task(group, mode="multi", dispatch_times=None)
        assert counts(task) == ("open", 0, 2)
        finish(ann())
        assert counts(task) == ("open", 1, 2)
        take_next(factories.member("uid_bob"))
        assert counts(task) == ("full", 2, 2)

    @pytest.mark.both
    def test_who_joins_has_it_ahead_and_who_leaves_counts_no_more(self, group: Executor) -> None:
        """Though the stock says the same as before."""
        task = factories.once_task(group, mode="multi", dispatch_times=None)
        for name in ("uid_ann", "uid_bob"):
            finish(factories.member(name))
        executors.change_members(
            group=group, add=["uid_eve"], remove=["uid_bob"], actor=factories.OPERATOR
        )
        assert counts(task) == ("open", 1, 2)
        finish(factories.member("uid_eve"))
        assert counts(task) == ("full", 2, 2)

    @pytest.mark.both
    def test_group_without_members_is_never_full(self, frozen_clock: FrozenClock) -> None:
        task = factories.once_task(factories.group(), mode="multi", dispatch_times=None)
        assert counts(task) == ("open", 0, 0)


def test_current_occurrence_counts(group: Executor, frozen_clock: FrozenClock) -> None:
    start = frozen_clock.instant + HOUR
    series = factories.rotation(group, start_at=start, rule={"every_minutes": 30})
    half = timedelta(minutes=30)
    assert availability(series) == Availability("waiting", start, start + half, 0, 1)
    frozen_clock.advance(hours=1)
    finish(ann())
    assert counts(series) == ("full", 1, 1)
    frozen_clock.advance(minutes=30)
    assert availability(series) == Availability("open", start + half, start + 2 * half, 0, 1)


@pytest.mark.both
@plans.in_worlds(30)
def test_the_database_finds_the_state_that_is_shown(
    world: dict[str, Any], frozen_clock: FrozenClock
) -> None:
    """The condition of each state is the rule in other words."""
    with plans.built(world, frozen_clock):
        executors.change_members(
            group=Executor.objects.get(name="gid_a"),
            add=["uid_eve"] if world["pause"] % 2 else [],
            remove=["uid_bob"],
            actor="test",
        )
        rows, now = OnceTask.objects.all(), clock.now()
        every = list(rows)
        found = {state: in_state(every, state) for state in (*OF_ACTIVE, UNFILLED, *OTHERS)}
        for state, tasks in found.items():
            assert {*once_in_state(rows, state)} == {*tasks}, state
        for within in (6 * HOUR, DAY):
            ending = {*ending_within(rows, within)}
            assert ending == {
                task
                for task in every
                if task.availability.until and now < task.availability.until <= now + within
            }


@plans.in_worlds(30)
def test_nobody_gets_what_is_full_over_or_waiting(
    world: dict[str, Any], frozen_clock: FrozenClock
) -> None:
    """Whoever pulls as long as there is something, apart from rounds and missed occurrences."""
    with plans.built(world, frozen_clock):
        shut = {
            (str(model.source), task.pk, task.availability.due_at)
            for model in TASK_MODELS.values()
            for state in ("full", "over", "waiting")
            for task in in_state(list(model.objects.exclude(on_failure="retry_same")), state)
        }
        before = set(Dispatch.objects.values_list("pk", flat=True))
        open_ones = set(Dispatch.objects.filter(state="open").values_list("pk", flat=True))
        for name in ("uid_alice", "uid_bob"):
            for _ in range(15):
                taken: Any = take_next(factories.member(name))
                if not isinstance(taken, Dispatch):
                    break
                end(taken)
        new = Dispatch.objects.exclude(pk__in=before | open_ones)
        given = {(each.source, each.task, each.occurrence_at) for each in new}
        assert not given & shut


# --- seen -----------------------------------------------------------------------------------------
@pytest.fixture
def some(group: Executor, frozen_clock: FrozenClock) -> dict[str, Any]:
    """A once task and a rotation of each state, by kind and state."""
    now = frozen_clock.instant
    rare = {"every_minutes": 20 * 1440}
    found: dict[str, Any] = {}
    starts = {"waiting": HOUR, "open": -HOUR, "overdue": -2 * DAY, "full": -HOUR, "over": -8 * DAY}
    for state, start in starts.items():
        fields: dict[str, Any] = {"start_at": now + start}
        found[f"once {state}"] = factories.once_task(group, f"once {state}", **fields)
        series = factories.rotation(group, title=f"rotation {state}", rule=rare, **fields)
        found[f"rotation {state}"] = series
    for kind in ("once", "rotation"):
        task = found[f"{kind} full"]
        number = 0 if kind == "once" else int(task.start_at.timestamp())
        Stock.objects.create(source=task.source, task=task.pk, occurrence=number, handed=1)
    return found


@pytest.mark.both
def test_states_are_filters_of_lists(
    some: dict[str, Any], admin_client: Client, api: Any, subtests: pytest.Subtests
) -> None:
    days = {"from_day": "2026-01-01", "to_day": "2026-12-31"}
    lists = ((ONCE, "once-tasks", "once"), (ROTATE, "rotate-tasks", "rotation"))
    for state, (url, path, kind) in product(OF_ACTIVE, lists):
        with subtests.test(state=state, kind=kind):
            page = admin_client.get(url, {"status": state, **days})
            assert [row.title for row in page.context["cl"].result_list] == [f"{kind} {state}"]
            assert state.capitalize() in text_of(page)
            [row] = api.get(f"/api/v1/{path}/", state=state).json()["results"]
            assert (row["title"], row["state"]) == (f"{kind} {state}", state)
            until = availability(some[f"{kind} {state}"]).until
            assert until is not None
            assert row["available_until"] == wire_time(until)


def test_lists_show_all_of_a_state_or_say_what_they_looked_at(
    some: dict[str, Any], admin_client: Client, api: Any, monkeypatch: Any
) -> None:
    monkeypatch.setattr(filters, "MAX_ROTATIONS", 2)
    monkeypatch.setattr("apps.dispatch.api.tasks.MAX_ROTATIONS", 2)
    days = {"from_day": "2026-01-01", "to_day": "2026-12-31"}
    page = admin_client.get(ROTATE, {"status": "waiting", **days})
    assert "Only the newest 2 tasks were looked at" in text_of(page)
    monkeypatch.setattr(filters, "MAX_ONCE", 1)
    factories.once_task(some["once over"].executor, start_at=some["once over"].start_at)
    page = admin_client.get(ONCE, {"status": "over", **days})
    assert "Only the newest 1 tasks were looked at" in text_of(page)
    assert len(page.context["cl"].result_list) == 1
    found, url = [], "/api/v1/rotate-tasks/?state=waiting"
    while url:
        answer = api.get(url).json()
        found += [row["title"] for row in answer["results"]]
        url = answer["next"]
    assert found == ["rotation waiting"]


def test_page_says_where_the_task_stands(some: dict[str, Any], admin_client: Client) -> None:
    def page(name: str) -> str:
        task = some[name]
        url = ONCE if name.startswith("once") else ROTATE
        return text_of(admin_client.get(f"{url}{task.pk}/change/"))

    words = " ".join(page("once open").replace(" .", ".").replace(" ;", ";").split())
    assert "Due 08:00; it can be had until 9 Mar 08:00." in words
    assert "and its quota was not used up." in page("once over")
    assert "1 of 1 handed out, 0 left" in page("rotation full")
    form = text_of(admin_client.get(f"{ONCE}add/"))
    assert "What is due can be had for at most 7 days, also without an end." in form
