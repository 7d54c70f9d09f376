"""Executors, tasks and dispatches in bulk, and what users do with them."""

from __future__ import annotations

import math
import time
from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from itertools import count as count_from
from itertools import islice
from typing import Any, NamedTuple

from django.core.management.base import CommandError

from apps.common import clock, ids
from apps.common.db import fetch
from apps.common.rows import insert_rows
from apps.dispatch.models import Dispatch, Executor, Membership, OnceTask, RotateTask, Stock
from apps.dispatch.services.pull import answer_pull, call_back

BLOCK = 1000
FEW_PAGES = 500
_MADE_BY = "benchmark"
# No other value in a statement is as large.
_NUMBERS = count_from(1_000_000_000, 10_000_000)


class User(NamedTuple):
    """A user with tasks of its own, whose numbers follow one another from `base`."""

    pk: int
    name: str
    base: int


def number() -> int:
    """The first of some million unused numbers."""
    return next(_NUMBERS)


def insert(model: Any, rows: Iterable[dict[str, Any]]) -> None:
    """Insert any number of rows, a thousand a statement."""
    waiting = iter(rows)
    while block := list(islice(waiting, BLOCK)):
        insert_rows(model, block)


def settle() -> None:
    """Wait as long as the database is writing out what was filled in."""
    before = math.inf
    # Without work, some servers stop long before all is written.
    while FEW_PAGES < (pages := _dirty_pages()) < before:
        before = pages
        time.sleep(1)


def _dirty_pages() -> int:
    rows = fetch("SHOW GLOBAL STATUS LIKE 'Innodb_buffer_pool_pages_dirty'")
    return int(rows[0][1])


def executor(pk: int, name: str, **fields: Any) -> dict[str, Any]:
    """The row of an executor, of the kind that its name says, just seen."""
    now = clock.now()
    kind = "group" if name.startswith("gid_") else "user"
    audit = {"created_at": now, "updated_at": now, "created_by": _MADE_BY, "updated_by": _MADE_BY}
    return {"id": pk, "name": name, "kind": kind, "last_seen_at": now, **audit, **fields}


def task(pk: int, owner: int, start_at: datetime, **fields: Any) -> dict[str, Any]:
    """The row of a once task, or of a rotation where `fields` say so."""
    now = clock.now()
    audit = {"created_at": now, "updated_at": now, "created_by": _MADE_BY, "updated_by": _MADE_BY}
    params = {"shop": "Nanjing Road 12", "shelf": 7, "photos": 3}
    return {
        **{"id": pk, "executor_id": owner, "title": "Count the shelf", "params": params},
        **{"start_at": start_at, **audit, **fields},
    }


def group() -> int:
    """The number of a new group."""
    pk = number()
    insert(Executor, [executor(pk, f"gid_bench_{pk}")])
    return pk


def join(group: int, users: Iterable[int]) -> None:
    """Make the users members of the group."""
    now = clock.now()
    insert(Membership, ({"user_id": pk, "group_id": group, "created_at": now} for pk in users))


def users(count: int, *, tasks_each: int, group: int) -> list[User]:
    """New users in a group, each with due tasks of its own."""
    first, now = number(), clock.now()
    made = [
        User(first + n, f"uid_bench_{first + n}", first + n * max(1, tasks_each))
        for n in range(count)
    ]
    insert(Executor, (executor(user.pk, user.name) for user in made))
    join(group, (user.pk for user in made))
    insert(
        OnceTask,
        (
            task(user.base + n, user.pk, now - timedelta(minutes=60 - n % 60))
            for user in made
            for n in range(tasks_each)
        ),
    )
    return made


def rotations(owner: int, count: int, **fields: Any) -> None:
    """Rotations of the three kinds, in turn."""
    first, now = number(), clock.now()
    rules = (
        {"every_minutes": 30},
        {"every_days": 2, "at": "09:30"},
        {"cron": "*/20 8-18 * * 1-5"},
    )
    insert(
        RotateTask,
        (
            task(
                first + n,
                owner,
                now - timedelta(days=30, minutes=n),
                rule=rules[n % 3],
                time_zone=("UTC", "Asia/Shanghai", "Europe/Berlin")[n % 3],
                effective_from=now - timedelta(days=30, minutes=n),
                **fields,
            )
            for n in range(count)
        ),
    )


def history(people: Sequence[User], count: int, *, task_pk: int, days_ago: int = 90) -> None:
    """Finished dispatches of long ago, spread over 80 days and the people, with their stock."""
    oldest = clock.now() - timedelta(days=days_ago)
    step = timedelta(days=80) / count
    numbers = (ids.lowest_id_at(oldest + n * step) + n % 4096 for n in range(count))
    insert(
        Dispatch,
        (
            {
                **{"id": number, "executor_id": people[n % len(people)].pk, "open_for": None},
                **{"source": "once", "task": task_pk + n, "occurrence": 0, "title": "Old"},
                **{"params": {}, "state": "succeeded", "occurrence_at": oldest + n * step},
                **{"dispatched_at": oldest + n * step, "deadline_at": oldest + (n + 1) * step},
                **{"finished_at": oldest + (n + 1) * step},
            }
            for n, number in enumerate(numbers)
        ),
    )
    used_up(range(task_pk, task_pk + count))


def used_up(tasks: Iterable[int]) -> None:
    """Let each of the once tasks have been handed out once."""
    insert(Stock, ({"source": "once", "task": pk, "occurrence": 0, "handed": 1} for pk in tasks))


# --- what users do --------------------------------------------------------------------------------
def pull(user: User) -> Dispatch:
    """The user's next task; CommandError when there is none."""
    taken = answer_pull(user.name)
    if not isinstance(taken, Dispatch):
        raise CommandError(f"{user.name} got nothing, although it has due tasks.")
    return taken


def end(user: User, taken: Dispatch) -> None:
    """Call back."""
    call_back(user.name, taken.pk, "succeeded")


def finish(user: User) -> None:
    """Pull and call back."""
    end(user, pull(user))
