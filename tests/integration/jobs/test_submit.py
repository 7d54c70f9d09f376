"""Submitting: what becomes of a job to be, alone, in batches and beside a twin."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.db import transaction

from apps.common.errors import Invalid, LimitReached, PlatformError, TooDeep, TooLarge
from apps.jobs import wakeup
from apps.jobs.models import Job
from apps.jobs.rules.order import order_key
from apps.jobs.rules.submission import shard_of
from apps.jobs.services import types
from apps.jobs.services.submit import Submission, submit, submit_many
from apps.journal.models import JournalEntry
from tests import factories
from tests.statements import sent_by

pytestmark = pytest.mark.both

NOW = datetime(2026, 3, 2, 9, tzinfo=UTC)


@pytest.fixture
def mail(db: None, frozen_clock: Any) -> Any:
    return factories.job_type("mail")


@pytest.fixture
def announced(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """One word per wake-up that was published."""
    published: list[str] = []
    monkeypatch.setattr("django.conf.settings.REDIS_URL", "redis://somewhere")
    monkeypatch.setattr(wakeup, "_publish", lambda *message: published.append("woken"))
    return published


def _refusal(*jobs: Submission, **options: Any) -> PlatformError:
    before = Job.objects.count()
    with pytest.raises(PlatformError) as caught:
        submit_many(jobs, **options)
    assert Job.objects.count() == before
    return caught.value


# --- one job ------------------------------------------------------------------------------------
def test_a_job_takes_what_its_type_decides(mail: Any) -> None:
    """S1.1, S1.3: nothing but the type is needed, and it writes no journal entry."""
    submitted = submit("mail")
    job = Job.objects.get()
    assert submitted == (job.pk, True, "ready", "", "")
    assert (job.status, job.attempts, job.max_attempts, job.holds) == ("ready", 0, 3, 0)
    assert (job.priority, job.stage, job.context, job.version) == (0, "", {}, 1)
    assert (job.run_at, job.expected_at, job.created_at) == (NOW, NOW, NOW)
    assert job.order_key == order_key(NOW, priority=0, attempts=0, weight_ms=60_000)
    assert (job.shard, job.unique_key, job.last_end) == (shard_of(str(job.pk)), None, "")
    assert not JournalEntry.objects.filter(source="job").exists()


def test_everything_that_is_said_is_kept(frozen_clock: Any, db: None) -> None:
    """S1.3, S1.4, S2.7: no part of a submission is lost."""
    factories.job_type("mail", stages=["draw", "send"], default_priority=7, max_attempts=9)
    context = {"to": "ä@example.com", "parts": [1, 2.5, None, True, {"deep": "✓"}]}
    said = {"key": "order-1", "priority": -3, "max_attempts": 2, "user_id": "uid_alice"}
    said |= {"stage": "send", "route_key": "shop-7", "trace_id": "trace-1"}
    submit("mail", context, by="key:shop", **said)
    job = Job.objects.get()
    assert (job.context, job.key, job.priority) == (context, "order-1", -3)
    assert (job.max_attempts, job.user_id, job.stage) == (2, "uid_alice", "send")
    assert (job.shard, job.trace_id) == (shard_of("shop-7"), "trace-1")
    assert job.submitted_by == "key:shop"


def test_free_stage_needs_a_name(frozen_clock: Any, db: None) -> None:
    factories.job_type("free", stages=["*"])
    submit("free", stage="x" * 64)

    for stage in ("two stages", "阶段", "x" * 65, "*"):
        with pytest.raises(Invalid, match=r"stage: .* is no stage; use at most 64 letters"):
            submit("free", stage=stage)


def test_a_job_waits_for_its_time(mail: Any, subtests: pytest.Subtests) -> None:
    """S1.2, I33: for any length of time, and a past instant buys no better place."""
    asked: dict[str, Any]
    for asked, run_at, status in (
        ({"delay": timedelta(0)}, NOW, "ready"),
        ({"delay": timedelta(seconds=1)}, NOW + timedelta(seconds=1), "scheduled"),
        ({"run_at": NOW}, NOW, "ready"),
        ({"run_at": NOW - timedelta(days=900)}, NOW, "ready"),
        ({"run_at": NOW + timedelta(days=36_525)}, NOW + timedelta(days=36_525), "scheduled"),
    ):
        with subtests.test(asked=asked):
            made = submit("mail", priority=2, **asked)
            job = Job.objects.get(pk=made.id)
            assert made.status == status
            assert (job.status, job.run_at, job.expected_at) == (status, run_at, run_at)
            assert job.order_key == order_key(run_at, priority=2, attempts=0, weight_ms=60_000)


# --- what is refused ----------------------------------------------------------------------------
WRONG: tuple[tuple[dict[str, Any], str], ...] = (
    ({"key": "with blank"}, "key"),
    ({"key": "k" * 129}, "key"),
    ({"key": 5}, "key"),
    ({"user_id": "ü"}, "user_id"),
    ({"trace_id": "t" * 65}, "trace_id"),
    ({"route_key": "r" * 256}, "route_key"),
    ({"priority": 101}, "priority"),
    ({"priority": -101}, "priority"),
    ({"priority": True}, "priority"),
    ({"max_attempts": 0}, "max_attempts"),
    ({"max_attempts": 10_001}, "max_attempts"),
    ({"delay": timedelta(seconds=-1)}, "delay"),
    ({"delay": timedelta(days=36_526)}, "delay"),
    ({"run_at": NOW, "delay": timedelta(0)}, "delay"),
    ({"run_at": NOW.replace(tzinfo=None)}, "run_at"),
    ({"run_at": NOW.replace(year=9999)}, "run_at"),
    ({"stage": "unheard-of"}, "stage"),
    ({"unique": True}, "key"),
    ({"context": ["a"]}, "context"),
    ({"context": {1: "a"}}, "context"),
    ({"context": {"a": {1, 2}}}, "context"),
)


def test_a_wrong_field_is_named(mail: Any, subtests: pytest.Subtests) -> None:
    for wrong, field in WRONG:
        with subtests.test(wrong=wrong):
            with pytest.raises(Invalid) as caught:
                submit("mail", **wrong)
            assert [error.field for error in caught.value.errors] == [field]
            assert not Job.objects.exists()


def test_what_the_type_requires_is_reported_beside_what_is_wrong_anyway(mail: Any) -> None:
    with pytest.raises(Invalid) as caught:
        submit("mail", unique=True, priority=101, stage="unheard-of")
    assert {error.field for error in caught.value.errors} == {"priority", "key", "stage"}


def test_context_within_the_limits_of_json(mail: Any) -> None:
    deep: dict[str, Any] = {}
    for _ in range(20):
        deep = {"a": deep}
    assert isinstance(_refusal(Submission(type="mail", context=deep)), TooDeep)
    many = {str(number): 0 for number in range(1001)}
    assert isinstance(_refusal(Submission(type="mail", context=many)), LimitReached)
    long = {"text": "x" * 262_144}
    refusal = _refusal(Submission(type="mail"), Submission(type="mail", context=long))
    assert isinstance(refusal, TooLarge)
    assert [error.field for error in refusal.errors] == ["jobs[1].context"]
    submit("mail", {"text": "x" * 262_000})


def test_unknown_type_names_the_known_ones(mail: Any) -> None:
    """S1.5"""
    factories.job_type("sms")
    with pytest.raises(Invalid, match=r"There is no job type 'fax'; known are: mail, sms\."):
        submit("fax")
    with pytest.raises(Invalid, match="did you mean mail"):
        submit("mial")


def test_context_must_fit_the_schema_of_the_type(mail: Any) -> None:
    """S1.4, I59: as soon as it is edited; each error with its path, and nothing is made."""
    submit("mail", {})
    schema = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["to"]}
    types.update_type(job_type=mail, changes={"params_schema": schema}, actor="admin:olga")
    submit("mail", {"to": "a", "n": 1})
    refusal = _refusal(
        Submission(type="mail", context={"to": "a"}), Submission(type="mail", context={"n": "x"})
    )
    fields = {error.field for error in refusal.errors}
    assert fields == {"jobs[1].context.n", "jobs[1].context.to"}


def test_errors_of_a_batch_have_their_position(mail: Any) -> None:
    """All or nothing."""
    good, wrong = Submission(type="mail"), Submission(type="fax", priority=500)
    refusal = _refusal(good, wrong, good)
    assert [error.field for error in refusal.errors] == ["jobs[1].type", "jobs[1].priority"]


# --- many jobs ----------------------------------------------------------------------------------
@pytest.mark.parametrize(("number", "blocks"), [(1000, 1), (2001, 3)])
def test_a_thousand_jobs_are_one_statement(mail: Any, number: int, blocks: int) -> None:
    """S1.16: and the types are read once; more go in blocks."""
    factories.job_type("sms")
    jobs = [
        Submission(type=("mail", "sms")[n % 2], context={"n": n}, key=f"k{n}")
        for n in range(number)
    ]
    answers: list[Any] = []
    sent = sent_by(lambda: answers.extend(submit_many(jobs)))
    statements = [sql.split()[0] for sql in sent if "jobs_" in sql]
    assert statements == ["SELECT", *["INSERT"] * blocks]
    rows = {job.pk: (job.context, job.key) for job in Job.objects.all()}
    assert [rows[each.id] for each in answers] == [(job.context, job.key) for job in jobs]


# --- the caller's transaction -------------------------------------------------------------------
@pytest.mark.django_db(transaction=True)
def test_rows_and_one_wake_up_follow_the_commit(announced: list[str]) -> None:
    """S1.4, S1.6, I25: however many jobs are submitted; none for a rollback or what is not due."""
    factories.job_type("mail")
    announced.clear()

    def submit_some() -> None:
        submit("mail")
        submit_many([Submission(type="mail")] * 3)
        submit("mail", key="a", unique=True)

    with pytest.raises(ZeroDivisionError), transaction.atomic():
        submit_some()
        raise ZeroDivisionError
    submit("mail", delay=timedelta(hours=1))
    assert (Job.objects.count(), announced) == (1, [])
    with transaction.atomic():
        submit_some()
        assert announced == []
    assert (Job.objects.count(), announced) == (6, ["woken"])


# --- twins --------------------------------------------------------------------------------------
def test_the_open_twin_is_returned(mail: Any) -> None:
    """S1.4, S1.21, I35: with its status, and its context untouched."""
    first = submit("mail", {"n": 1}, key="order-1", unique=True, delay=timedelta(hours=1))
    second = submit("mail", {"n": 2}, key="order-1", unique=True)
    assert (first.created, second) == (True, (first.id, False, "scheduled", "returned", ""))
    assert Job.objects.get().context == {"n": 1}


def test_a_twin_has_the_same_type_and_key(frozen_clock: Any, db: None) -> None:
    """S1.4: and asked for the same; a key alone makes nobody unique."""
    for name in ("a", "a:b"):
        factories.job_type(name)
    assert submit("a", key="b:c", unique=True).created
    assert submit("a:b", key="c", unique=True).created
    assert submit("a", key="b:C", unique=True).created
    assert submit("a", key="b:c").created
    assert Job.objects.count() == 4


def test_twins_in_one_batch(mail: Any) -> None:
    """S1.4: the first is made, the others get its number; the rest of the batch is made, too."""
    there = submit("mail", key="c", unique=True)
    keys = ["b", "a", "b", "", "c", "a", "b"]
    answers = submit_many([Submission(type="mail", key=k, unique=bool(k)) for k in keys])
    assert [answer.created for answer in answers] == [True, True, False, True, False, False, False]
    assert answers[2].id == answers[6].id == answers[0].id
    assert answers[5].id == answers[1].id
    assert answers[4] == (there.id, False, "ready", "returned", "")
    assert Job.objects.count() == 4


def test_a_type_may_decide_on_uniqueness(frozen_clock: Any, db: None) -> None:
    for name in ("always", "never"):
        factories.job_type(name, unique=name)
        submit(name, key="a")
        assert submit(name, key="a").created == (name == "never")
    with pytest.raises(Invalid, match="needs a key"):
        submit("always")
    with pytest.raises(Invalid, match="never unique"):
        submit("never", key="a", unique=True)


def test_a_duplicate_leaves_the_callers_transaction_whole(mail: Any) -> None:
    """I25, I35: no error inside, so everything else of it is committed."""
    submit("mail", key="a", unique=True)
    with transaction.atomic():
        submit("mail", key="before")
        assert not submit("mail", key="a", unique=True).created
        submit("mail", key="after")
    assert set(Job.objects.values_list("key", flat=True)) == {"a", "before", "after"}
