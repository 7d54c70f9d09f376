"""What if: an unsaved task changes nothing, and shows what saving it would. S0.31, U3."""

from __future__ import annotations

from datetime import datetime, timedelta
from functools import partial
from typing import Any

import hypothesis
import pytest
from django.db import connection
from hypothesis import strategies as st

from apps.common.errors import Conflict, Invalid, PlatformError
from apps.dispatch.models import TASK_MODELS, Executor, OnceTask, RotateTask
from apps.dispatch.rules.plan import Planned
from apps.dispatch.rules.preview import NO_ID
from apps.dispatch.services import preview, queue, tasks, what_if
from apps.dispatch.services.preview import Period
from apps.dispatch.services.what_if import WhatIf
from tests import callback, factories
from tests.frozen import FrozenClock
from tests.integration.dispatch import plans
from tests.statements import sent_by

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("frozen_clock")]

NOW = plans.NOW
DAY = Period(NOW, NOW + timedelta(days=1))


def every_row() -> dict[str, Any]:
    """All that every table holds, of whatever app."""
    rows = {}
    with connection.cursor() as cursor:
        for table in sorted(connection.introspection.table_names(cursor)):
            cursor.execute(f"SELECT * FROM {connection.ops.quote_name(table)}")
            rows[table] = sorted(map(repr, cursor.fetchall()))
    return rows


def what_if_new(model: Any = OnceTask, **fields: Any) -> WhatIf:
    return what_if.what_if_created(model, fields=fields, period=DAY)


def what_if_changed(task: Any, **changes: Any) -> WhatIf:
    return what_if.what_if_updated(task=task, changes=changes, period=DAY)


def titles(answer: WhatIf) -> dict[str, tuple[list[str], list[str]]]:
    """Titles before and after, by executor."""
    return {
        change.executor.name: (
            [item.title for item in change.before.items],
            [item.title for item in change.after.items],
        )
        for change in answer.changes
    }


