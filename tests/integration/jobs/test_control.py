"""What operators do to a job: every arrow from every state, what it leaves behind, and edits."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import timedelta
from typing import Any

import pytest

from apps.common import clock
from apps.common.errors import Conflict, Invalid
from apps.jobs.models import Job, Worker
from apps.jobs.rules import transitions as t
from apps.jobs.rules.order import order_key
from apps.jobs.services import control, types
from apps.jobs.services.move import entry_of, lock_jobs, move
from apps.jobs.services.submit import submit
from tests import factories
from tests.integration.jobs.acted_on import NOW, WHO, entries, job_in, row
from tests.jobs import job_type, jobs

pytestmark = [pytest.mark.django_db, pytest.mark.both]


@pytest.fixture(autouse=True)
def at_nine(frozen_clock: Any) -> Any:
    return frozen_clock


def edit(*, job: Job, **who: Any) -> Job:
    return control.edit(job=job, version=job.version, changes={"priority": 5}, **who)


def force(**arguments: Any) -> Job:
    return control.cancel(force=True, **arguments)


ACTIONS: Mapping[str, Callable[..., Job]] = {
    "cancel": control.cancel,
    "force": force,
    "retry": control.retry,
    "run_now": control.run_now,
    "mark_done": control.mark_done,
    "edit": edit,
}
# What each action makes of each state; elsewhere it is a conflict.
BECOMES = {
    ("cancel", "scheduled"): "cancelled",
    ("cancel", "ready"): "cancelled",
    ("cancel", "blocked"): "cancelled",
    ("force", "blocked"): "cancelled",
    ("run_now", "blocked"): "ready",
    ("mark_done", "blocked"): "succeeded",
    ("edit", "blocked"): "blocked",
    ("cancel", "running"): "running",
    ("force", "scheduled"): "cancelled",
    ("force", "ready"): "cancelled",
    ("force", "running"): "cancelled",
    ("retry", "failed"): "ready",
    ("retry", "cancelled"): "ready",
    ("retry", "succeeded"): "ready",
    ("run_now", "scheduled"): "ready",
    ("run_now", "ready"): "ready",
    ("mark_done", "scheduled"): "succeeded",
    ("mark_done", "ready"): "succeeded",
    ("mark_done", "failed"): "succeeded",
    ("edit", "scheduled"): "scheduled",
    ("edit", "ready"): "ready",
}
EVERY_PAIR = [(action, status) for action in ACTIONS for status in t.STATUSES]


def test_every_arrow_from_every_state(subtests: pytest.Subtests) -> None:
    """I26, I39, I55, S1.12, S2.9: one version and one entry more, or a conflict and nothing."""
    for action, status in EVERY_PAIR:
        with subtests.test(action=action, status=status):
            job = job_in(status)
            before = Job.objects.values().get(pk=job.pk)

            if (action, status) not in BECOMES:
                with pytest.raises(Conflict, match=f"is {status}"):
                    ACTIONS[action](job=job, **WHO)
                assert Job.objects.values().get(pk=job.pk) == before
                assert entries(job) == []
                continue
            moved = ACTIONS[action](job=job, **WHO)

            assert moved.status == row(job).status == BECOMES[action, status]
            assert moved.version == row(job).version == job.version + 1
            [entry] = entries(job)
            assert (entry.from_state, entry.to_state) == (status, moved.status)
            assert (entry.actor, entry.reason) == (WHO["actor"], WHO["reason"])
            assert (entry.at, entry.type_or_task) == (NOW, "mail")


def test_the_table_of_rules_says_the_same() -> None:
    """I26: nothing is possible here that rules/transitions does not know."""
    names = {"force": ("cancel", "force_cancel"), "cancel": ("cancel", "request_cancel")}
    for action, status in EVERY_PAIR:
        legal = any(t.is_legal(name, status) for name in names.get(action, (action,)))
        assert legal == ((action, status) in BECOMES), (action, status)


_HELD = {"held_at": NOW, "lease_until": NOW, "hard_end_at": NOW, "cancel_requested": True}
_BOUND = {"affinity_host": "host-a", "affinity_until": NOW}
_OVER = {"finished_at": NOW, "unique_key": None, "cancel_requested": False, "affinity_host": ""}
_NO_LEASE = {"lease_until": None, "hard_end_at": None, "affinity_until": None}


def test_a_new_state_sets_what_it_means_whichever_arrow_leads_to_it(
    subtests: pytest.Subtests,
) -> None:
    """I26, I27, I35: those who take an arrow say nothing of leases, unique keys and ends."""
    job_type()
    ways = [
        (arrow, source, target)
        for arrow in t.ARROWS.values()
        for source in arrow.sources
        for target in arrow.targets
        if target in t.FINAL or (source == t.RUNNING != target)
    ]
    assert {target for _arrow, _source, target in ways} == {*t.STATUSES} - {t.RUNNING}
    for arrow, source, target in ways:
        with subtests.test(arrow=arrow.name, source=source, target=target):
            columns = _HELD if source == t.RUNNING else _BOUND
            key = f"mail|{arrow.name}-{source}-{target}"
            [number] = jobs(1, status=source, is_unique=True, unique_key=key, **columns)
            [job] = lock_jobs([number]).values()

            written = move([(arrow.name, job, {}, entry_of(job, "moved", target, NOW))])

            after = Job.objects.values().get(pk=number)
            wanted = {"status": target, **_NO_LEASE, **(_OVER if target in t.FINAL else {})}
            assert {name: after[name] for name in wanted} == wanted
            assert {name: after[name] for name in written[number]} == written[number]


def allowed(action: str) -> Job:
    """A job in the first state that allows it."""
    return job_in(next(status for name, status in BECOMES if name == action))


def test_a_reason_is_required_but_for_what_one_more_action_undoes() -> None:
    """I55"""
    for action in ("retry", "run_now"):
        job = allowed(action)
        ACTIONS[action](job=job, actor="admin:olga", reason="")
        [entry] = entries(job)
        assert (entry.actor, entry.reason) == ("admin:olga", "")
    for action in ACTIONS.keys() - {"retry", "run_now"}:
        job = allowed(action)
        with pytest.raises(Invalid, match="Say why"):
            ACTIONS[action](job=job, actor="admin:olga", reason=" ")
        assert row(job).version == job.version, action
        assert entries(job) == []


def test_a_job_seen_in_an_older_state_is_judged_by_its_present_one() -> None:
    """I26, I31: the object that is passed may be stale."""
    for action in ACTIONS:
        job = allowed(action)
        gone_on = "succeeded" if action != "retry" else "running"
        Job.objects.filter(pk=job.pk).update(status=gone_on, version=job.version + 1)
        with pytest.raises(Conflict):
            ACTIONS[action](job=job, **WHO)
        assert row(job).status == gone_on, action


# --- cancel -------------------------------------------------------------------------------------
def test_cancel_frees_the_key_at_once(at_nine: Any) -> None:
    """S1.12, I35"""
    job = job_in("ready", key="order-1", unique=True)
    at_nine.advance(seconds=5)
    control.cancel(job=job, **WHO)
    cancelled = row(job)
    assert (cancelled.finished_at, cancelled.unique_key) == (NOW + timedelta(seconds=5), None)
    assert submit("mail", key="order-1", unique=True).created


def test_forced_cancel_fences_the_worker(at_nine: Any) -> None:
    """S1.12, I30, I56: its token is refused, and the journal has the end of the attempt."""
    job = job_in("running", key="order-1", unique=True)
    at_nine.advance(seconds=2)
    force(job=job, **WHO)
    cancelled = row(job)
    assert (cancelled.lease_token, cancelled.lease_until, cancelled.hard_end_at) == ("", None, None)
    assert (cancelled.last_end, cancelled.unique_key) == ("cancelled", None)
    [entry] = entries(job)
    assert (entry.event, entry.attempt, entry.worker) == ("cancelled", 1, "host-a:1")
    assert (entry.wait_ms, entry.run_ms) == (0, 2000)
    assert entry.data is not None
    assert entry.data["forced"] is True


# --- retry --------------------------------------------------------------------------------------
def test_retry_begins_anew_at_the_last_checkpoint(at_nine: Any) -> None:
    """S1.21, I28: attempts from 0, holds go on, and it is due now."""
    job = job_in("failed", priority=2)
    Job.objects.filter(pk=job.pk).update(
        checkpoint={"row": 7}, sequence=4, progress=70, result={"n": 1}, cancel_requested=True
    )
    later = at_nine.advance(days=400)
    control.retry(job=job, **WHO)
    again = row(job)
    assert (again.attempts, again.holds, again.max_attempts) == (0, 3, 3)
    assert (again.run_at, again.expected_at, again.finished_at) == (later, later, None)
    assert again.order_key == order_key(later, priority=2, attempts=0, weight_ms=60_000)
    assert (again.checkpoint, again.sequence) == ({"row": 7}, 4)
    assert (again.progress, again.result, again.cancel_requested) == (None, None, False)


def test_retry_with_another_context_is_checked_as_an_edit(subtests: pytest.Subtests) -> None:
    schema = {"type": "object", "required": ["to"], "additionalProperties": False}
    schema["properties"] = {"to": {"type": "string"}}
    job = job_in("failed", context={"to": "ann"})
    job_type("mail", params_schema=schema)
    for context, reason in (({"to": 5}, "x"), ([], "x"), ({"to": "ben"}, "")):
        with subtests.test(context=context, reason=reason), pytest.raises(Invalid):
            control.retry(job=row(job), actor="admin:olga", reason=reason, context=context)
        assert (row(job).status, row(job).context) == ("failed", {"to": "ann"})

    control.retry(job=row(job), actor="admin:olga", reason="wrong person", context={"to": "ben"})

    again = row(job)
    assert (again.status, again.context) == ("ready", {"to": "ben"})
    [entry] = entries(again)
    assert entry.data is not None
    assert (entry.event, entry.reason) == ("retried", "wrong person")
    assert (entry.data["before"], entry.data["after"]) == (
        {"context": {"to": "ann"}},
        {"context": {"to": "ben"}},
    )
    # It can be undone, and the same context needs no reason.
    control.undo_each([again], {job.pk: entry}, actor="admin:olga", reason="no")
    assert (row(job).status, row(job).context) == ("failed", {"to": "ann"})
    assert control.retry(job=row(job), actor="x", context={"to": "ann"}).status == "ready"


def test_retry_waits_for_an_open_twin_to_end() -> None:
    """S1.4, I35"""
    job = job_in("failed", key="order-1", unique=True)
    twin = submit("mail", key="order-1", unique=True)
    with pytest.raises(Conflict, match=f"Job {twin.id}, of type mail"):
        control.retry(job=job, **WHO)
    assert (row(job).status, row(job).version, entries(job)) == ("failed", 7, [])
    control.cancel(job=Job.objects.get(pk=twin.id), **WHO)
    control.retry(job=job, **WHO)
    assert not submit("mail", key="order-1", unique=True).created


def test_retry_on_a_host() -> None:
    """S1.8: of a registered worker, of those that the type allows, of more than an error names."""
    job = job_in("failed")
    for name in ("host-a:1", "host-b:1"):
        factories.worker(name)
    factories.worker("host-c:1", state="gone")
    for host in ("host-c", "127.0.0.1", "host-a "):
        with pytest.raises(Invalid, match="choose one of: host-a, host-b"):
            control.retry(job=job, host=host, **WHO)
    types.update_type(
        job_type=types.find("mail"), changes={"allowed_hosts": ["host-b"]}, actor="admin:olga"
    )
    with pytest.raises(Invalid, match="these hosts only: host-b"):
        control.retry(job=job, host="host-a", **WHO)
    control.retry(job=job, host="host-b", **WHO)
    assert (row(job).affinity_host, row(job).affinity_until) == ("host-b", None)
    now = clock.now()
    made = {"started_at": now, "last_heartbeat_at": now}
    names = [f"more-{number:03}" for number in range(control.MAX_NAMED + 1)]
    Worker.objects.bulk_create([Worker(name=f"{each}:1", host=each, **made) for each in names])
    job_type(allowed_hosts=[])
    for host in (names[0], names[-1]):
        assert control.retry(job=job_in(t.FAILED), host=host, **WHO).affinity_host == host


# --- run now ------------------------------------------------------------------------------------
# --- edit ---------------------------------------------------------------------------------------
def changed(job: Job, **changes: Any) -> Job:
    control.edit(job=job, version=row(job).version, changes=changes, **WHO)
    return row(job)


def test_edit_writes_what_it_names_and_nothing_else() -> None:
    """I57, S1.2, S1.21: true is another value than 1."""
    job = job_in("scheduled", context={"to": "a", "n": 1}, key="order-1", user_id="uid_a")
    before = Job.objects.values().get(pk=job.pk)
    assert changed(job, context={"to": "b", "n": True}).context["n"] is True
    after = Job.objects.values().get(pk=job.pk)
    assert {name for name in after if after[name] != before[name]} == {"context", "version"}
    [entry] = entries(job)
    assert entry.data["before"] == {"context": {"to": "a", "n": 1}}
    assert entry.data["after"] == {"context": {"to": "b", "n": True}}


def test_new_time_or_priority_moves_it() -> None:
    """S1.2, S1.14, S1.20: the time decides between scheduled and ready, and is the expected one."""
    job = job_in("ready")
    later = NOW + timedelta(days=3)
    put_off = changed(job, run_at=later)
    assert (put_off.status, put_off.run_at, put_off.expected_at) == ("scheduled", later, later)
    assert put_off.order_key == order_key(later, priority=0, attempts=0, weight_ms=60_000)
    back = changed(job, run_at=NOW - timedelta(days=3))
    assert (back.status, back.run_at, back.order_key) == ("ready", NOW, job.order_key)
    Job.objects.filter(pk=job.pk).update(attempts=1)
    expected = order_key(NOW, priority=3, attempts=1, weight_ms=60_000)
    assert changed(job, priority=3).order_key == expected


def test_no_attempt_left_ends_it() -> None:
    """S1.11, I59: by lowering the maximum to what is used or below, if only by SQL before."""
    for limit, changes in (
        (3, {"max_attempts": 1}),
        (3, {"max_attempts": 2}),
        (2, {"priority": 5}),
    ):
        job = job_in("ready", key="order-1", unique=True)
        Job.objects.filter(pk=job.pk).update(attempts=2, max_attempts=limit)
        ended = changed(job, **changes)
        assert (ended.status, ended.finished_at, ended.unique_key) == ("failed", NOW, None)
        assert ended.memo == f"2 of {ended.max_attempts} tries are used"
        [entry] = entries(job)
        assert (entry.from_state, entry.to_state) == ("ready", "failed")


def test_another_host_or_any() -> None:
    """S1.8"""
    job = job_in("ready")
    factories.worker("host-a:1")
    assert changed(job, affinity_host="host-a").affinity_host == "host-a"
    Job.objects.filter(pk=job.pk).update(affinity_until=NOW)
    freed = changed(job, affinity_host="")
    assert (freed.affinity_host, freed.affinity_until) == ("", None)


def test_wrong_edit_is_refused(subtests: pytest.Subtests) -> None:
    schema = {"type": "object", "properties": {"n": {"type": "integer"}}}
    factories.job_type("mail", params_schema=schema)
    job = job_in("ready")
    changes: dict[str, Any]
    for changes, field in (
        ({"priority": 101}, "priority"),
        ({"max_attempts": 0}, "max_attempts"),
        ({"run_at": NOW.replace(year=9999)}, "run_at"),
        ({"run_at": NOW.replace(tzinfo=None)}, "run_at"),
        ({"context": []}, "context"),
        ({"context": {"n": "x"}}, "context.n"),
        ({"affinity_host": "host-z"}, "affinity_host"),
        ({"status": "succeeded"}, "status"),
    ):
        with subtests.test(changes=changes):
            with pytest.raises(Invalid) as caught:
                changed(job, **changes)
            assert [error.field for error in caught.value.errors] == [field]
            assert row(job).version == 1


def test_run_now_makes_it_due_and_costs_it_no_place(at_nine: Any) -> None:
    """S1.21, S4.5: nor do earlier failures hold it up, and wanted now, it is not too old."""
    scheduled, ready, failed = job_in("scheduled", priority=1), job_in("ready"), job_in("ready")
    demoted = order_key(NOW, priority=0, attempts=2, weight_ms=60_000)
    Job.objects.filter(pk=failed.pk).update(attempts=2, order_key=demoted)
    later = at_nine.advance(seconds=5)
    for job in (scheduled, ready, failed):
        control.run_now(job=job, **WHO)
    due, first, again = map(row, (scheduled, ready, failed))
    assert (due.status, due.run_at, due.expected_at) == ("ready", later, later)
    assert due.order_key == order_key(later, priority=1, attempts=0, weight_ms=60_000)
    assert (first.order_key, first.run_at, first.expected_at) == (ready.order_key, NOW, later)
    present = order_key(later, priority=0, attempts=0, weight_ms=60_000)
    assert (again.order_key, again.attempts) == (present, 2)
