"""I65: a bulk run changes every row that it collected once, on the row's own condition."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.db import DatabaseError, connection
from django.test.utils import CaptureQueriesContext

from apps.bulk.models import BulkRow, BulkRun
from apps.bulk.services import carry, runs, steps
from apps.bulk.services.invariants import CHECKS
from apps.bulk.services.retention import purge
from apps.bulk.services.targets import target_of
from apps.common import clock
from apps.common.errors import Conflict
from apps.common.filtering import RowFilter
from apps.jobs.models import Bounds, Job
from apps.jobs.rules import transitions as t
from apps.jobs.services import control
from tests import factories
from tests.emptying import undone
from tests.frozen import FrozenClock
from tests.integration.bulk.conftest import again, carry_out, counts, statuses
from tests.jobs import job_type, jobs, last_entry, row

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("mail"), pytest.mark.both]
Start = Callable[..., BulkRun]


# --- what is changed ------------------------------------------------------------------------------
def test_run_cancels_all_that_match_and_nothing_else(start: Start) -> None:
    mails, others = jobs(120), jobs(5, "web")
    run = start("cancel", {"type": "mail"})

    carry_out(run)

    assert counts(run) == ("done", 120, 120, 0, 0)
    assert statuses(mails) == {t.CANCELLED}
    assert statuses(others) == {t.READY}
    entry = last_entry(mails[0])
    assert (entry.event, entry.actor, entry.reason) == (
        "cancelled",
        "admin:operator",
        "wrong address",
    )


def test_slow_run_changes_the_rows_of_one_second_at_a_time(start: Start) -> None:
    mails = jobs(7)
    carrier = carry.Carrier(start("cancel", {"type": "mail"}, rate=3))
    while carrier.round().state == "collecting":
        pass
    done = [carrier.round().done for _ in range(2)]
    assert done == [3, 6]
    assert Job.objects.filter(pk__in=mails, status=t.READY).count() == 1


def test_what_comes_after_the_start_is_left_alone(start: Start) -> None:
    jobs(3)
    run = start("cancel", {"type": "mail"})
    later = jobs(2)
    carry_out(run)
    assert counts(run)[1] == 3
    assert statuses(later) == {t.READY}


def test_what_does_not_allow_it_is_skipped_with_the_reason(start: Start) -> None:
    ready, asked = jobs(2), jobs(1, status=t.RUNNING, cancel_requested=True)
    done = jobs(1, status=t.SUCCEEDED)
    run = start("cancel", {"type": "mail"})
    carry_out(run)
    assert counts(run) == ("done", 4, 2, 2, 0)
    why = dict(run.rows.filter(outcome="skipped").values_list("target", "why"))
    assert why == {asked[0]: "asked to stop already", done[0]: "succeeded"}
    assert statuses(ready) == {t.CANCELLED}


def test_what_no_longer_matches_when_its_turn_comes_is_skipped(start: Start) -> None:
    [job] = jobs(1)
    run = start("cancel", {"type": "mail", "status": "ready"})
    carrier = carry.Carrier(run)
    carrier.round()
    Job.objects.filter(pk=job).update(status=t.RUNNING)
    while again(run).is_under_way:
        carrier.round()
    assert counts(run) == ("done", 1, 0, 1, 0)
    assert run.rows.get().why == carry.NO_MATCH
    assert not row(job).cancel_requested


def test_jobs_of_bulk_runs_are_no_target(start: Start) -> None:
    first = start("cancel", {"type": "mail"})
    run = start("cancel", {"status": "ready"})
    carry_out(run)
    assert counts(run)[1] == 0
    assert row(first.job or 0).status == t.READY


def test_each_action_changes_its_column(
    start: Start,
    role_user: Callable[[str], User],
    frozen_clock: FrozenClock,
    subtests: pytest.Subtests,
) -> None:
    actor = f"admin:{role_user('configurer').username}"
    factories.worker()

    def timed(given: dict[str, Any]) -> dict[str, Any]:
        is_time = given.keys() & {"run_at"}
        later = {name: clock.now() + timedelta(seconds=given[name]) for name in is_time}
        return {**given, **later}

    for verb, params, before, after in [
        ("retry", {}, {"status": t.FAILED}, {"status": t.READY}),
        ("retry", {"succeeded": True}, {"status": t.SUCCEEDED}, {"status": t.READY}),
        ("run_now", {}, {"run_at": 3600}, {"status": t.READY}),
        ("priority", {"priority": 40}, {}, {"priority": 40}),
        ("max_attempts", {"max_attempts": 9}, {}, {"max_attempts": 9}),
        ("mark_done", {}, {"status": t.FAILED}, {"status": t.SUCCEEDED}),
        ("time", {"shift_seconds": 60}, {"run_at": 3600}, {"run_at": 3660}),
        ("time", {"run_at": 7200}, {"run_at": 3600}, {"run_at": 7200}),
        ("move", {"host": "host-a"}, {}, {"affinity_host": "host-a"}),
    ]:
        with subtests.test(verb=verb, params=params), undone():
            [number] = jobs(1, **timed(before))
            run = start(verb, {"type": "mail"}, params=timed(params), actor=actor)
            carry_out(run)
            assert counts(run) == ("done", 1, 1, 0, 0), run.rows.get().why
            changed = row(number)
            assert {name: getattr(changed, name) for name in after} == timed(after)


def test_jobs_are_spread_over_a_time_the_oldest_first_also_when_it_is_interrupted(
    start: Start, frozen_clock: FrozenClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(carry, "ROUND", 2)
    begun = clock.now()
    numbers = jobs(5)
    run = start("time", {"type": "mail"}, params={"spread_seconds": 100})
    while again(run).done < 2:
        carry.Carrier(run).round()
    frozen_clock.advance(seconds=7)
    carry_out(run)
    times = [(row(number).run_at - begun).total_seconds() for number in numbers]
    # What was due by then is due now.
    assert times == [7, 20, 40, 60, 80]


def test_speed_is_that_of_the_present_attempt(
    start: Start, frozen_clock: FrozenClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(carry, "ROUND", 10)
    jobs(50)
    run = start("cancel", {"type": "mail"})
    first = carry.Carrier(run)
    while again(run).done < 20:
        first.round()
    began = again(run).paced_at
    assert began == clock.now()
    frozen_clock.advance(hours=3)
    carry.Carrier(run).round()
    assert (again(run).paced_at, again(run).paced_from) == (began + timedelta(hours=3), 20)


def test_row_that_the_database_refuses_does_not_stop_the_others(
    start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    numbers = jobs(5)
    take_each = control.take_each

    def refusing(taken: list[Job], *args: Any, **kwargs: Any) -> Any:
        if numbers[2] in [job.pk for job in taken]:
            raise DatabaseError("no")
        return take_each(taken, *args, **kwargs)

    monkeypatch.setattr(control, "take_each", refusing)
    run = start("cancel", {"type": "mail"})
    carry_out(run)
    assert counts(run) == ("done", 5, 4, 0, 1)
    assert run.rows.get(outcome="failed").target == numbers[2]


def test_of_two_jobs_with_one_unique_key_one_is_retried(start: Start) -> None:
    into = {"status": t.FAILED, "unique_key": None}
    for _ in range(2):
        factories.job("mail", key="order-1", unique=True, into=into)
    run = start("retry", {"type": "mail"})
    carry_out(run)
    assert counts(run) == ("done", 2, 1, 1, 0)
    assert "is open; cancel that one" in run.rows.get(outcome="skipped").why
    assert sorted(Job.objects.filter(type="mail").values_list("status", flat=True)) == [
        t.FAILED,
        t.READY,
    ]


def test_round_asks_as_often_for_a_hundred_jobs_as_for_one(
    start: Start, subtests: pytest.Subtests
) -> None:
    """While it writes, SQLite lets nobody else write."""

    def statements(count: int, verb: str, params: dict[str, Any], status: str) -> int:
        Job.objects.filter(type="mail").delete()
        jobs(count, status=status)
        carrier = carry.Carrier(start(verb, {"type": "mail"}, params=params))
        assert carrier.round().collected == count
        with CaptureQueriesContext(connection) as seen:
            assert carrier.round().done == count
        return len(seen)

    for verb, params, status, by in [
        ("cancel", {}, t.READY, ""),
        ("retry", {}, t.FAILED, ""),
        ("retry", {}, t.FAILED, "key"),
        ("retry", {}, t.FAILED, "context.customer"),
        ("priority", {"priority": 40}, t.READY, ""),
        ("time", {"shift_seconds": 3600}, t.READY, ""),
    ]:
        with subtests.test(verb=verb, by=by), undone():
            if by:
                job_type(limit_by=by, limit_running=5)
            # What is remembered of types for a moment may be read anew in either.
            more = 2 if by else 1
            most = statements(1, verb, params, status) + more
            assert statements(100, verb, params, status) <= most


# --- starting -------------------------------------------------------------------------------------
def test_few_rows_of_many_are_found_by_an_index(
    start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(steps, "LOOKED", 10)
    jobs(30, "web")
    [one] = jobs(1, key="order-1")
    jobs(30, "web")
    assert target_of("jobs").keys_if_few(RowFilter({"key": "order-1"}), Bounds()) == [one]
    run = start("cancel", {"key": "order-1"})
    assert carry.Carrier(run).round().collected == 1


# --- afterwards -----------------------------------------------------------------------------------
def test_audit_finds_a_run_that_does_not_add_up(start: Start) -> None:
    jobs(3)
    run = start("cancel", {"type": "mail"})
    carry_out(run)
    assert [each.run(100).breaches for each in CHECKS] == [[], []]

    BulkRun.objects.filter(pk=run.pk).update(done=2)

    found = [breach for each in CHECKS for breach in each.run(100).breaches]
    assert {(each.invariant, each.subject) for each in found} == {("I65", f"bulk run {run.pk}")}
    assert len(found) == 2


def test_rows_go_after_a_month_and_runs_after_more_than_a_year(
    start: Start, frozen_clock: FrozenClock
) -> None:
    jobs(3)
    run = start("cancel", {"type": "mail"})
    carry_out(run)
    frozen_clock.advance(days=29)
    assert purge(until=clock.now() + timedelta(seconds=9)) == 0
    frozen_clock.advance(days=2)
    assert purge(until=clock.now() + timedelta(seconds=9)) == 3
    assert not BulkRow.objects.exists()
    assert counts(run) == ("done", 3, 3, 0, 0)
    frozen_clock.advance(days=371)
    assert purge(until=clock.now() + timedelta(seconds=9)) == 1
    assert not BulkRun.objects.exists()


def test_rows_of_a_run_that_goes_on_stay_however_long_it_takes(
    start: Start, frozen_clock: FrozenClock
) -> None:
    numbers = jobs(3)
    run = start("cancel", {"type": "mail"})
    carry.Carrier(run).round()
    frozen_clock.advance(days=31)
    assert purge(until=clock.now() + timedelta(seconds=9)) == 0
    carry_out(run)
    assert (statuses(numbers), counts(run)) == ({t.CANCELLED}, ("done", 3, 3, 0, 0))


@pytest.mark.parametrize("is_stopped", [True, False])
def test_run_whose_rows_are_gone_cannot_be_continued(
    start: Start, frozen_clock: FrozenClock, is_stopped: bool
) -> None:
    jobs(3)
    run = start("cancel", {"type": "mail"})
    carry.Carrier(run).round()
    who = {"actor": "admin:olga", "reason": "too many"}
    if is_stopped:
        runs.stop(run=run, **who)
    else:
        Job.objects.filter(pk=run.job).update(status=t.CANCELLED)
    frozen_clock.advance(days=31)
    assert purge(until=clock.now() + timedelta(seconds=9)) == 3
    with pytest.raises(Conflict, match="start a new one"):
        runs.resume(run=run, **who)
