"""Limits by key: never more jobs of a key ready or running than its type allows, and none left."""

from __future__ import annotations

from collections import Counter
from datetime import datetime, timedelta
from itertools import product
from typing import Any

import pytest

from apps.common import clock
from apps.common.errors import Invalid
from apps.jobs.models import ArchivedJob, Job, JobType, KeyState
from apps.jobs.rules.order import WEIGHT_MS
from apps.jobs.services import admission, control, types
from apps.jobs.services.archive import archive_ended
from apps.jobs.services.discard import discard_exhausted
from apps.jobs.services.explain import explain
from apps.jobs.services.promote import promote_due
from apps.jobs.services.submit import Submission, submit, submit_many
from apps.jobs.testing import run_due
from apps.journal.services.undo import last_entries
from tests.auditing import audit, breaches
from tests.emptying import undone
from tests.frozen import FrozenClock
from tests.jobs import end, job_type, row, take
from tests.statements import sent_by

pytestmark = [pytest.mark.django_db, pytest.mark.both]

READY, BLOCKED, RUNNING = "ready", "blocked", "running"


def limited(**settings: Any) -> None:
    job_type(**{"limit_by": "context.customer", "limit_running": 2, **settings})


def some(count: int, customer: object = 7, **fields: Any) -> list[int]:
    """Submit jobs of the customer, and look at its key as after a commit."""
    made = submit_many(
        [Submission("mail", {"customer": customer, "n": n}, **fields) for n in range(count)]
    )
    admission.sweep(clock.now())
    return [each.id for each in made]


def statuses(numbers: list[int]) -> list[str]:
    found = dict(Job.objects.filter(pk__in=numbers).values_list("pk", "status"))
    return [found[number] for number in numbers]


def test_job_that_expires_without_a_place_ends_although_its_key_is_full(
    frozen_clock: FrozenClock,
) -> None:
    """Else a twin could not be submitted until the job that has the place ends."""
    limited(limit_running=1, expires_after_seconds=60)
    [runs] = some(1, key="first")
    take()
    [late] = some(1, key="second", unique=True)
    frozen_clock.advance(seconds=59)
    assert discard_exhausted(until=clock.now() + timedelta(seconds=1)) == 0
    frozen_clock.advance(seconds=1)

    assert discard_exhausted(until=clock.now() + timedelta(seconds=1)) == 1
    assert statuses([runs, late]) == [RUNNING, "failed"]
    assert "expired" in row(late).memo
    [twin] = some(1, key="second", unique=True)
    assert twin != late


def test_places_of_a_key_are_filled_in_order_and_by_whatever_leaves_them(
    frozen_clock: FrozenClock,
) -> None:
    limited()
    first, other = some(5), some(1, "8")

    assert statuses(first) == [READY, READY, BLOCKED, BLOCKED, BLOCKED]
    assert statuses(other) == [READY]
    held = take(10)
    assert [job.id for job in held] == [*first[:2], *other]
    assert end(held[0]) == "succeeded"
    assert statuses(first[2:]) == [READY, BLOCKED, BLOCKED]
    control.cancel(job=row(first[2]), actor="ann", reason="no need")
    assert statuses(first[3:]) == [READY, BLOCKED]
    # A retry that waits gives its place up, and waits for one again when it is due.
    end(held[1], "failed", retry_after=timedelta(minutes=1))
    assert statuses([first[1], first[4]]) == ["scheduled", READY]
    frozen_clock.advance(minutes=2)
    promote_due()
    assert statuses([first[1]]) == [BLOCKED]
    # A job that comes back at once keeps it: from a lost worker, or given back.
    again = take(1)
    end(again[0], "released")
    assert statuses([first[1], first[3], first[4]]) == [BLOCKED, READY, READY]


def test_7_and_its_text_are_one_key_and_what_has_no_value_shares_one() -> None:
    limited(limit_running=1)

    assert statuses([*some(1, 7), *some(1, "7")]) == [READY, BLOCKED]
    without = [submit("mail", {}).id, submit("mail", {"customer": None}).id]
    admission.sweep(clock.now())
    assert sorted(statuses(without)) == [BLOCKED, READY]
    with pytest.raises(Invalid, match="and that is a list here"):
        submit("mail", {"customer": [7]})


