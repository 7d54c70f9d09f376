"""Rebuilds of pools: at once, in chunks, beside workers. S3.4, S3.7, S3.8."""

from __future__ import annotations

from typing import Any

import pytest

from apps.common.errors import Invalid, PlatformError
from apps.jobs.models import Job, TypeState
from apps.jobs.services import pool_rebuild
from apps.jobs.services.pool_rebuild import Rebuilt, foresee, rebuild_whole
from apps.jobs.services.pool_status import epoch_of
from apps.journal.models import JournalEntry
from tests.jobs import events_of, job_type, jobs, last_entry
from tests.pools import (
    FIVE,
    NAME,
    OPERATOR,
    assign,
    fill,
    held,
    items_of,
    job_of,
    pool,
    report,
    snapshot,
    waiting,
)

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("frozen_clock"), pytest.mark.both]


# --- the whole pool in one call -----------------------------------------------------------------


def test_rebuild_changes_what_differs() -> None:
    """S3.4: except what workers hold."""
    pool(FIVE)
    assign(limit=1)
    kept = job_of("b").pk

    done = fill({"a": 9, "b": 2, "c": 0.5, "f": 6})

    assert done == Rebuilt(added=1, held=1, unchanged=1, moved=1, withdrawn=2)
    assert waiting() == {"c": 0.5, "b": 2, "f": 6}
    assert held() == {"a": "pi-1"}
    assert job_of("b").pk == kept
    assert (job_of("d").status, job_of("d").unique_key) == ("cancelled", None)
    entry = last_entry(job_of("d").pk)
    assert (entry.event, entry.actor) == ("cancelled", OPERATOR)
    assert entry.reason == "not named by rebuild single-2"


def test_failed_key_that_waits_for_its_retry_goes_on_waiting() -> None:
    pool(FIVE)
    assign(limit=1)
    report("failed", "a")

    assert fill({**FIVE, "a": 7}).moved == 1

    assert (job_of("a").status, job_of("a").attempts) == ("scheduled", 1)


# --- what workers hold --------------------------------------------------------------------------


@pytest.mark.parametrize("end", ["failed", "released"])
def test_held_key_that_is_not_named_goes_when_its_worker_gives_it_up(end: str) -> None:
    """S3.8: a worker that is at it may still succeed."""
    pool(FIVE)
    assign(limit=2)
    fill({"c": 3})
    assert held() == {"a": "pi-1", "b": "pi-1"}
    assert job_of("a").cancel_requested

    assert report("succeeded", "a") == (["a"], {})
    assert report(end, "b") == (["b"], {})

    assert job_of("a").status == "succeeded"
    assert job_of("b").status == "cancelled"
    assert events_of(job_of("b").pk) == ["cancel_requested", end]
    assert waiting() == {"c": 3}


# --- in chunks ----------------------------------------------------------------------------------
def test_chunks_make_the_pool_together() -> None:
    """S3.4, S3.8: nothing goes before the last one, so the pool is never empty."""
    pool(FIVE)

    assert fill({"a": 1, "b": 9}, epoch=7) == Rebuilt(unchanged=1, moved=1)
    assert len(waiting()) == 5
    assert fill({"f": 6}, epoch=7) == Rebuilt(added=1)
    assert set(waiting()) == {"a", "b", "c", "d", "e", "f"}
    assert fill({"c": 3}, epoch=7, last=True) == Rebuilt(unchanged=1, withdrawn=2)
    assert waiting() == {"a": 1, "c": 3, "f": 6, "b": 9}
    assert epoch_of(NAME) == 7
    assert {job.trace_id for job in Job.objects.filter(status="ready")} == {"7"}


def test_withdrawing_goes_on_in_the_next_call(monkeypatch: pytest.MonkeyPatch) -> None:
    """S3.8: in blocks; what is left waits until then."""
    monkeypatch.setattr(pool_rebuild, "BLOCK", 2)
    pool(FIVE)
    monkeypatch.setattr(pool_rebuild, "CALL_SECONDS", 0.0)
    assert fill({"e": 5}, epoch=3, last=True) == Rebuilt(unchanged=1, more=True)
    assert waiting() == FIVE
    monkeypatch.setattr(pool_rebuild, "CALL_SECONDS", 5.0)

    assert fill({"e": 5}, epoch=3, last=True) == Rebuilt(unchanged=1, withdrawn=4)


def test_rebuild_of_many_keys_is_one_for_operators() -> None:
    """S3.4: whatever the size of a chunk."""
    pool(FIVE)
    assign(limit=1)
    items = {f"k{n}": n for n in range(2_500)} | {"a": 1, "b": 3}

    assert foresee(pool=snapshot(), items=items) == (
        expected := Rebuilt(added=2_500, held=1, moved=1, withdrawn=3)
    )
    assert rebuild_whole(pool=snapshot(), items=items, actor=OPERATOR) == expected
    assert len(waiting()) == 2_501


# --- the journal --------------------------------------------------------------------------------
def test_finished_rebuild_is_in_the_journal_once() -> None:
    made = pool()
    fill(FIVE, epoch=4)
    assert not JournalEntry.objects.filter(event="pool_rebuilt").exists()
    fill({}, epoch=4, last=True)

    [entry] = JournalEntry.objects.timeline("plan", made.pk)

    assert (entry.event, entry.actor, entry.type_or_task) == ("pool_rebuilt", OPERATOR, NAME)
    assert entry.data == {"rebuild": "4", "waiting": 5, "held": 0}


# --- contexts -----------------------------------------------------------------------------------
SCHEMA = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}


def test_contexts_come_with_the_keys_and_stay() -> None:
    pool()
    fill({"a": 1, "b": 2}, contexts={"a": {"n": 1}})
    fill({"a": 1, "b": 2}, contexts={"b": {"n": 2}})

    assert [item.context for item in items_of()] == [{"n": 1}, {"n": 2}]


def test_contexts_fit_the_schema_of_the_type() -> None:
    """Nothing is done if one of them does not; a key that is there keeps the one it has."""
    pool(params_schema=SCHEMA)
    fill({"a": 1}, contexts={"a": {"n": 1}})
    cases: list[tuple[dict[str, Any], str]] = [
        ({"b": {"n": "x"}}, "contexts.b.n"),
        ({"a": {"n": "x"}, "b": {"n": 1}}, "contexts.a.n"),
        # A new key has to have one.
        ({}, "contexts.b.n"),
    ]
    for contexts, field in cases:
        with pytest.raises(Invalid) as refused:
            fill({"a": 5, "b": 2}, contexts=contexts)
        assert [error.field for error in refused.value.errors] == [field]
        assert waiting() == {"a": 1}


def test_context_that_cannot_be_stored_is_refused() -> None:
    pool()

    with pytest.raises(PlatformError) as refused:
        fill({"a": 1}, contexts={"a": {"text": "\0"}})

    assert refused.value.code == "bad_text"
    assert not TypeState.objects.filter(pool_epoch__gt=0).exists()


def test_jobs_of_other_types_are_left_alone() -> None:
    pool(FIVE)
    job_type("mail")
    jobs(3)

    fill({})

    assert Job.objects.filter(type="mail", status="ready").count() == 3
