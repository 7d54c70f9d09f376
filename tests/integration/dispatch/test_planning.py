"""Planning, one by one and many at once: executors, templates, once tasks and rotations. S0.32, I7,
I12, I23."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.db import DatabaseError

from apps.common.errors import Invalid, LimitReached
from apps.common.json_rules import canonical
from apps.dispatch.models import Dispatch, Executor, OnceTask, RotateTask, Stock
from apps.dispatch.services import bulk, executors, pull, tasks, templates
from apps.dispatch.services.availability import read_availability
from apps.dispatch.services.bulk import Refusal
from apps.journal.models import JournalEntry
from apps.journal.services.versions import set_status
from tests import callback, factories
from tests.frozen import FrozenClock
from tests.integration.dispatch.housekeeping import is_idle

pytestmark = [pytest.mark.django_db, pytest.mark.both]

OLGA = factories.OPERATOR


def plan_version(name: str) -> int:
    return Executor.objects.get(name=name).plan_version


def last_entry() -> JournalEntry:
    entry = JournalEntry.objects.filter(source="plan").order_by("id").last()
    assert entry is not None
    return entry


def test_membership_change_touches_the_plan_of_that_user_only() -> None:
    """S0.5, S0.32: the queue of who joined is void, nobody else's."""
    group = factories.group("gid_a", ["uid_a"])
    before = plan_version("uid_a"), plan_version("gid_a")
    executors.change_members(group=group, add=["uid_b"], actor=OLGA)
    assert (plan_version("uid_a"), plan_version("gid_a")) == before
    assert plan_version("uid_b") == 1


class TestTemplates:
    def test_true_is_another_word_of_a_schema_than_1(self) -> None:
        for number, value in enumerate((1, True, 1.0), start=1):
            schema = {"type": "object", "properties": {"n": {"const": value}}}
            assert factories.template("photo", schema).version == number

    def test_retired_template_cannot_be_chosen_but_stays_where_it_is(self) -> None:
        """S0.2: its status is enforced."""
        template = factories.template("photo")
        task = factories.once_task(factories.user(), template=template, params={"shop": "A"})
        assert set_status(template, "retired", actor=OLGA)
        assert not set_status(template, "retired", actor=OLGA)
        tasks.update_task(task=task, changes={"params": {"shop": "B"}}, actor=OLGA)
        with pytest.raises(Invalid, match="photo v1 is retired"):
            factories.once_task(task.executor, template=template, params={"shop": "A"})
        with pytest.raises(Invalid, match="retired"):
            templates.find_usable("photo")


def test_true_is_another_param_than_1() -> None:
    """I18: what the answer shows is what is stored."""
    task = factories.once_task(factories.user(), params={"deep": [{"n": 1}]})
    for value in (True, 1.0, 1):
        changed = tasks.update_task(
            task=task, changes={"params": {"deep": [{"n": value}]}}, actor=OLGA
        )
        stored = OnceTask.objects.get(pk=task.pk)
        assert canonical(stored.params) == canonical(changed.params)
        assert type(stored.params["deep"][0]["n"]) is type(value)


def finish(executor: Executor) -> datetime:
    """Pull, call back, and the instant at which it was due."""
    return callback.finish(executor).occurrence_at


class TestOccurrences:
    def test_each_comes_once_when_it_is_due(self, alice: Executor, frozen_clock: Any) -> None:
        """S0.11, S0.22, I20: start + k · space, the first run at the start included."""
        start = frozen_clock.instant
        task = factories.rotation(alice, rule={"every_minutes": 30})
        assert finish(alice) == start
        assert is_idle(alice)
        frozen_clock.advance(minutes=29, seconds=59)
        assert is_idle(alice)
        frozen_clock.advance(seconds=1)
        assert finish(alice) == start + timedelta(minutes=30)
        second = Dispatch.objects.latest("pk")
        assert (second.source, second.task) == ("rotate", task.pk)
        assert second.occurrence == int(second.occurrence_at.timestamp())

    def test_local_time_follows_the_zone(self, alice: Executor, frozen_clock: Any) -> None:
        """S0.11, I21: 10:30 in Berlin is 09:30 UTC in winter and 08:30 in summer."""
        factories.rotation(alice, rule={"every_days": 1, "at": "10:30"}, time_zone="Europe/Berlin")
        assert is_idle(alice)
        frozen_clock.move_to(datetime(2026, 3, 2, 9, 30, tzinfo=UTC))
        assert finish(alice) == frozen_clock.instant
        frozen_clock.move_to(datetime(2026, 4, 1, 8, 29, 59, tzinfo=UTC))
        finish(alice)
        assert is_idle(alice)
        frozen_clock.advance(seconds=1)
        assert finish(alice) == frozen_clock.instant