def test_key_and_user_are_limited_by_as_well_and_whole_numbers_of_a_list(
    subtests: pytest.Subtests,
) -> None:
    cases: dict[str, dict[str, Any]] = {
        "key": {"key": "k"},
        "user_id": {"user_id": "ann"},
        "context.to[1].host": {"context": {"to": [0, {"host": "a"}]}},
    }
    for by, fields in cases.items():
        with subtests.test(by):
            job_type(limit_by=by, limit_running=1)
            made = [submit("mail", **fields).id for _ in range(2)]
            admission.sweep(clock.now())
            assert sorted(statuses(made)) == [BLOCKED, READY]
            Job.objects.all().delete()


def test_priority_goes_first_within_a_key_and_keys_take_turns() -> None:
    """However many jobs of one key are older, those of others do not wait for them."""
    limited()
    crowd, late = some(50), some(2, 8)
    [urgent] = some(1, priority=5)

    held = take(10)
    assert {job.id for job in held} == {*crowd[:2], *late}
    for job in held:
        end(job)
    assert take(1)[0].id == urgent
    assert row(crowd[2]).order_key > row(late[0]).order_key - WEIGHT_MS


def test_rate_of_a_key_is_kept_by_looks_and_a_cancelled_job_leaves_no_hole(
    frozen_clock: FrozenClock,
) -> None:
    limited(limit_running=None, limit_per_minute=600, limit_burst=10)
    made = some(70)
    seen = [statuses(made).count(READY)]
    control.cancel(job=row(made[10]), actor="ann", reason="no need")
    for _ in range(4):
        frozen_clock.advance(seconds=1)
        admission.sweep(clock.now())
        seen.append(statuses(made).count(READY))

    assert seen == [10, 20, 30, 40, 50]


def test_act_of_an_operator_waits_for_a_place_and_answers_with_it() -> None:
    limited(limit_running=1)
    first, second, third = some(3)
    later = submit("mail", {"customer": 7}, delay=timedelta(hours=1)).id

    assert control.run_now(job=row(later), actor="ann").status == BLOCKED
    [held] = take(1)
    end(held)
    # It goes before the others of its key, because somebody wanted it now.
    assert control.retry(job=row(first), actor="ann").status == BLOCKED
    done = control.mark_done(job=row(second), actor="ann", reason="done by hand")
    assert done.status == "succeeded"
    assert Counter(statuses([first, third, later])) == {READY: 1, BLOCKED: 2}
    only = some(1, 9)
    [held] = [job for job in take(5) if job.id == only[0]]
    end(held, "failed", retry="never")
    retried = control.retry(job=row(only[0]), actor="ann")
    assert (retried.status, retried.version) == (READY, row(only[0]).version)


def test_act_is_undone_though_its_job_became_due_or_got_a_place_since(
    frozen_clock: FrozenClock,
) -> None:
    """Nobody has done that, and the journal has no entry of it."""
    who = {"actor": "admin:ann", "reason": "typo"}

    def put_back(number: int) -> tuple[str, datetime, object]:
        [entry] = last_entries("job", [number], {}).values()
        assert control.undo_each([row(number)], {number: entry}, **who) == {}
        found = row(number)
        return found.status, found.run_at, found.context["customer"]

    limited(limit_running=1)
    [failed], [held] = some(1), take(1)
    end(held, "failed", retry="never")
    at = row(failed).run_at
    assert control.retry(job=row(failed), **who).status == READY
    assert put_back(failed) == ("failed", at, 7)

    later = submit("mail", {"customer": 7}, delay=timedelta(hours=1)).id
    at = row(later).run_at
    assert control.run_now(job=row(later), **who).status == READY
    assert put_back(later) == ("scheduled", at, 7)
    sooner = {"run_at": clock.now() + timedelta(minutes=1), "context": {"customer": 8}}
    control.edit(job=row(later), version=row(later).version, changes=sooner, **who)
    frozen_clock.advance(minutes=2)
    promote_due()
    assert statuses([later]) == [READY]
    assert put_back(later) == ("scheduled", at, 7)

    control.run_now(job=row(later), **who)
    [entry] = last_entries("job", [later], {}).values()
    end(take(1)[0], "released")
    [refused] = control.undo_each([row(later)], {later: entry}, **who).values()
    assert refused.detail == "has changed since"
    assert audit()[0] == 0, audit()[1]


