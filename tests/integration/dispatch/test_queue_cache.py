"""The plans and queues that are kept: they save reads and never change what is handed out."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import suppress
from datetime import timedelta
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from apps.common import clock
from apps.common.db import fetch
from apps.common.errors import PlatformError
from apps.dispatch.models import Dispatch, Executor
from apps.dispatch.services import candidates, executors, past, pull, queue, tasks
from apps.dispatch.services.claim import claim
from apps.dispatch.services.executor_state import state_of
from tests import factories
from tests.callback import end, finish, take_next, title_of

pytestmark = [pytest.mark.django_db, pytest.mark.both]


def plans_read(work: Callable[[], object]) -> int:
    """How often the work has read the tasks of an executor."""
    with CaptureQueriesContext(connection) as captured:
        work()
    return sum(_reads_plan(query["sql"]) for query in captured)


def _reads_plan(sql: str) -> bool:
    return sql.startswith("SELECT") and 'FROM "dispatch_rotatetask"' in sql.replace("`", '"')


def test_a_plan_larger_than_the_memory_pushes_out_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is served all the same."""
    for name in ("plans", "entries"):
        kept = getattr(queue, name)
        monkeypatch.setattr(queue, name, type(kept)(12, getsizeof=kept.getsizeof))
    small, large = factories.user(), factories.user("uid_large")
    for executor, count in ((small, 3), (large, 12)):
        for _ in range(count):
            factories.once_task(executor)
    take_next(small)

    assert isinstance(take_next(large), Dispatch)

    assert (set(queue.plans), set(queue.entries)) == ({small.pk}, {small.pk})
    assert plans_read(lambda: finish(small)) == 0


def test_a_plan_that_has_become_too_large_is_kept_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(queue, "plans", type(queue.plans)(3, getsizeof=queue.plans.getsizeof))
    alice = factories.user()
    for expected in ({alice.pk}, {alice.pk}, set()):
        factories.once_task(alice)
        queue.entry_of(state_of(alice.pk), now=clock.now())
        assert set(queue.plans) == expected


def rebuilt(executor: Executor) -> queue.QueueEntry:
    return queue.rebuilt(executor, now=clock.now(), actor=factories.OPERATOR)


def test_rebuilding_the_queue_of_one_member_leaves_those_of_the_others() -> None:
    """Neither built again nor outdated, here and in other processes."""
    names = [f"uid_{n}" for n in range(3)]
    group = factories.group("gid_all", names)
    factories.once_task(group, mode="multi", dispatch_times=None)
    first, *others = (factories.member(name) for name in names)
    for person in (first, *others):
        take_next(person)
    before = {person.pk: queue.entries[person.pk] for person in others}
    versions = dict(Executor.objects.values_list("pk", "plan_version"))

    assert plans_read(lambda: rebuilt(first)) == 2

    for person in others:
        entry = queue.entry_of(state_of(person.pk), now=clock.now())
        assert entry is before[person.pk]
    raised = dict(Executor.objects.values_list("pk", "plan_version"))
    assert [pk for pk, version in raised.items() if version != versions[pk]] == [first.pk]


def test_members_share_the_plan_of_their_group() -> None:
    """S0.18, I12: the members of a group build its plan once, not each for itself."""
    members = [f"uid_{n}" for n in range(5)]
    group = factories.group("gid_all", members)
    factories.once_task(group, mode="multi", dispatch_times=5)
    people = [factories.member(name) for name in members]
    reads = [plans_read(lambda each=each: take_next(each)) for each in people]
    # Its own plan each, and the first one that of the group.
    assert reads == [2, 1, 1, 1, 1]


def edits() -> dict[str, Callable[[Any], object]]:
    operator = {"actor": factories.OPERATOR}
    return {
        "create": lambda s: factories.once_task(s.group, "new", priority=9),
        "edit": lambda s: tasks.update_task(task=s.task, changes={"title": "new"}, **operator),
        "delete": lambda s: tasks.delete_task(task=s.task, **operator),
        "move": lambda s: tasks.update_task(
            task=s.others, changes={"executor": s.alice, "title": "new", "priority": 9}, **operator
        ),
        "leave": lambda s: executors.change_members(
            group=s.group, remove=["uid_alice"], **operator
        ),
        "disable": lambda s: executors.update_executor(
            executor=s.group, changes={"enabled": False}, **operator
        ),
        "join": lambda s: executors.change_members(
            group=s.strangers, add=["uid_alice"], **operator
        ),
    }


