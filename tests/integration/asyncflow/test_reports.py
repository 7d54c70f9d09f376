"""Reports of workers of asyncflow: what ends, what goes on, and whose counts. S2.12, S2.16."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import Any

import pytest

from apps.common import clock
from apps.jobs.models import Job, JobType
from apps.jobs.rules.report import MOST_IN_A_ROW
from apps.journal.models import JournalEntry
from tests.frozen import FrozenClock
from tests.history import move
from tests.integration.asyncflow.worker_calls import Calls
from tests.jobs import rescue

pytestmark = pytest.mark.django_db

ERROR = json.dumps({"LastData": {"ErrMsg": "mailbox is full", "Cost": "1ms"}, "HistoryDatas": []})


def job() -> Job:
    return Job.objects.get()


def events() -> list[str]:
    entries = JournalEntry.objects.filter(source="job").order_by("id")
    return list(entries.values_list("event", flat=True))


def late(calls: Calls) -> int:
    """The code for a report that comes too late: its Java workers die of any but 0."""
    return 0 if calls.dialect.late_is_ok else 8041


def held(calls: Calls, **values: Any) -> dict[str, Any]:
    calls.create(**{"task_context": "c", **values})
    [task] = calls.hold()
    return task


# --- what a report says ---------------------------------------------------------------------------


def test_next_stage_waits_with_its_context_priority_and_no_attempt(calls: Calls) -> None:
    """S2.17."""
    task = held(calls, task_stage="one")
    calls.set(task["task_id"], "waiting", crt_retry_num=1, schedule_log=ERROR)
    JobType.objects.update(retry_delay_seconds=0)
    Job.objects.update(status="ready", run_at=clock.now())
    [task] = calls.hold()
    assert (task["crt_retry_num"], job().attempts) == (1, 2)

    report = {"task_stage": "two", "task_context": "d", "priority": 600, "crt_retry_num": 1}
    assert calls.set(task["task_id"], "waiting", **report) == 0

    assert (job().stage, job().attempts, job().priority, job().status) == ("two", 0, 10, "ready")
    [task] = calls.hold()
    assert (task["task_stage"], task["task_context"], task["priority"]) == ("two", "d", 600)
    assert task["crt_retry_num"] == 0


def test_waiting_again_with_another_time_or_context_is_not_counted(
    calls: Calls, frozen_clock: FrozenClock
) -> None:
    task, now = held(calls), clock.now()
    due = int((now + timedelta(seconds=60)).timestamp()) * calls.dialect.second

    assert calls.set(task["task_id"], "waiting", order_time=due) == 0
    assert (job().status, job().attempts) == ("scheduled", 0)
    assert job().run_at == now + timedelta(seconds=60)

    frozen_clock.advance(seconds=60)
    [task] = calls.hold()
    assert calls.set(task["task_id"], "waiting", task_context="d") == 0
    assert (job().status, job().attempts) == ("ready", 0)


def test_waiting_again_unchanged_is_counted_so_that_it_ends(
    calls: Calls, frozen_clock: FrozenClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A task whose context its worker cannot read comes back for ever with asyncflow's server."""
    monkeypatch.setitem(MOST_IN_A_ROW, "yielded", 1)
    calls.create(task_context="not JSON")
    for _ in range(4):
        [task] = calls.hold()
        code = calls.set(task["task_id"], "waiting", task_context="not JSON", task_stage="")
        assert code == 0
        frozen_clock.advance(hours=1)

    assert (job().status, job().attempts) == ("failed", 3)
    assert calls.hold() == []


@pytest.mark.parametrize("stated", ["running", "nothing"])
def test_report_that_a_task_goes_on_moves_its_deadline_and_is_kept(
    calls: Calls, frozen_clock: FrozenClock, stated: str
) -> None:
    """S2.20: a worker sends no heartbeat, so its lease ends with the attempt."""
    task, begun = held(calls), clock.now()
    assert job().lease_until == job().hard_end_at == begun + timedelta(seconds=900)
    frozen_clock.advance(seconds=600)
    values = {"schedule_log": ERROR, "task_context": "halfway", "max_retry_interval": 40}

    if stated == "running":
        assert calls.set(task["task_id"], "running", **values) == 0
    else:
        assert calls.ask("set", {"task_id": task["task_id"], "status": 0, **values})[0] == 0

    assert job().lease_until == job().hard_end_at == begun + timedelta(seconds=1500)
    assert (job().status, job().stage) == ("running", "")
    frozen_clock.advance(seconds=901)
    rescue(frozen_clock)
    assert events() == ["timed_out"]
    frozen_clock.advance(hours=1)
    [task] = calls.hold()
    assert (task["schedule_log"], task["task_context"]) == (ERROR, "halfway")
    assert (task["max_retry_interval"], task["crt_retry_num"]) == (40, 1)


def test_empty_texts_and_zeros_leave_what_there_is(calls: Calls) -> None:
    task = held(calls, task_stage="one", priority=60)
    calls.set(task["task_id"], "running", schedule_log=ERROR, max_retry_interval=7)

    code = calls.set(
        task["task_id"],
        "waiting",
        **{"task_stage": "two", "task_context": "", "schedule_log": "", "order_time": 0},
        **{"priority": 0, "max_retry_interval": 0, "crt_retry_num": 0},
    )

    assert code == 0
    [task] = calls.hold()
    assert (task["task_context"], task["schedule_log"], task["priority"]) == ("c", ERROR, 60)
    assert (task["max_retry_interval"], job().priority) == (7, 1)