def test_job_with_another_customer_counts_for_that_one(frozen_clock: FrozenClock) -> None:
    limited(limit_running=1)
    [ready], [next_], [other] = some(1), some(1), some(1, 8)

    def give(number: int, customer: object) -> Job:
        changes, who = {"context": {"customer": customer}}, {"actor": "ann", "reason": "it was his"}
        return control.edit(job=row(number), version=row(number).version, changes=changes, **who)

    assert give(ready, 8).status == BLOCKED
    assert statuses([next_, other]) == [READY, READY]
    with pytest.raises(Invalid, match="an object here"):
        give(next_, {})


def test_attempt_that_names_another_customer_goes_on_for_that_one(
    frozen_clock: FrozenClock, subtests: pytest.Subtests
) -> None:
    """I69: at the end of a stage, and when it is put off, at once or later."""
    for how, wait in product(("stage_done", "yielded"), (0, 60)):
        with subtests.test(how, wait=wait), undone():
            limited(limit_running=1, stages=["a", "b"])
            frozen_clock.advance(minutes=1)
            [going], [next_], [other] = some(1), some(1), some(1, 8)
            held = next(job for job in take(5) if job.id == going)
            said: dict[str, Any] = {"stage": "b", "delay": timedelta(seconds=wait)}
            assert end(held, how, **said, context={"customer": []}) == "invalid"

            answer = end(held, how, **said, context={"customer": 8})

            assert answer == ("scheduled" if wait else BLOCKED)
            assert statuses([going, next_, other]) == [answer, READY, RUNNING]
            frozen_clock.advance(seconds=wait)
            promote_due()
            assert statuses([going]) == [BLOCKED]
            assert audit()[0] == 0
            control.cancel(job=row(other), actor="ann", reason="no need", force=True)
            assert statuses([going]) == [READY]


def test_limit_that_changes_holds_from_the_next_look(frozen_clock: FrozenClock) -> None:
    limited()
    made = some(6)
    job = types.find("mail")

    types.update_type(job_type=job, changes={"limit_running": 4}, actor="ann")
    admission.sweep(clock.now())
    assert statuses(made).count(READY) == 4
    types.update_type(job_type=job, changes={"limit_running": 1}, actor="ann")
    for held in take(3):
        end(held)
    # Nobody loses a place, and nobody gets one until fewer have one.
    assert statuses(made).count(BLOCKED) == 2
    nothing = {"limit_by": "", "limit_running": None}
    types.update_type(job_type=job, changes=nothing, actor="ann")
    for _ in range(60):
        frozen_clock.advance(seconds=1)
        admission.sweep(clock.now())
    assert BLOCKED not in statuses(made)


def test_job_that_comes_back_from_the_archive_counts_again(frozen_clock: FrozenClock) -> None:
    limited(limit_running=1)
    [old], [held] = some(1), take(1)
    end(held)
    frozen_clock.advance(days=30)
    archive_ended(until=clock.now() + timedelta(seconds=5))
    some(1)

    back = control.retry(job=ArchivedJob.objects.get(pk=old), actor="ann")

    assert back.status == BLOCKED
    assert back.limit_id is not None


@pytest.mark.parametrize("seconds", [1, 2, 7, 60])
def test_sweep_finds_what_a_lost_look_left_and_forgets_keys_without_jobs(
    frozen_clock: FrozenClock, settings: Any, monkeypatch: pytest.MonkeyPatch, seconds: int
) -> None:
    """Within a minute, however seldom a scan starts it, and though one is lost."""
    settings.JOB_SCAN_SECONDS = seconds
    limited()
    many = [submit("mail", {"customer": n}).id for n in range(30)]
    # Not among the newest.
    monkeypatch.setattr(admission, "_newest", lambda type_name: [])

    def minute() -> None:
        times = 60 // seconds + 1
        for n in range(times):
            frozen_clock.advance(seconds=seconds)
            if n != 0 or times < 3:
                admission.sweep(clock.now())

    minute()
    assert Counter(statuses(many)) == {READY: 30}
    assert KeyState.objects.count() == 30
    Job.objects.all().delete()
    minute()
    assert not KeyState.objects.exists()


