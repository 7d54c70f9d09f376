"""Every statement of a write may lose a deadlock: the write is repeated, once and whole."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import count
from typing import Any

import pytest
from django.db import OperationalError, connection

from apps.access import services as access
from apps.common.leases import sweep_lease
from apps.dispatch.models import Dispatch, OnceTask, RotateTask, Stock
from apps.dispatch.services import bulk, ending, executors, expiry, pull, tasks, templates
from apps.jobs.models import Job
from apps.jobs.services import control, types
from apps.jobs.services.submit import Submission, submit_many
from apps.journal.models import JournalEntry
from tests import callback, factories
from tests.callback import take_next
from tests.frozen import FrozenClock

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.both]

BY = {"actor": "admin:olga"}
WHY = {**BY, "reason": "a test"}
_numbers = count()


class Lock:
    """Has the `number`th statement that locks rows lose a deadlock, once."""

    def __init__(self, number: int) -> None:
        self.left = number
        self.lost = False

    def __call__(
        self, execute: Callable[..., Any], sql: str, params: Any, many: bool, context: Any
    ) -> Any:
        locks = sql.startswith(("INSERT", "UPDATE", "DELETE")) or sql.endswith(
            ("FOR UPDATE", "LOCK IN SHARE MODE", "SKIP LOCKED")
        )
        if locks and not self.lost:
            self.left -= 1
            if self.left == 0:
                self.lost = True
                raise _deadlock()
        return execute(sql, params, many, context)


def _deadlock() -> OperationalError:
    if connection.vendor == "mysql":
        return OperationalError(1213, "Deadlock found when trying to get lock")
    return OperationalError("database is locked")


@contextmanager
def losing(number: int) -> Iterator[Lock]:
    lock = Lock(number)
    with connection.execute_wrapper(lock):
        yield lock


def person() -> Any:
    return factories.user(f"uid_{next(_numbers)}")


def opened(**fields: Any) -> tuple[Any, Dispatch]:
    """A user with an open dispatch."""
    user = person()
    factories.once_task(user, lease_seconds=60, **fields)
    taken = take_next(user)
    assert isinstance(taken, Dispatch)
    return user, taken


def waiting_job() -> Job:
    name = f"mail-{next(_numbers)}"
    return factories.job(name)


def due(clock: FrozenClock) -> None:
    clock.advance(seconds=61)


def _plan(clock: FrozenClock) -> Callable[[], object]:
    user, template = person(), factories.template(f"photo-{next(_numbers)}", {"type": "object"})
    return lambda: factories.once_task(user, template=template)


def _plan_rotation(clock: FrozenClock) -> Callable[[], object]:
    user = person()
    return lambda: factories.rotation(user)


def _move(clock: FrozenClock) -> Callable[[], object]:
    task, user = factories.once_task(person()), person()
    return lambda: tasks.update_task(task=task, changes={"executor": user}, **BY)


def _delete(clock: FrozenClock) -> Callable[[], object]:
    task = factories.once_task(person())
    return lambda: tasks.delete_task(task=task, **BY)


def _copy(clock: FrozenClock) -> Callable[[], object]:
    task, user = factories.rotation(person()), person()
    return lambda: bulk.copy(RotateTask.objects.filter(pk=task.pk), [user], **WHY)


def _pause(clock: FrozenClock) -> Callable[[], object]:
    task = factories.once_task(person())
    return lambda: bulk.change(OnceTask.objects.filter(pk=task.pk), "pause", **WHY)


def _make_group(clock: FrozenClock) -> Callable[[], object]:
    number = next(_numbers)
    return lambda: executors.create_executor(
        name=f"gid_{number}", members=[f"uid_of_{number}"], **BY
    )


def _change_members(clock: FrozenClock) -> Callable[[], object]:
    number = next(_numbers)
    group = factories.group(f"gid_{number}", [f"uid_old_{number}"])
    return lambda: executors.change_members(
        group=group, add=[f"uid_new_{number}"], remove=[f"uid_old_{number}"], **BY
    )


def _template(clock: FrozenClock) -> Callable[[], object]:
    number = next(_numbers)
    return lambda: templates.put_template(name=f"photo-{number}", schema={"type": "object"}, **BY)


def _pull(clock: FrozenClock) -> Callable[[], object]:
    user = person()
    factories.once_task(user)
    return lambda: take_next(user)


def _pull_with_empty_stock(clock: FrozenClock) -> Callable[[], object]:
    user = person()
    task = factories.once_task(user)
    Stock.objects.ensure("once", task.pk, 0)
    return lambda: take_next(user)


def _pull_again(clock: FrozenClock) -> Callable[[], object]:
    user, _taken = opened()
    return lambda: take_next(user)


def _call_back(clock: FrozenClock) -> Callable[[], object]:
    user, taken = opened()
    factories.once_task(user)
    return lambda: callback.call_back_and_pull(executor=user, number=taken.pk, outcome="succeeded")


def _extend(clock: FrozenClock) -> Callable[[], object]:
    user, taken = opened()
    return lambda: pull.extend(user.name, taken.pk, 600)


def _cancel(clock: FrozenClock) -> Callable[[], object]:
    _user, taken = opened()
    return lambda: ending.cancel(dispatch=taken, **WHY)


def _expire(clock: FrozenClock) -> Callable[[], object]:
    # Those that other writes have left.
    Dispatch.objects.all().delete()
    opened()
    due(clock)
    return lambda: expiry.expire_due(until=clock.instant.replace(year=2100))


def _key(clock: FrozenClock) -> Callable[[], object]:
    return lambda: access.create_client(name="Shop", scopes=["pull"], **BY)


def _type(clock: FrozenClock) -> Callable[[], object]:
    name = f"mail-{next(_numbers)}"
    return lambda: types.create_type(name=name, **BY)


def _change_type(clock: FrozenClock) -> Callable[[], object]:
    kind = factories.job_type(f"mail-{next(_numbers)}")
    return lambda: types.update_type(job_type=kind, changes={"max_attempts": 9}, **BY)


def _submit(clock: FrozenClock) -> Callable[[], object]:
    name = factories.job_type(f"mail-{next(_numbers)}").name
    return lambda: submit_many([Submission(type=name)] * 3)


def _submit_unique(clock: FrozenClock) -> Callable[[], object]:
    name = factories.job_type(f"mail-{next(_numbers)}").name
    return lambda: submit_many([Submission(type=name, key="a", unique=True)] * 2)


def _run_now(clock: FrozenClock) -> Callable[[], object]:
    job = waiting_job()
    return lambda: control.cancel(job=job, **WHY)


def _sweep(clock: FrozenClock) -> Callable[[], object]:
    def sweep() -> None:
        with sweep_lease("test.sweep", at_most=clock.instant - clock.instant.replace(year=2000)):
            pass

    return sweep


WRITES = {
    name.removeprefix("_"): make
    for name, make in list(globals().items())
    if name.startswith("_") and getattr(make, "__annotations__", {}).get("clock")
}


def test_a_write_that_loses_a_deadlock_anywhere_is_done_all_the_same(
    frozen_clock: FrozenClock, subtests: pytest.Subtests
) -> None:
    """Once: the journal gets as many entries as without it."""
    for name in WRITES:
        with subtests.test(name=name):
            entries = set[int]()
            for number in count(1):
                write = WRITES[name](frozen_clock)
                before = JournalEntry.objects.count()
                with losing(number) as lock:
                    write()
                entries.add(JournalEntry.objects.count() - before)
                if not lock.lost:
                    break
                frozen_clock.advance(minutes=2)
            assert number > 1, "it has no statement that locks"
            assert len(entries) == 1


def test_it_gives_up_after_five_tries(frozen_clock: FrozenClock) -> None:
    """Within the transaction of a caller it is not repeated at all: only that one knows what to."""
    user, tries = person(), []

    def refuse(execute: Any, sql: str, *rest: Any) -> Any:
        if sql.startswith("INSERT") and "oncetask" in sql:
            tries.append(sql)
            raise _deadlock()
        return execute(sql, *rest)

    with connection.execute_wrapper(refuse), pytest.raises(OperationalError):
        factories.once_task(user)
    assert len(tries) == 5
    assert not OnceTask.objects.exists()
