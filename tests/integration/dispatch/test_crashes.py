"""A process killed at any statement leaves all of a hand-out or ending, or nothing of it; what was
deleted between look-up and insert is a clear refusal."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from django.db import IntegrityError, transaction

from apps.common import clock
from apps.common.api.problems import from_exception
from apps.common.errors import Conflict, NotFound
from apps.dispatch.models import (
    Dispatch,
    Executor,
    Membership,
    OnceTask,
    RotateTask,
    Stock,
    Template,
)
from apps.dispatch.services import executors, pull, tasks, templates
from apps.journal.models import JournalEntry
from tests import callback, factories
from tests.callback import take_next
from tests.integration.api.contract import ContractClient
from tests.integration.dispatch import housekeeping
from tests.kills import killed_at, kills

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.both]


def audit() -> None:
    """I1, I2: stock, dispatch and journal agree."""
    housekeeping.audit()
    housekeeping.audit_journal()


def test_pull_killed_at_any_statement() -> None:
    """S0.27, I2, I3: decrement, hand-out, the user's current task and journal are one."""
    factories.group("gid_all", ["uid_a"])
    factories.once_task(factories.member("gid_all"))
    alice = factories.member("uid_a")
    for _ in kills(lambda: take_next(alice), more_than=8):
        audit()
        assert not Dispatch.objects.exists()
    audit()
    answer = callback.taken(alice)
    assert (answer.pk, answer.redo) == (Dispatch.objects.get().pk, 1)


def test_ending_killed_at_any_statement() -> None:
    """S0.29, I11, I13: a given-back ending returns the stock with its row, or not at all."""
    alice = factories.user()
    factories.once_task(alice, on_failure="give_back")
    taken = callback.taken(alice)

    def fail() -> None:
        callback.call_back(executor=alice, number=taken.pk, outcome="failed")

    for _ in kills(fail, more_than=4):
        audit()
        assert Dispatch.objects.get().is_open
    audit()
    assert Stock.objects.get().handed == 0


def test_callback_with_the_next_task_killed_at_any_statement() -> None:
    """S0.27, I2: the ending and the hand-out that goes with it are one."""
    alice = factories.user()
    statement, times = 1, 0
    while True:
        for _ in range(2):
            factories.once_task(alice)
        taken = callback.taken(alice)
        killed = killed_at(
            statement,
            lambda number=taken.pk: callback.call_back_and_pull(  # type: ignore[misc]
                executor=alice, number=number, outcome="succeeded"
            ),
        )
        audit()
        before = Dispatch.objects.get(pk=taken.pk)
        following = Dispatch.objects.filter(open_for=alice.pk).first()
        assert following is not None
        assert before.is_open == (following.pk == taken.pk)
        if not killed:
            break
        statement, times = statement + 1, times + 1
    assert times > 5


BY = {"actor": "admin:olga"}


@pytest.fixture
def alice() -> Executor:
    return factories.user()


@pytest.fixture
def after(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """`after(module, "function", act)`: somebody acts right after the function has returned."""

    def patch(module: Any, name: str, act: Callable[[], object]) -> None:
        real = getattr(module, name)

        def run(*args: Any, **words: Any) -> Any:
            found = real(*args, **words)
            act()
            return found

        monkeypatch.setattr(module, name, run)

    return patch


def remove(executor: Executor) -> None:
    executors.remove_executor(executor=executor, **BY)


@pytest.mark.parametrize("path", ["once-tasks", "rotate-tasks"])
@pytest.mark.parametrize("what", ["executor", "template"])
def test_a_task_of_something_deleted_is_a_conflict(
    make_key: Any, alice: Executor, after: Any, path: str, what: str
) -> None:
    template = factories.template("photo-check", {"type": "object"})
    deeds = {
        "executor": lambda: remove(alice),
        "template": lambda: templates.remove_template(template=template, **BY),
    }
    after(templates, "find_usable", deeds[what])
    body = {"title": "Photo", "executor": "uid_alice", "template": "photo-check"}
    if path == "rotate-tasks":
        body |= {"rule": {"every_minutes": 30}, "time_zone": "UTC"}  # type: ignore[dict-item]

    answer = ContractClient(make_key()).post(f"/api/v1/{path}/", body)

    assert answer.status_code == 409, answer.content
    problem = answer.json()
    assert (problem["code"], problem["errors"][0]["field"]) == ("conflict", what)
    assert "deleted just now; choose another one" in problem["detail"]
    assert not OnceTask.objects.exists() and not RotateTask.objects.exists()
    assert not JournalEntry.objects.filter(event="task_created").exists()


def test_a_task_cannot_go_to_an_executor_deleted_meanwhile(alice: Executor) -> None:
    task = factories.once_task(factories.user("uid_ben"))
    remove(alice)
    with pytest.raises(Conflict, match="person or group was deleted just now"):
        tasks.update_task(task=task, changes={"executor": alice}, **BY)


def test_members_of_a_group_deleted_meanwhile_are_a_conflict(alice: Executor) -> None:
    group = factories.group()
    remove(group)
    with pytest.raises(Conflict, match="gid_sales was deleted just now"):
        executors.change_members(group=group, add=["uid_alice"], **BY)
    assert not Membership.objects.exists()


def test_a_new_member_deleted_meanwhile_is_a_conflict(
    alice: Executor, monkeypatch: pytest.MonkeyPatch
) -> None:
    group = factories.group()
    raise_version = type(Executor.objects.all()).raise_plan_version

    def overtaken(rows: Any) -> int:
        Executor.objects.filter(pk=alice.pk).delete()
        return raise_version(rows)

    monkeypatch.setattr(type(Executor.objects.all()), "raise_plan_version", overtaken)
    with pytest.raises(Conflict, match="deleted one of the members"):
        executors.change_members(group=group, add=["uid_alice"], **BY)


def test_a_pull_of_a_user_deleted_meanwhile_finds_nobody(alice: Executor, after: Any) -> None:
    group = factories.group("gid_all", [alice.name])
    factories.once_task(group)
    after(pull, "caller", lambda: remove(alice))
    with pytest.raises(NotFound, match="no person or group"):
        take_next(alice)


def test_a_reference_to_nothing_is_a_conflict_wherever_it_happens(alice: Executor) -> None:
    """The database refuses it at the statement or, on SQLite, at the commit."""
    with pytest.raises(IntegrityError) as caught, transaction.atomic():
        Membership.objects.create(user=alice, group_id=10**9, created_at=clock.now())
    error = from_exception(caught.value)
    assert isinstance(error, Conflict)
    assert "deleted just now" in error.detail


def test_a_duplicate_key_stays_a_bug(alice: Executor) -> None:
    row = {"name": "photo", "version": 1, "schema": {}, "created_at": clock.now()}
    Template.objects.create(**row)
    with pytest.raises(IntegrityError) as caught, transaction.atomic():
        Template.objects.create(**row)
    assert from_exception(caught.value) is None
