"""S1.5, S1.9, S4.8, I36: a drain in this process, from hold to settle."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from apps.jobs.handlers import Cancelled, Retry
from apps.jobs.models import Job
from apps.jobs.runner import drain as drain_module
from apps.jobs.runner import listener as listener_module
from apps.jobs.runner import outbox
from apps.jobs.runner.drain import Drain
from apps.jobs.runner.listener import Listener
from apps.jobs.runner.places import Places
from apps.jobs.runner.process import Node, Process
from apps.jobs.services.submit import submit
from apps.jobs.services.type_snapshots import type_snapshots
from tests.frozen import FrozenClock
from tests.jobs import drained, events_of, job_type, jobs, row

pytestmark = pytest.mark.django_db

Make = Callable[..., Any]


def test_jobs_run_in_order_and_keep_what_their_handler_returns(
    handle: Make, process: Process
) -> None:
    seen: list[int] = []

    def mail(context: Any) -> Any:
        seen.append(context["position"])
        return {"sent": context["position"]}

    handle("mail", mail)
    numbers = jobs(30)

    assert drained(process) == 30

    assert seen == list(range(30))
    assert [row(number).result for number in numbers] == [{"sent": n} for n in range(30)]
    assert {job.status for job in Job.objects.all()} == {"succeeded"}
    assert events_of(numbers[0]) == ["succeeded"]
    assert row(numbers[0]).worker == process.name


def test_long_handler_sees_its_job_and_goes_on_from_its_checkpoint(
    handle: Make, process: Process, frozen_clock: FrozenClock
) -> None:
    seen: list[Any] = []

    def import_rows(context: Any, ctx: Any) -> Any:
        seen.append((ctx.job_id, ctx.key, ctx.attempt, ctx.stage, ctx.saved, ctx.cancelled))
        if ctx.saved is None:
            ctx.checkpoint({"line": 7}, progress=40)
            raise Retry(60)
        return ctx.saved["line"]

    handle("import", import_rows)
    number = submit("import", {"file": "a.csv"}, key="a").id

    drained(process)
    waiting = row(number)
    frozen_clock.advance(seconds=60)
    drained(process)

    assert (waiting.status, waiting.progress) == ("scheduled", 40)
    assert waiting.run_at == frozen_clock.instant
    assert seen == [(number, "a", 1, "", None, False), (number, "a", 2, "", {"line": 7}, False)]
    assert row(number).result == 7
    assert events_of(number) == ["failed", "succeeded"]


def test_types_of_another_lane_and_without_handler_are_left(handle: Make, process: Process) -> None:
    handle("mail", lambda context: None)
    handle("film", lambda context: None, lane="slow")
    job_type("outside")
    job_type("unwritten", handler="unwritten")
    numbers = [jobs(1, name)[0] for name in ("mail", "film", "outside", "unwritten")]

    drained(process)

    assert [row(number).status for number in numbers] == ["succeeded", "ready", "ready", "ready"]


def test_slow_drain_helps_with_fast_jobs_after_its_own(handle: Make, process: Process) -> None:
    order: list[str] = []
    handle("mail", lambda context: order.append("mail"))
    handle("film", lambda context: order.append("film"), lane="slow")
    jobs(2, "mail")
    jobs(2, "film")

    drained(process, "slow")

    assert order == ["film", "film", "mail", "mail"]


def test_slow_jobs_of_others_leave_a_slot_to_the_platform(
    handle: Make, settings: Any, tmp_path: Path
) -> None:
    """Two of the three slow drains of this worker have jobs that last for hours."""
    settings.VAR_DIR = tmp_path
    process = Process(Node("worker@test", ("fast", "slow"), 4))
    handle("long", lambda context: None, lane="slow")
    job_type("deliver", lane="slow")
    [long], [own] = jobs(1, "long"), jobs(1, "deliver")
    of_others = {"long": type_snapshots()["long"]}
    first, second = Places(process.node.key), Places(process.node.key)

    with first.allowed_types(of_others, 2), second.allowed_types(of_others, 2):
        drained(process, "slow")
        assert [row(number).holds for number in (long, own)] == [0, 1]

    drained(process, "slow")
    assert row(long).status == "succeeded"


def test_more_drains_of_a_lane_than_its_worker_may_run_leave_at_once(
    handle: Make, process: Process
) -> None:
    """S4.17: two slots serve both lanes, so that one is left for the other."""
    handle("film", lambda context: None, lane="slow")
    jobs(1, "film")
    busy = Drain(process, "slow")
    process.join(busy)

    assert drained(process, "slow") == 0
    process.part(busy)
    assert drained(process, "slow") == 1


def test_stop_releases_what_has_not_started(handle: Make, process: Process) -> None:
    """F5: what ran is settled, the rest goes back without an attempt."""
    handle("mail", lambda context: process.stop())
    numbers = jobs(4)

    drained(process)

    found = [(row(number).status, row(number).attempts) for number in numbers]
    assert found == [("succeeded", 1)] + [("ready", 0)] * 3


def test_jobs_are_given_back_that_wait_too_long_behind_another(
    handle: Make, process: Process, monkeypatch: pytest.MonkeyPatch
) -> None:
    """S1.15, S4.14: only what can start now is held."""
    monkeypatch.setattr(drain_module, "OVERDUE_SECONDS", 0.0)
    runs: list[int] = []

    def slow(context: Any) -> None:
        runs.append(context["position"])
        if len(runs) == 1:
            [busy] = process.drains
            busy.maintain()

    handle("mail", slow)
    numbers = jobs(3)

    drained(process)

    assert runs == [0, 1, 2]
    assert [row(number).holds for number in numbers] == [1, 2, 2]
    assert [row(number).attempts for number in numbers] == [1, 1, 1]


@pytest.mark.parametrize(("waited", "left"), [(0.25, [1.0, 0.75]), (0.26, [1.0, 1.0])])
def test_jobs_are_given_back_before_their_time_runs_out_in_the_queue(
    handle: Make,
    process: Process,
    frozen_clock: FrozenClock,
    monkeypatch: pytest.MonkeyPatch,
    waited: float,
    left: list[float],
) -> None:
    """S1.15: the deadline counts for the handler only; past it the whole process would end."""
    passed = [1000.0]
    monkeypatch.setattr(drain_module, "time", SimpleNamespace(monotonic=lambda: passed[0]))
    seen: list[float] = []

    def slow(context: Any) -> None:
        drain = process.drains[0]
        assert drain.current is not None
        seen.append(round(drain.current.deadline - passed[0], 3))
        if len(seen) == 1:
            passed[0] += waited
            frozen_clock.advance(seconds=waited)
            drain.maintain()

    handle("mail", slow, max_processing_seconds=1)
    numbers = jobs(2)

    drained(process)

    assert seen == left
    assert [row(number).holds for number in numbers] == [1, 2 if waited > 0.25 else 1]


@pytest.mark.parametrize("waits", [True, False], ids=["long handler", "settles each"])
def test_finished_results_do_not_wait_for_a_long_handler_nor_if_each_is_settled(
    handle: Make, process: Process, waits: bool
) -> None:
    seen: list[Any] = []

    def mail(context: Any) -> None:
        if waits and context["position"] == 1:
            time.sleep(outbox.MAX_WAIT_SECONDS)
            process.drains[0].maintain()
        seen.append([job.status for job in Job.objects.order_by("id")])

    handle("mail", mail, **({} if waits else {"settle": "each"}))
    jobs(2)

    drained(process)

    assert seen == [["running", "running"], ["succeeded", "running"]]


def test_wish_to_cancel_reaches_the_handler(handle: Make, process: Process) -> None:
    from apps.jobs.runner.heartbeat import renew_all

    def mail(context: Any, ctx: Any) -> None:
        before = ctx.cancelled
        Job.objects.update(cancel_requested=True)
        renew_all(process)
        if not before and ctx.cancelled:
            raise Cancelled

    handle("mail", mail)
    [number] = jobs(1)

    drained(process)

    assert row(number).status == "cancelled"


@pytest.mark.sqlite
def test_drain_without_work_polls_seldom_where_no_wake_up_is_lost(
    handle: Make, process: Process, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An idle machine is left alone: each commit shows in its file."""
    waits: list[float] = []

    def wait(listener: Listener, seconds: float) -> bool:
        waits.append(seconds)
        monkeypatch.setattr(listener_module, "BUSY_SECONDS", 0.0)
        if len(waits) > 1:
            process.stop()
        return False

    handle("mail", lambda context: None)
    monkeypatch.setattr(Listener, "wait", wait)
    Drain(process, "fast").run()

    assert waits == [drain_module.POLL_SECONDS, drain_module.IDLE_SECONDS]


def test_new_job_that_is_announced_is_held_first(
    handle: Make, process: Process, monkeypatch: pytest.MonkeyPatch
) -> None:
    """S4.13: and for everything as soon as that is done, or at least every second."""
    polls: list[tuple[list[str], int]] = []

    def note(*, types: Collection[str], new: int, **_: Any) -> list[Any]:
        polls.append((sorted(types), new))
        if len(polls) > 3:
            process.stop()
        return []

    news = iter([{"mail": 7}, {"mail": 7, "bill": 8}])

    def wait(listener: Listener, seconds: float) -> bool:
        listener.new = next(news, {})
        return True

    handle("mail", lambda context: None)
    handle("bill", lambda context: None)
    monkeypatch.setattr(drain_module, "POLL_SECONDS", 3600.0)
    monkeypatch.setattr(outbox, "hold", note)
    monkeypatch.setattr(Listener, "wait", wait)

    Drain(process, "fast").run()

    both = (["bill", "mail"], 0)
    assert polls == [both, (["mail"], 7), both, both]