class TestEdits:
    def test_edit_never_makes_a_new_past(self, alice: Executor, frozen_clock: Any) -> None:
        """I23: the new rule counts from the edit on, and what is handed out stays as it was."""
        task = factories.rotation(alice, misfire="all")
        first = finish(alice)
        frozen_clock.advance(minutes=11)
        tasks.update_task(task=task, changes={"rule": {"every_minutes": 5}}, actor=OLGA)
        assert is_idle(alice)
        frozen_clock.advance(minutes=4)
        assert finish(alice) == first + timedelta(minutes=15)

    def test_what_had_ended_goes_on_without_what_it_missed(
        self, alice: Executor, frozen_clock: Any
    ) -> None:
        """I23: what would have been due since its end was never planned."""
        start = frozen_clock.instant
        task = factories.rotation(alice, misfire="all", end_at=start + timedelta(minutes=40))
        assert finish(alice) == start
        frozen_clock.advance(hours=2, minutes=10)
        tasks.update_task(task=task, changes={"end_at": None}, actor=OLGA)
        assert is_idle(alice)
        frozen_clock.advance(minutes=20)
        assert finish(alice) == frozen_clock.instant

    def test_change_of_the_default_zone_refires_nothing(
        self, alice: Executor, frozen_clock: Any, settings: Any
    ) -> None:
        """I24: a task keeps the zone that it was planned in."""
        factories.rotation(alice, rule={"cron": "0 9 * * *"})
        finish(alice)
        settings.TIME_ZONE = "Asia/Tokyo"
        assert is_idle(alice)
        assert RotateTask.objects.get().time_zone == "UTC"


class TestLimits:
    def test_rotations_per_executor_are_limited(self, alice: Executor, settings: Any) -> None:
        """S0.23: a clear error at the limit; paused ones do not count, resuming does."""
        settings.ROTATIONS_PER_EXECUTOR = 2
        factories.rotation(alice)
        paused = factories.rotation(alice, status="paused")
        factories.rotation(alice)
        with pytest.raises(LimitReached, match="uid_alice has 2 active repeating tasks"):
            factories.rotation(alice)
        with pytest.raises(LimitReached):
            tasks.update_task(task=paused, changes={"status": "active"}, actor=OLGA)
        factories.rotation(factories.user("uid_bob"))
        assert RotateTask.objects.filter(executor=alice).count() == 3

    def test_edit_at_the_limit_is_allowed(self, alice: Executor, settings: Any) -> None:
        settings.ROTATIONS_PER_EXECUTOR = 1
        task = factories.rotation(alice)
        assert tasks.update_task(task=task, changes={"priority": 1}, actor=OLGA).priority == 1


BY_OLGA: dict[str, Any] = {"actor": "admin:olga", "reason": "Storm"}


def once_tasks(count: int = 3, executor: Executor | None = None) -> list[OnceTask]:
    executor = executor or factories.user()
    return [factories.once_task(executor, title=f"Task {n}") for n in range(count)]


def plan_versions() -> dict[str, int]:
    return dict(Executor.objects.values_list("name", "plan_version"))


def refused(outcome: bulk.BulkResult) -> dict[int, str | None]:
    return {refusal.task: refusal.why for refusal in outcome.refused}


# --- pause, resume, delete ------------------------------------------------------------------------
def test_many_are_paused_with_one_rise_of_each_plan_and_an_entry_each() -> None:
    """S0.32, I12: bulk edits are batched, and nobody's queue is forgotten."""
    alice, bob, carl = (factories.user(f"uid_{name}") for name in ("alice", "bob", "carl"))
    mine = [*once_tasks(3, alice), *once_tasks(2, bob)]
    once_tasks(1, carl)
    versions = plan_versions()

    outcome = bulk.change(OnceTask.objects.filter(pk__in=[t.pk for t in mine]), "pause", **BY_OLGA)

    assert (outcome.done, outcome.refused) == (5, [])
    assert OnceTask.objects.filter(status="paused", version=2).count() == 5
    raised = {name: count - versions[name] for name, count in plan_versions().items()}
    assert raised == {"uid_alice": 1, "uid_bob": 1, "uid_carl": 0}
    entries = JournalEntry.objects.filter(event="task_changed", reason="Storm", actor="admin:olga")
    assert {entry.subject_id for entry in entries} == {task.pk for task in mine}
    changed = {"before": {"status": "active"}, "after": {"status": "paused"}}
    assert entries[0].data == {**changed, "undo": {"version": 2, "was": {}}}