class Scene:
    def __init__(self) -> None:
        self.group = factories.group("gid_all", ["uid_alice"])
        self.strangers = factories.group("gid_strangers")
        self.alice = factories.member("uid_alice")
        self.task = factories.once_task(self.group, "old")
        self.others = factories.once_task(factories.user("uid_bob"), "bobs")
        factories.once_task(self.strangers, "new", priority=9)


EXPECTED = {
    **dict.fromkeys(("create", "edit", "move", "join"), "new"),
    **dict.fromkeys(("delete", "leave", "disable"), "nothing"),
}


@pytest.mark.parametrize("edit", EXPECTED)
def test_an_edit_rebuilds_nothing_and_is_seen_by_the_next_pull(edit: str) -> None:
    """S0.5, S0.32, S0.33, S0.34: its own transaction outdates the kept queue, which it leaves as it
    is, without reading a plan; the next pull rebuilds it."""
    scene = Scene()
    kept = queue.entry_of(state_of(scene.alice.pk), now=scene.task.start_at)
    assert plans_read(lambda: edits()[edit](scene)) == 0
    assert queue.entries[scene.alice.pk] is kept
    current = state_of(scene.alice.pk).versions
    assert current != kept.versions
    assert title_of(take_next(scene.alice)) == EXPECTED[edit]
    assert queue.entries[scene.alice.pk].versions == current