def test_blocked_job_says_who_has_the_places_and_how_many_are_before_it() -> None:
    limited()
    made = some(5)

    [why] = [each for each in explain(row(made[4])) if each.code == "limited"]

    assert str(why.detail) == (
        "2 of 2 jobs with the same context.customer are ready or running; 2 are before this one."
    )


def test_type_says_by_what_it_limits_or_why_that_does_not_do(subtests: pytest.Subtests) -> None:
    job_type()
    cases: tuple[tuple[dict[str, Any], str], ...] = (
        ({"limit_by": "customer", "limit_running": 1}, "write key, user_id, or a path"),
        ({"limit_by": "context.a:b", "limit_running": 1}, "write key, user_id, or a path"),
        ({"limit_by": "key"}, "Say how many jobs of a key"),
        ({"limit_running": 1}, "Say by what the jobs are limited"),
        ({"limit_by": "key", "limit_running": 1, "limit_burst": 5}, "belongs to a number per"),
        ({"limit_by": "key", "limit_running": 0}, "whole number from 1 to 1000"),
        ({"limit_by": "key", "limit_running": 1, "pool": True}, "A pool has no limit by key"),
        ({"limit_by": 5, "limit_running": 1}, "must be text"),
    )
    for changes, said in cases:
        with subtests.test(said), pytest.raises(Invalid, match=said):
            types.update_type(job_type=types.find("mail"), changes=changes, actor="ann")


def test_jobs_without_a_limit_cost_no_statement_more() -> None:
    job_type()
    many = [Submission("mail", {"customer": n}) for n in range(20)]

    statements = sent_by(lambda: submit_many(many)) + sent_by(lambda: [end(j) for j in take(5)])

    assert not [sql for sql in statements if "jobs_keystate" in sql]
    assert set(Job.objects.values_list("limit_id", flat=True)) == {None}


def left() -> list[str]:
    """What the audit finds of limits by key."""
    return [each for each in breaches() if each.startswith("I69")]


def test_audit_finds_too_many_places_and_one_that_nobody_fills(frozen_clock: FrozenClock) -> None:
    """I69."""
    limited()
    frozen_clock.advance(seconds=10)
    first, second, third, fourth = some(4)
    assert audit()[0] == 0

    for another in (8, {"id": 7}):
        with undone():
            Job.objects.filter(pk=second).update(context={"customer": another})
            assert breaches() == [f"I69 job {second}: counts for another key than it names"]
    Job.objects.filter(pk=third).update(status=READY)
    assert breaches() == [
        f"I69 job {first}: is one of 3 jobs of its key with a place; the limit is 2"
    ]
    Job.objects.filter(pk__in=[first, second]).update(status="cancelled", finished_at=clock.now())
    frozen_clock.advance(minutes=3)
    assert left() == [f"I69 job {fourth}: is blocked, and its key has a free place"]
    with undone():
        rates = {"limit_running": None, "limit_per_minute": 1}
        JobType.objects.filter(name="mail").update(**rates)
        assert left() == [f"I69 job {fourth}: is blocked, and its key has a free place"]
        KeyState.objects.update(look_at=clock.now())
        assert left() == []
    with undone():
        JobType.objects.filter(name="mail").update(limit_by="", limit_running=None)
        assert left() == [f"I69 job {fourth}: is blocked, and its type has no limit by key"]
    Job.objects.filter(pk=third).update(status=BLOCKED, limit_id=None)
    assert f"I69 job {third}: is blocked, but counts for no key" in breaches()


def test_tests_of_handlers_run_the_jobs_of_a_key_one_after_the_other() -> None:
    job_type("echo", limit_by="key", limit_running=1)
    for _ in range(3):
        submit("echo", {}, key="k")

    assert [each.end for each in run_due("echo")] == ["succeeded"] * 3