def test_log_that_grows_beyond_its_limit_leaves_the_one_before(calls: Calls) -> None:
    """Some workers encode theirs once more with each success."""
    task = held(calls)
    calls.set(task["task_id"], "running", schedule_log=ERROR)

    assert calls.set(task["task_id"], "waiting", task_stage="two", schedule_log="x" * 4_097) == 0

    assert calls.hold()[0]["schedule_log"] == ERROR


def test_stage_that_is_no_name_is_refused_and_the_lease_stands(calls: Calls) -> None:
    task = held(calls)

    for stage in ("two stages", "阶段", "x" * 65):
        assert calls.set(task["task_id"], "waiting", task_stage=stage) == 8041, stage
    assert calls.set(task["task_id"], "succeeded") == 0


def test_cancelled_task_ends_with_the_next_report(calls: Calls) -> None:
    task = held(calls)
    Job.objects.update(cancel_requested=True)

    assert calls.set(task["task_id"], "waiting", crt_retry_num=1) == 0

    assert job().status == "cancelled"
    shown = calls.words(calls.ask("get", task_id=task["task_id"])[1])
    assert shown["status"] == calls.dialect.states[3]


# --- whose report counts --------------------------------------------------------------------------
def test_report_of_a_hold_that_is_over_changes_nothing(
    calls: Calls, frozen_clock: FrozenClock
) -> None:
    """S2.16: with asyncflow's server it overwrites the run of the next one."""
    task = held(calls)
    frozen_clock.advance(seconds=901)
    rescue(frozen_clock)
    frozen_clock.advance(hours=1)
    [again] = calls.hold()
    assert again["task_id"] != task["task_id"]

    for _ in range(2):
        assert calls.set(task["task_id"], "succeeded") == late(calls)
        assert calls.set(task["task_id"], "running", task_context="late") == late(calls)
    assert calls.set(task["task_id"], "failed") == late(calls)

    assert (job().status, job().holds) == ("running", 2)
    # One line in its journal is enough.
    assert events() == ["timed_out", "stale"]
    assert calls.set(again["task_id"], "succeeded") == 0


def test_repeat_gets_the_first_answer_however_far_the_task_has_moved(
    calls: Calls, frozen_clock: FrozenClock
) -> None:
    """S2.13: a worker tries its report once more when the answer was lost."""
    task = held(calls, task_stage="one")
    due = int((clock.now() + timedelta(seconds=25)).timestamp()) * calls.dialect.second
    report = {"crt_retry_num": 1, "order_time": due, "schedule_log": ERROR}
    for _ in range(2):
        assert calls.set(task["task_id"], "waiting", **report) == 0
        frozen_clock.advance(seconds=5)
    frozen_clock.advance(seconds=25)
    [second] = calls.hold()
    assert calls.set(second["task_id"], "waiting", task_stage="two") == 0
    calls.hold()
    for task_, values in ((task, report), (second, {"task_stage": "two"})):
        assert calls.set(task_["task_id"], "waiting", **values) == 0

    assert events() == ["failed", "stage_done"]
    # Another report under the same hold contradicts it.
    assert calls.set(second["task_id"], "failed") == late(calls)
    assert (job().status, job().holds) == ("running", 3)


def test_id_without_a_hold_is_enough_for_who_holds_it(calls: Calls, make_key: Any) -> None:
    """An application that reports by the id that it was given when it made the task."""
    name = calls.create()
    assert calls.set(name, "succeeded") == 8041
    assert job().status == "ready"
    calls.hold()
    assert Calls(calls.dialect.name, make_key()).set(name, "succeeded") == 8041
    assert job().status == "running"

    assert calls.set(name, "succeeded") == 0
    assert calls.set(name, "succeeded") == 0
    assert calls.set(name, "failed") == late(calls)


def test_task_of_another_key_is_like_none(calls: Calls, make_key: Any) -> None:
    task = held(calls)
    stranger = Calls(calls.dialect.name, make_key())

    assert stranger.set(task["task_id"], "succeeded") == 8035
    assert stranger.set(task["task_id"], "running") == 8035
    assert events() == []
    assert calls.set(task["task_id"], "succeeded") == 0


@pytest.mark.both
def test_id_of_no_task_is_unknown(calls: Calls) -> None:
    for name in ("7_lark_1", "9223372036854775807h1_lark_1", "7h2"):
        assert calls.set(name, "succeeded") == 8035, name
        assert calls.ask("get", task_id=name)[0] == 8035, name


def test_task_is_found_in_the_archive_as_before(calls: Calls, frozen_clock: FrozenClock) -> None:
    """S4.16."""
    name = calls.create(task_context="c")
    [task] = calls.hold()
    assert calls.set(task["task_id"], "succeeded") == 0
    before = calls.ask("get", task_id=name)
    frozen_clock.advance(days=8)
    assert move() == 1
    assert calls.ask("get", task_id=name) == before
    assert before[0] == 0
    # What was reported of it is kept no more.
    assert calls.set(task["task_id"], "succeeded") == late(calls)
