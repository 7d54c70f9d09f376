"""Executors and tasks in bulk, made by the statements of the tables themselves."""

from __future__ import annotations

import math
import time
from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from itertools import islice
from typing import Any, NamedTuple

from apps.common import clock, ids
from apps.common.db import fetch
from apps.common.rows import insert_rows
from apps.dispatch.models import Dispatch, Executor, Membership, OnceTask, RotateTask, Stock

BLOCK = 1000
FEW_PAGES = 500
_MADE_BY = "benchmark"


class User(NamedTuple):
    """A user with tasks of its own, whose numbers follow one another from `base`."""

    pk: int
    name: str
    base: int


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


def users(first: int, count: int, *, tasks_each: int, group: int) -> list[User]:
    """So many users in one group, each with due tasks of its own; numbers start at `first`."""
    now = clock.now()
    made = [
        User(first + n, f"uid_bench_{first + n}", first + n * max(1, tasks_each))
        for n in range(count)
    ]
    insert(Executor, (executor(user.pk, user.name) for user in made))
    insert(
        Membership,
        ({"user_id": user.pk, "group_id": group, "created_at": now} for user in made),
    )
    insert(
        OnceTask,
        (
            task(user.base + n, user.pk, now - timedelta(minutes=60 - n % 60))
            for user in made
            for n in range(tasks_each)
        ),
    )
    return made


def rotations(first: int, owner: int, count: int) -> None:
    """Rotations of the three kinds, in turn."""
    now = clock.now()
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
            )
            for n in range(count)
        ),
    )


def history(people: Sequence[User], count: int, *, task_pk: int) -> None:
    """So many finished dispatches of long ago, spread over the people, with their stock."""
    now = clock.now()
    oldest = now - timedelta(days=90)
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
    insert(
        Stock,
        (
            {"source": "once", "task": task_pk + n, "occurrence": 0, "handed": 1}
            for n in range(count)
        ),
    )
