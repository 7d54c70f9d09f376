"""How the database finds what a pull of a user asks for among the rows of everybody else."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.db import connection

from apps.common import clock, ids
from apps.dispatch.models import Dispatch, Executor, OnceTask, RotateTask
from apps.dispatch.rules.window import Window
from apps.dispatch.services.queue import plan_of
from apps.dispatch.services.state import state_of
from tests.benchmark import people
from tests.statements import analyze, asked, explained, index_reads, sent_by, steps_of

pytestmark = pytest.mark.both

STRANGERS = 300
TASKS_EACH = 10
OWNERS = 4


@pytest.fixture
def owners() -> list[int]:
    """A user and three groups, whose tasks lie scattered among the same times of 300 others."""
    now = clock.now()
    everybody = range(1_000_000, 1_000_000 + STRANGERS + OWNERS)
    people.insert(Executor, (people.executor(pk, f"uid_{pk}") for pk in everybody))
    for model, offset in ((OnceTask, 0), (RotateTask, 30_000_000)):
        people.insert(model, (_task(model, pk, n, offset, now) for pk in everybody for n in _few()))
    analyze(OnceTask, RotateTask)
    return [*everybody][:: STRANGERS // OWNERS][:OWNERS]


def _few() -> range:
    return range(TASKS_EACH)


def _task(model: Any, owner: int, n: int, offset: int, now: Any) -> dict[str, Any]:
    at = now - timedelta(minutes=30 * n)
    extra = {}
    if model is RotateTask:
        extra = {"rule": {"every_minutes": 30}, "time_zone": "UTC", "effective_from": at}
    return people.task(offset + owner * 10 + n, owner, at, **extra)


def selects(owners: list[int]) -> list[str]:
    """The statements by which the plan of these executors is read, as they were sent."""
    now = clock.now()
    frame = Window(now - timedelta(hours=2), now + timedelta(hours=6))
    found: list[Any] = []
    sent = sent_by(lambda: found.extend(plan_of(owners, frame, now=now)))
    # Of the once tasks those of two hours, of the rotations all.
    assert len(found) == len(owners) * (4 + TASKS_EACH)
    return sent


INDEXES = ("oncetask_candidates", "rotatetask_candidates")


# ANALYZE TABLE commits on MariaDB.
@pytest.mark.django_db(transaction=True)
def test_candidates_are_found_by_their_index_alone(owners: list[int]) -> None:
    """S0.6: by executor before time, for one executor and for several, and no row in vain."""
    check = _check_mariadb if connection.vendor == "mysql" else _check_sqlite
    for count in (1, OWNERS):
        for sql, index in zip(selects(owners[:count]), INDEXES, strict=True):
            check(sql, index, count)


def _check_mariadb(sql: str, index: str, owners: int) -> None:
    step, *looked_up = steps_of(sql)
    assert (step["key"], step["type"] in ("range", "ref")) == (index, True), step
    assert int(step["rows"]) <= 2 * owners * TASKS_EACH
    assert "filesort" not in (step["Extra"] or "") and "temporary" not in (step["Extra"] or "")
    # Whether a once task is used up.
    keys = ["stock_once_per_occurrence", "dispatch_task"] if "oncetask" in index else []
    assert sorted(each["key"] for each in looked_up) == sorted(keys)
    before = index_reads()
    found = asked(sql)
    # To begin and to end the range of an executor takes one more each.
    assert index_reads() - before <= len(found) * (1 + len(keys)) + 2 * owners


def _check_sqlite(sql: str, index: str, owners: int) -> None:
    plan = explained(sql)
    assert f"USING INDEX {index} (executor_id=? AND status=?" in plan
    assert "SCAN" not in plan and "TEMP B-TREE" not in plan
    if "oncetask" in index:
        assert "dispatch_task (source=? AND task=?" in plan
        assert "(source=? AND task=? AND occurrence=?" in plan


# ANALYZE TABLE commits on MariaDB.
@pytest.mark.django_db(transaction=True)
def test_state_of_a_user_is_read_without_its_past() -> None:
    """S0.6: whatever it and others have done, a pull begins with a few steps into indexes."""
    now = clock.now()
    long_idle, *others = range(1_000_000, 1_000_000 + 50)
    people.insert(Executor, (people.executor(pk, f"uid_{pk}") for pk in (long_idle, *others)))
    workers = [long_idle] * 30 + others * 30
    since = now - timedelta(days=2)
    made = [_done(pk, n, since + timedelta(minutes=n)) for n, pk in enumerate(workers)]
    people.insert(Dispatch, made)
    analyze(Dispatch)

    found: list[Any] = []
    # Asking for the time of the database may come before.
    *_, sql = sent_by(lambda: found.append(state_of(long_idle)))

    assert found[0].open_dispatch is None
    if connection.vendor == "mysql":
        before = index_reads()
        asked(sql)
        assert index_reads() - before <= 5
    else:
        assert "dispatch_of_executor" not in explained(sql)
        assert "TEMP B-TREE" not in explained(sql)
        # Nor is the table read through for an open one, though none was open when it was analyzed.
        assert "SCAN d" not in explained(sql)


def _done(executor: int, n: int, at: Any) -> dict[str, Any]:
    return {
        **{"id": ids.lowest_id_at(at), "executor_id": executor, "open_for": None},
        **{"source": "once", "task": n, "occurrence": 0, "title": "Done", "params": {}},
        **{"state": "succeeded", "occurrence_at": at, "dispatched_at": at},
        **{"deadline_at": at + timedelta(hours=1), "finished_at": at},
    }