@pytest.mark.parametrize("edit", EXPECTED)
def test_a_build_begun_before_an_edit_is_not_used_after_it(
    edit: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """S0.18, I12: neither the plan nor the queue that an edit overtook is used by a later pull."""
    scene = Scene()
    plan_of, state = queue.plan_of, state_of(scene.alice.pk)

    def overtaken(*args: Any, **kwargs: Any) -> Any:
        read = plan_of(*args, **kwargs)
        monkeypatch.setattr(queue, "plan_of", plan_of)
        edits()[edit](scene)
        return read

    monkeypatch.setattr(queue, "plan_of", overtaken)
    queue.entry_of(state, now=scene.task.start_at)
    assert title_of(take_next(scene.alice)) == EXPECTED[edit]


def test_a_pull_that_another_overtakes_answers_the_same_task(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """I4, I15: two pulls of one user, the second done while the first checks what is free."""
    alice = factories.user()
    factories.once_task(alice)
    past_of, overtaking = candidates.past_of, []

    def overtaken(*args: Any) -> Any:
        monkeypatch.setattr(candidates, "past_of", past_of)
        overtaking.append(take_next(alice))
        return past_of(*args)

    monkeypatch.setattr(candidates, "past_of", overtaken)
    assert take_next(alice) == overtaking[0]


@pytest.mark.parametrize(
    ("changes", "title"),
    [
        ({"title": "another", "lease_seconds": 60}, "another"),
        ({"mode": "blocking"}, "Check the shelf"),
        ({"status": "paused"}, "nothing"),
    ],
)
def test_an_edit_that_is_answered_before_the_hand_out_counts(
    changes: dict[str, Any], title: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """I12: what was found under the old plan is searched again, and not missed."""
    alice = factories.user()
    task = factories.once_task(alice)
    edits = iter([changes])

    def overtaken(*args: Any) -> Dispatch | None:
        for each in edits:
            tasks.update_task(task=task, changes=each, actor=factories.OPERATOR)
        return claim(*args)

    monkeypatch.setattr(pull, "claim", overtaken)
    assert title_of(take_next(alice)) == title
    task.refresh_from_db()
    leases = [each.deadline_at - each.dispatched_at for each in Dispatch.objects.all()]
    assert leases == [timedelta(seconds=task.lease_seconds)] * (title != "nothing")


@pytest.mark.parametrize("name", ["uid_a", "gid_all"])
def test_a_disabling_that_is_answered_before_the_hand_out_counts(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """I7, I60: of the user, and of the group whose task it is."""
    factories.once_task(factories.group("gid_all", ["uid_a"]))
    disabled = iter([factories.member(name)])

    def overtaken(*args: Any) -> Dispatch | None:
        for each in disabled:
            changes = {"enabled": False}
            executors.update_executor(executor=each, changes=changes, actor=factories.OPERATOR)
        return claim(*args)

    monkeypatch.setattr(pull, "claim", overtaken)
    with suppress(PlatformError):
        assert title_of(take_next(factories.member("uid_a"))) == "nothing"
    assert not Dispatch.objects.exists()


def test_one_free_task_is_found_behind_many_that_are_not() -> None:
    """S0.25: those used up are passed over, however many there are."""
    group = factories.group("gid_all", ["uid_a", "uid_b"])
    a, b = factories.member("uid_a"), factories.member("uid_b")
    for _ in range(60):
        factories.once_task(group, priority=1)
    factories.once_task(group, "the last", mode="multi", dispatch_times=2)
    for _ in range(60):
        finish(a)
    assert title_of(take_next(a)) == "the last"
    assert title_of(take_next(b)) == "the last"


def test_a_retry_is_found_behind_many_that_are_used_up() -> None:
    """S0.29: it needs no stock, so it is not passed over with them."""
    group = factories.group("gid_all", ["uid_a", "uid_b"])
    a, b = factories.member("uid_a"), factories.member("uid_b")
    for _ in range(20):
        factories.once_task(group, priority=1)
        finish(b)
    factories.once_task(group, "again", on_failure="retry_same")
    for _ in range(2):
        taken = take_next(a)
        assert title_of(taken) == "again"
        end(taken, "failed")


def test_what_is_read_does_not_grow_with_the_rounds(monkeypatch: pytest.MonkeyPatch) -> None:
    """S0.13: a task that an executor has had thirty times costs as much as one it never had."""
    group = factories.group("gid_all", ["uid_a"])
    task = factories.once_task(group, mode="blocking", dispatch_times=40)
    alice = factories.member("uid_a")
    for _ in range(30):
        finish(alice)
    [candidate] = queue.entry_of(state_of(alice.pk), now=task.start_at).queue
    rows: list[Any] = []

    def counted(*args: Any) -> Any:
        rows.extend(found := fetch(*args))
        return found

    monkeypatch.setattr(past, "fetch", counted)
    found = past.past_of(alice.pk, [candidate])
    last = found.latest[candidate.identity]
    assert (last.rounds, last.earlier_counts) == (30, True)
    assert found.handed == {candidate.identity: 30}
    assert len(rows) == 1


def test_a_kept_queue_forgets_what_its_user_has_done(alice: Executor) -> None:
    """S0.10, I10: the work of the past does not pile up in the queue."""
    for _ in range(12):
        factories.once_task(alice)
    for _ in range(11):
        finish(alice)
    assert len(queue.entries[alice.pk].queue) <= 2


@pytest.mark.mariadb
@pytest.mark.django_db(transaction=True)
def test_a_stampede_builds_the_plan_of_a_group_once(
    racers: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """S0.18, I12: of 20 members that come at once, one reads the tasks of the group."""
    members = [f"uid_{n}" for n in range(20)]
    group = factories.group("gid_all", members)
    factories.once_task(group, mode="multi", dispatch_times=20)
    plan_of, lock, read = queue.plan_of, threading.Lock(), []

    def counted(owners: Any, *args: Any, **kwargs: Any) -> Any:
        with lock:
            read.extend(owners)
        return plan_of(owners, *args, **kwargs)

    monkeypatch.setattr(queue, "plan_of", counted)
    people = [factories.member(name) for name in members]
    race = racers([lambda each=each: take_next(each) for each in people])
    assert [title_of(taken) for taken in race.results] == ["Check the shelf"] * 20
    assert read.count(group.pk) == 1