class TestWhoseQueues:
    @pytest.mark.both
    def test_new_task_of_a_user(self, alice: Executor) -> None:
        factories.once_task(alice, "A")
        answer = what_if_new(title="B", executor=alice, priority=1)
        assert titles(answer) == {"uid_alice": (["A"], ["B", "A"])}
        assert answer.changes[0].after.items[0].task == NO_ID

    def test_members_whose_queues_stay_are_left_out(self) -> None:
        """Bob has had it already."""
        group = factories.group("gid_a", ["uid_alice", "uid_bob"])
        task = factories.once_task(group, "A", mode="multi", dispatch_times=5, status="active")
        taken = callback.take_next(factories.member("uid_bob"))
        assert taken
        factories.once_task(factories.member("uid_bob"), "His own")
        answer = what_if_changed(task, dispatch_times=1)
        assert set(titles(answer)) == {"gid_a", "uid_alice", "uid_bob"}
        callback.call_back(
            executor=factories.member("uid_bob"), number=taken.pk, outcome="succeeded"
        )
        assert titles(what_if_changed(task, dispatch_times=1)) == {
            "gid_a": (["A"], []),
            "uid_alice": (["A"], []),
        }

    def test_moved_task_shows_the_old_and_the_new_executor(self) -> None:
        alice, bob = factories.user(), factories.user("uid_bob")
        task = factories.once_task(alice, "A")
        assert titles(what_if_changed(task, executor=bob, title="A for Bob")) == {
            "uid_alice": (["A"], []),
            "uid_bob": ([], ["A for Bob"]),
        }

    def test_many_members_are_not_all_shown(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(what_if, "MAX_MEMBERS", 2)
        group = factories.group("gid_a", ["uid_a", "uid_b", "uid_c"])
        answer = what_if_new(title="B", executor=group)
        assert set(titles(answer)) == {"gid_a", "uid_a", "uid_b"}
        assert answer.more_members


def test_long_queues_are_cut_at_the_same_item(monkeypatch: pytest.MonkeyPatch) -> None:
    """What one more in front pushes out at the end is not removed."""
    monkeypatch.setattr(what_if, "MAX_ITEMS", 3)
    alice = factories.user()
    for title in ("A", "B", "C"):
        factories.once_task(alice, title)
    answer = what_if_new(title="Urgent", executor=alice, priority=1)
    assert titles(answer) == {"uid_alice": (["A", "B"], ["Urgent", "A", "B"])}
    (change,) = answer.changes
    assert (change.before.more, change.after.more) == (True, True)


class TestRefusals:
    """As a save would be, word for word."""

    def refused_alike(self, trial: Any, save: Any, error: type[PlatformError]) -> None:
        with pytest.raises(error) as tried:
            trial()
        with pytest.raises(error) as saved:
            save()
        assert (tried.value.detail, tried.value.errors) == (saved.value.detail, saved.value.errors)

    def test_wrong_fields(self, alice: Executor, subtests: pytest.Subtests) -> None:
        task = factories.once_task(alice)
        cases: list[dict[str, Any]] = [
            {"priority": 101},
            {"mode": "many"},
            {"end_at": NOW - timedelta(days=1)},
            {"status": "deleted"},
            {"colour": "red"},
            {"mode": "single", "dispatch_times": 2},
        ]
        for fields in cases:
            with subtests.test(fields=fields):
                self.refused_alike(
                    partial(what_if_new, title="B", executor=alice, **fields),
                    partial(factories.once_task, alice, "B", **fields),
                    Invalid,
                )
                self.refused_alike(
                    partial(what_if_changed, task, **fields),
                    partial(tasks.update_task, task=task, changes=fields, actor="test"),
                    Invalid,
                )

    def test_another_version_and_a_deleted_task(self) -> None:
        task = factories.once_task(factories.user())
        with pytest.raises(Conflict, match="version 9, now 1"):
            what_if.what_if_updated(task=task, changes={}, period=DAY, version=9)
        tasks.delete_task(task=task, actor="test")
        with pytest.raises(Conflict, match="is deleted"):
            what_if_changed(task, priority=1)


CHANGES = st.fixed_dictionaries(
    {},
    optional={
        "title": st.just("Changed"),
        "owner": st.sampled_from(["uid_alice", "uid_bob", "gid_a", "gid_b"]),
        "start": plans.MINUTES,
        "priority": st.integers(-2, 2),
        "status": st.sampled_from(["active", "paused"]),
        "on_failure": st.sampled_from(["finish", "give_back", "retry_same"]),
        "on_expiry": st.sampled_from(["give_back", "keep"]),
        "lease_seconds": st.sampled_from([30, 9000]),
        "rule": plans.RULES,
        "misfire": st.sampled_from(["skip", "once", "all"]),
    },
)


def as_it_becomes(answer: WhatIf, period: Period, task: Any, changes: dict[str, Any]) -> None:
    """Before the save the queues are as they were shown, and after it, too."""
    before = [preview.preview(change.executor, period) for change in answer.changes]
    assert [change.before for change in answer.changes] == before
    tasks.update_task(task=task, changes=changes, actor="test")
    assert [change.after.items for change in answer.changes] == saved(answer, period)


def saved(answer: WhatIf, period: Period, new: Any = None) -> list[Any]:
    """What the previews show after the save, with a new task's id as before it had one."""
    after = []
    for change in answer.changes:
        change.executor.refresh_from_db()
        items = preview.preview(change.executor, period).items
        if new is not None:
            items = [
                item._replace(task=NO_ID) if (item.source, item.task) == new else item
                for item in items
            ]
        after.append(items)
    return after


@pytest.mark.both
@pytest.mark.parametrize("held", [False, True], ids=["called back", "still open"])
def test_what_members_have_had_counts_for_the_executor_of_each_version(
    held: bool, frozen_clock: FrozenClock
) -> None:
    """The task is moved from a group to one of its members."""
    group = factories.group("gid_a", ["uid_ann", "uid_bob"])
    task = factories.rotation(
        group,
        mode="multi",
        dispatch_times=None,
        start_at=frozen_clock.instant - timedelta(days=7),
    )
    ann, bob = factories.member("uid_ann"), factories.member("uid_bob")
    callback.taken(ann) if held else callback.finish(ann)
    period = Period(frozen_clock.instant, frozen_clock.instant + timedelta(hours=14))

    for who in (ann, bob):
        answer = what_if.what_if_updated(task=task, changes={"executor": who}, period=period)
        as_it_becomes(answer, period, task, {"executor": who})
        tasks.update_task(task=task, changes={"executor": group}, actor="test")


def test_what_is_due_of_a_rotation_is_worked_out_once_for_all(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It may be a thousand occurrences, of thirty rotations and for twenty members."""
    group = factories.group("gid_all", [f"uid_{n}" for n in range(5)])
    for title in ("A", "B"):
        factories.rotation(
            group, title, rule={"every_minutes": 1}, misfire="all", misfire_limit=100
        )
    real, asked = Planned.due, []

    def due(planned: Planned, now: datetime) -> Any:
        asked.append(planned.task)
        return real(planned, now)

    monkeypatch.setattr(Planned, "due", due)
    answer = what_if_new(title="C", executor=group, dispatch_times=None, mode="multi")

    assert len(answer.changes) == 6
    assert len(asked) == len({*asked}) == 2


def test_a_group_takes_as_many_statements_as_one_member() -> None:
    """Each kind of fact is read once for all who are compared."""
    sent = []
    for number in (1, 25):
        names = [f"uid_{number}_{n}" for n in range(number)]
        group = factories.group(f"gid_{number}", names)
        for of_all in (group, *map(factories.member, names)):
            factories.once_task(of_all, mode="multi", dispatch_times=5)
            factories.once_task(of_all, mode="multi", dispatch_times=None)
        every = factories.rotation(group, mode="multi", dispatch_times=None)
        for name in names:
            callback.take_next(factories.member(name))
        sent.append(len(sent_by(partial(what_if_changed, every, priority=50))))
    assert sent[0] <= sent[1] <= 20


@plans.in_worlds(30, which=st.integers(0, 4), changes=CHANGES)
def test_edit_is_shown_and_not_done(
    world: dict[str, Any], which: int, changes: dict[str, Any], frozen_clock: FrozenClock
) -> None:
    """S0.31: no row of any table changes; saved, the queues are as they were shown."""
    with plans.built(world, frozen_clock):
        planned = [task for model in TASK_MODELS.values() for task in model.objects.all()]
        task = planned[which % len(planned)]
        fields = {
            name: value
            for name, value in plans.resolved(changes, frozen_clock).items()
            if name in task.editable
        }
        period = Period(frozen_clock.instant, frozen_clock.instant + timedelta(hours=14))
        rows = every_row()
        try:
            answer = what_if.what_if_updated(task=task, changes=fields, period=period)
        except Invalid:
            with pytest.raises(Invalid):
                tasks.update_task(task=task, changes=fields, actor="test")
            return
        assert every_row() == rows
        as_it_becomes(answer, period, task, fields)


@pytest.mark.both
@plans.in_worlds(30, fields=plans.task_fields())
def test_new_task_is_shown_and_not_planned(
    world: dict[str, Any], fields: dict[str, Any], frozen_clock: FrozenClock
) -> None:
    """S0.31: no row of any table changes; saved, the queues are as they were shown."""
    with plans.built(world, frozen_clock):
        model = RotateTask if "rule" in fields else OnceTask
        values = {"title": "New", **plans.resolved(fields, frozen_clock)}
        period = Period(frozen_clock.instant, frozen_clock.instant + timedelta(hours=14))
        rows = every_row()
        try:
            answer = what_if.what_if_created(model, fields=values, period=period)
        except Invalid:
            # A rotation that is never due.
            hypothesis.reject()
        assert every_row() == rows

        task = plans.plan(fields, frozen_clock, title="New")

        new = (task.source, task.pk)
        assert [change.after.items for change in answer.changes] == saved(answer, period, new)


def test_nothing_leaks_into_the_queues_that_pulls_use(alice: Executor) -> None:
    """A what-if keeps no plan and no queue."""
    task = factories.once_task(alice, "A")
    queue.plans.clear(), queue.entries.clear()
    assert titles(what_if_changed(task, title="B")) == {"uid_alice": (["A"], ["B"])}
    assert not (queue.plans or queue.entries)
