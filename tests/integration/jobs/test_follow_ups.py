"""Follow-ups: jobs that are made in the transaction in which the attempt before them ends, once."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.db import transaction

from apps.common import clock
from apps.jobs.handlers import Done, Submission
from apps.jobs.models import ArchivedJob, Bounds, Job
from apps.jobs.rules.caller import Caller
from apps.jobs.rules.submission import MAX_DEPTH, MAX_FOLLOW_UPS, from_json, to_json
from apps.jobs.runner.process import Process
from apps.jobs.services import archive
from apps.jobs.services.follow import follow_ups
from apps.jobs.services.hold import Holder
from apps.jobs.services.settle import settle
from tests.frozen import FrozenClock
from tests.jobs import (
    answer_of,
    drained,
    end,
    events_of,
    held_jobs,
    job_type,
    jobs,
    last_entry,
    row,
    take,
)
from tests.kills import kills
from tests.statements import sent_by

pytestmark = [pytest.mark.django_db, pytest.mark.both]

Make = Callable[..., Any]
ALL = Bounds()


def made() -> list[Job]:
    return list(Job.objects.exclude(parent=None).order_by("id"))


def receipts(count: int = 1, **fields: Any) -> list[Submission]:
    return [Submission("receipt", {"n": n}, key=f"r-{n}", **fields) for n in range(count)]


def test_follow_ups_are_made_with_the_end_and_both_ways_are_known(
    frozen_clock: FrozenClock,
) -> None:
    job_type("receipt")
    [held] = held_jobs()
    Job.objects.filter(pk=held.id).update(trace_id="t-1", depth=3)
    then = [*receipts(2), Submission("mail", delay=timedelta(hours=1), trace_id="t-2")]

    answers = [end(held, submit=then, result=7), end(held, submit=then, result=7)]

    assert answers == ["succeeded", "succeeded"]
    first, second, later = made()
    assert {job.parent for job in made()} == {held.id} and {job.depth for job in made()} == {4}
    assert (first.type, first.context, first.key, first.status) == (
        *("receipt", {"n": 0}, "r-0"),
        "ready",
    )
    assert (first.trace_id, later.trace_id, later.status) == ("t-1", "t-2", "scheduled")
    assert last_entry(held.id).data["submitted"] == [str(job.pk) for job in made()]
    assert follow_ups(row(held.id), bounds=ALL) == [first, second, later]
    assert follow_ups(row(held.id), bounds=Bounds(types=["mail"])) == [later]
    assert follow_ups(first, bounds=ALL) == []
    assert end(held, submit=then[:1], result=7) == "conflict"

    # In the archive, too.
    end(take(types=("receipt",))[0])
    frozen_clock.advance(days=8)
    archive.archive_ended(until=clock.now() + timedelta(seconds=9))
    old = ArchivedJob.objects.get(pk=held.id)
    assert {job.pk for job in follow_ups(old, bounds=ALL)} == {first.pk, second.pk, later.pk}
    assert ArchivedJob.objects.get(pk=first.pk).parent == held.id


def test_a_job_may_be_followed_by_one_with_its_own_unique_key() -> None:
    """Its own key is free in the moment in which it ends; that of another open job is not."""
    [held] = held_jobs()
    Job.objects.filter(pk=held.id).update(key="a", is_unique=True, unique_key="mail|a")

    assert end(held, submit=[Submission("mail", key="a", unique=True)]) == "succeeded"

    [next_one] = made()
    [held] = take()
    [other] = jobs()
    [second] = take()
    assert end(second, submit=[Submission("mail", key="a", unique=True)]) == "succeeded"
    assert [each.pk for each in follow_ups(row(other), bounds=ALL)] == [next_one.pk]
    assert made() == [next_one]


WRONG: tuple[tuple[str, Callable[[], list[Any]], int, str], ...] = (
    ("unknown type", lambda: [Submission("recipe")], 0, "'recipe'; did you mean receipt?"),
    ("too many", lambda: receipts(MAX_FOLLOW_UPS + 1), 0, "submits 101 jobs with its end, and 100"),
    ("too deep", lambda: receipts(), MAX_DEPTH, "100 jobs have led to it, each submitting"),
    ("no context", lambda: [Submission("receipt", ["x"])], 0, "must be a JSON object"),  # type: ignore[arg-type]
    ("too large", lambda: [Submission("receipt", {"x": "y" * 300_000})], 0, "262144"),
)


def test_what_cannot_be_made_fails_the_attempt_with_a_sentence(
    handle: Make, process: Process, subtests: pytest.Subtests
) -> None:
    """In-house; over HTTP that outcome is refused, and nothing changes."""
    job_type("receipt")
    returned = list[Any]()
    handle("mail", lambda context: Done(1, then=returned))
    for case, then, depth, said in WRONG:
        with subtests.test(case):
            returned[:] = [*receipts(1), *then()] if case != "too many" else then()
            fine, wrong = jobs(1)[0], jobs(1, depth=depth)[0]
            Job.objects.filter(pk=fine).update(type="receipt", status="scheduled")

            drained(process)

            job = row(wrong)
            assert (job.status, made()) == ("failed", [])
            assert said in (job.memo or last_entry(wrong).error)

            [number] = jobs(1, depth=depth)
            [held] = take()
            [answer] = settle(outcomes=[held.ended("succeeded", submit=tuple(returned))])
            assert answer_of(answer) in ("invalid", "too_large")
            assert (row(number).status, made()) == ("running", [])
            end(held)


def test_a_key_submits_what_is_within_its_types_only() -> None:
    """And nothing that only code submits."""
    for name in ("mail", "receipt", "bulk"):
        job_type(name)
    caller = Caller("pi", frozenset({"mail"}))
    for types, name, refused in (
        (True, "receipt", True),
        (False, "bulk", True),
        (True, "mail", False),
    ):
        [number] = jobs()
        [held] = take(by=Holder("pi-1", "", "pi"))
        one = held.ended("succeeded", submit=(Submission(name),))

        [answer] = settle(outcomes=[one], caller=caller if types else Caller("pi"))

        assert (answer_of(answer) == "invalid") == refused
        assert row(number).status == ("running" if refused else "succeeded")
    assert [job.submitted_by for job in made()] == ["key:pi"]


def test_a_repeated_report_is_known_by_what_it_submits() -> None:
    job = Submission("a", {"x": 1}, run_at=clock.now(), priority=3, unique=True, key="k")
    assert from_json(to_json(job)) == job
    late = Submission("a", delay=timedelta(seconds=1.5), stage="b")
    assert from_json(to_json(late)) == late
    assert to_json(Submission("a")) == {"type": "a"}


def test_settles_and_submissions_without_follow_ups_ask_and_write_nothing_more() -> None:
    [held] = held_jobs()
    sent = sent_by(lambda: end(held))
    assert not [sql for sql in sent if "depth" in sql or "parent" in sql]
    assert not [sql for sql in sent_by(lambda: jobs(1)) if "depth" in sql]


# --- with kills -----------------------------------------------------------------------------------
@pytest.mark.django_db(transaction=True)
def test_a_kill_at_any_statement_makes_all_of_them_with_the_end_or_none() -> None:
    job_type("receipt")
    [held] = held_jobs()
    report = held.ended("succeeded", submit=tuple(receipts(2)))
    for _killed in kills(lambda: settle(outcomes=[report]), more_than=4):
        assert (row(held.id).status, len(made())) in (("running", 0), ("succeeded", 2))
        assert not transaction.get_connection().in_atomic_block
    settle(outcomes=[report])
    assert (row(held.id).status, len(made()), events_of(held.id)) == ("succeeded", 2, ["succeeded"])
