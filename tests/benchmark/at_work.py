"""Users at work in this process, and the numbers of all that a benchmark makes of dispatch."""

from __future__ import annotations

from itertools import count

from django.core.management.base import CommandError

from apps.common.rows import insert_rows
from apps.dispatch.models import Dispatch, Executor
from apps.dispatch.services.pull import answer_pull, call_back
from tests.benchmark import people
from tests.benchmark.people import User

# Rows of the benchmark have numbers that no other value of a statement has.
_NUMBERS = count(1_000_000_000, 10_000_000)


def number() -> int:
    """The first of some million that nothing else has."""
    return next(_NUMBERS)


def group() -> int:
    """The number of a new group."""
    pk = number()
    insert_rows(Executor, [people.executor(pk, f"gid_bench_{pk}")])
    return pk


def users(many: int, *, tasks_each: int) -> list[User]:
    """New users in a group of their own."""
    return people.users(number(), many, tasks_each=tasks_each, group=group())


def pull(user: User) -> Dispatch:
    """What the user gets; CommandError when that is nothing."""
    taken = answer_pull(user.name)
    if not isinstance(taken, Dispatch):
        raise CommandError(f"{user.name} got nothing, although it has due tasks.")
    return taken


def finish(user: User) -> None:
    """Pull and call back."""
    end(user, pull(user))


def end(user: User, taken: Dispatch) -> None:
    """Call back."""
    call_back(user.name, taken.pk, "succeeded")