def test_batches_are_bounded_and_the_statements_of_one_few(
    django_assert_max_num_queries: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A batch costs one UPDATE a row and some ten statements besides."""
    once_tasks(20)
    with django_assert_max_num_queries(20 + 12):
        bulk.change(OnceTask.objects.all(), "pause", **BY_OLGA)
    sizes: list[int] = []
    publish = tasks.publish
    monkeypatch.setattr(tasks, "publish", lambda edits: sizes.append(len(edits)) or publish(edits))
    monkeypatch.setattr(bulk, "BATCH", 8)

    assert bulk.change(OnceTask.objects.all(), "delete", **BY_OLGA).done == 20

    assert sizes == [8, 8, 4]


def test_row_that_the_database_does_not_take_fails_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    bad = once_tasks()[1]
    save = OnceTask.save

    def fail(task: OnceTask, **kwargs: Any) -> None:
        if task.pk == bad.pk:
            raise DatabaseError("the disk has a hole here")
        save(task, **kwargs)

    monkeypatch.setattr(OnceTask, "save", fail)

    outcome = bulk.change(OnceTask.objects.all(), "pause", **BY_OLGA)

    assert outcome.done == 2
    assert refused(outcome) == {bad.pk: "The database did not take it; try again."}
    assert OnceTask.objects.filter(status="paused").count() == 2
    assert JournalEntry.objects.filter(reason="Storm").count() == 2


def test_only_the_given_rows_are_touched_however_they_change_meanwhile() -> None:
    """What an operator may not see any more when the rows are locked is left alone."""
    kept, moved = once_tasks(2)
    rows = OnceTask.objects.filter(executor=kept.executor_id)
    pks = sorted(rows.values_list("pk", flat=True))
    tasks.update_task(task=moved, changes={"executor": factories.user("uid_bob")}, actor="x")

    outcome = bulk._surely(rows, pks, lambda task, now: iter([Refusal(task.pk, None)]), "", ())

    assert refused(outcome) == {kept.pk: None, moved.pk: "It does not exist any more."}


def test_as_many_rotations_are_resumed_as_their_executor_has_room_for(settings: Any) -> None:
    """S0.23: the limit counts those of the same batch, too."""
    settings.ROTATIONS_PER_EXECUTOR = 3
    alice = factories.user()
    factories.rotation(alice)
    resting = [factories.rotation(alice, status="paused") for _ in range(4)]

    outcome = bulk.change(RotateTask.objects.filter(status="paused"), "resume", **BY_OLGA)

    assert outcome.done == 2
    assert [refusal.task for refusal in outcome.refused] == [task.pk for task in resting[2:]]
    assert all("has 3 active repeating tasks" in str(refusal.why) for refusal in outcome.refused)


# --- shift ----------------------------------------------------------------------------------------
def test_shifted_once_task_keeps_its_stock(frozen_clock: FrozenClock) -> None:
    """I7: who has it does not get it again, the others do, and no earlier than it starts."""
    factories.group(members=["uid_alice", "uid_bob"])
    now = frozen_clock.instant
    task = factories.once_task(
        Executor.objects.get(name="gid_sales"),
        mode="multi",
        dispatch_times=2,
        start_at=now,
        end_at=now + timedelta(hours=3),
    )
    callback.taken(factories.member("uid_alice"))

    outcome = bulk.change(OnceTask.objects.all(), "shift", {"shift_seconds": 7200}, **BY_OLGA)

    assert outcome.done == 1
    task.refresh_from_db()
    assert (task.start_at, task.end_at) == (now + timedelta(hours=2), now + timedelta(hours=5))
    assert Stock.objects.get().handed == 1
    assert isinstance(callback.take_next(factories.member("uid_bob")), pull.Nothing)
    frozen_clock.advance(hours=2)
    assert isinstance(callback.take_next(factories.member("uid_bob")), Dispatch)
    assert Stock.objects.get().handed == 2


# --- copy -----------------------------------------------------------------------------------------
def test_copies_are_tasks_of_their_own(frozen_clock: FrozenClock) -> None:
    """S0.32: with all that was planned, and nothing that was handed out."""
    alice, bob, carl = (factories.user(f"uid_{name}") for name in ("alice", "bob", "carl"))
    template = factories.template()
    fields = {"mode": "blocking", "dispatch_times": 3, "priority": 5, "params": {"shop": "S9"}}
    original = factories.once_task(alice, template=template, **fields)
    callback.take_next(alice)
    versions = plan_versions()

    outcome = bulk.copy(OnceTask.objects.all(), [carl, bob], **BY_OLGA)

    assert (outcome.done, outcome.refused) == (2, [])
    copies = OnceTask.objects.exclude(pk=original.pk).order_by("executor__name")
    assert [copy.executor.name for copy in copies] == ["uid_bob", "uid_carl"]
    for copy in copies:
        for name in {*OnceTask.editable} - {"executor"}:
            assert getattr(copy, name) == getattr(original, name), name
        assert (copy.version, copy.created_by) == (1, "admin:olga")
    read_availability([*copies])
    assert [copy.availability.handed for copy in copies] == [0] * len(copies)
    raised = {name: count - versions[name] for name, count in plan_versions().items()}
    assert raised == {"uid_alice": 0, "uid_bob": 1, "uid_carl": 1}
    copied = JournalEntry.objects.get(event="task_copied")
    assert (copied.subject_id, copied.reason) == (original.pk, "Storm")
    assert copied.data["after"]["copies"] == "uid_bob, uid_carl"
    made = JournalEntry.objects.filter(event="task_created", reason="Storm")
    assert {entry.data["after"]["copied_from"] for entry in made} == {f"once:{original.pk}"}
    assert isinstance(callback.take_next(bob), Dispatch)


def test_copy_of_a_rotation_has_the_occurrences_of_the_original(frozen_clock: FrozenClock) -> None:
    """I23: those that an edit took from the original do not come back."""
    original = factories.rotation(factories.user(), rule={"every_minutes": 10}, misfire="all")
    frozen_clock.advance(minutes=45)
    original = tasks.update_task(task=original, changes={"rule": {"every_minutes": 20}}, actor="x")
    frozen_clock.advance(minutes=30)

    bulk.copy(RotateTask.objects.all(), [factories.user("uid_bob")], **BY_OLGA)

    copy = RotateTask.objects.latest("pk")
    assert copy.pk != original.pk
    assert copy.due(frozen_clock.instant) == original.due(frozen_clock.instant)


def test_pair_that_cannot_be_is_refused_and_the_others_are_made(settings: Any) -> None:
    settings.ROTATIONS_PER_EXECUTOR = 2
    alice, bob = factories.user(), factories.user("uid_bob")
    factories.rotation(bob)
    first, second = factories.rotation(alice), factories.rotation(alice)
    rows = RotateTask.objects.filter(executor=alice)

    outcome = bulk.copy(rows, [alice, bob], **BY_OLGA)

    assert outcome.done == 1
    full = (
        "uid_bob has 2 active repeating tasks, and more are not allowed; pause or delete one, or "
        "raise ROTATIONS_PER_EXECUTOR."
    )
    mine = "It is addressed to uid_alice already."
    assert outcome.refused == [
        Refusal(first.pk, mine, "uid_alice"),
        Refusal(second.pk, mine, "uid_alice"),
        Refusal(second.pk, full, "uid_bob"),
    ]


def test_copy_that_is_sent_twice_is_made_once() -> None:
    once_tasks(2)
    bob = factories.user("uid_bob")
    for done in (2, 0):
        rows = OnceTask.objects.exclude(executor=bob)
        assert bulk.copy(rows, [bob], once="a1", **BY_OLGA).done == done
    assert OnceTask.objects.count() == 4


@pytest.mark.mariadb
def test_batches_that_meet_wait_for_each_other_and_all_edits_are_made(racers: Any) -> None:
    """Rows are locked in one order, and a transaction that lost a lock is run again."""
    executors = [factories.user(f"uid_{n}") for n in range(4)]
    for n in range(24):
        factories.once_task(executors[n % 4], title=f"Task {n}")
    steps = [{"shift_seconds": 60 * n} for n in range(1, 7)]
    start = OnceTask.objects.order_by("pk")[0].start_at

    race = racers(
        [lambda by=by: bulk.change(OnceTask.objects.all(), "shift", by, **BY_OLGA) for by in steps]
    )

    assert [outcome.done for outcome in race.results] == [24] * 6
    assert OnceTask.objects.order_by("pk")[0].start_at == start + timedelta(minutes=21)
    assert OnceTask.objects.filter(version=7).count() == 24
