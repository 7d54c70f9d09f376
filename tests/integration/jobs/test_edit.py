"""What an edit of a job changes, and what it leaves and refuses."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from apps.common.errors import Invalid
from apps.jobs.models import Job
from apps.jobs.rules.order import order_key
from apps.jobs.services import control
from tests import factories
from tests.integration.jobs.acted_on import NOW, WHO, entries, job_in, row

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("frozen_clock"), pytest.mark.both]


def changed(job: Job, **changes: Any) -> Job:
    control.edit(job=job, version=row(job).version, changes=changes, **WHO)
    return row(job)


def test_edit_writes_what_it_names_and_nothing_else() -> None:
    """I57, S1.2, S1.21"""
    job = job_in("scheduled", context={"to": "a"}, key="order-1", user_id="uid_a")
    before = Job.objects.values().get(pk=job.pk)
    changed(job, context={"to": "b"})
    after = Job.objects.values().get(pk=job.pk)
    assert {name for name in after if after[name] != before[name]} == {"context", "version"}
    [entry] = entries(job)
    assert entry.data == {"before": {"context": {"to": "a"}}, "after": {"context": {"to": "b"}}}


def test_new_time_decides_between_scheduled_and_ready() -> None:
    """S1.2, S1.14: and counts as the time at which it was expected."""
    job = job_in("ready")
    later = NOW + timedelta(days=3)
    put_off = changed(job, run_at=later)
    assert (put_off.status, put_off.run_at, put_off.expected_at) == ("scheduled", later, later)
    assert put_off.order_key == order_key(later, priority=0, attempts=0, weight_ms=60_000)
    back = changed(job, run_at=NOW - timedelta(days=3))
    assert (back.status, back.run_at, back.order_key) == ("ready", NOW, job.order_key)


def test_new_priority_moves_it_in_the_order() -> None:
    """S1.20"""
    job = job_in("ready")
    Job.objects.filter(pk=job.pk).update(attempts=1)
    expected = order_key(NOW, priority=3, attempts=1, weight_ms=60_000)
    assert changed(job, priority=3).order_key == expected


@pytest.mark.parametrize(
    ("limit", "changes"), [(3, {"max_attempts": 1}), (3, {"max_attempts": 2}), (2, {"priority": 5})]
)
def test_no_attempt_left_ends_it(limit: int, changes: dict[str, int]) -> None:
    """S1.11, I59: by lowering the maximum to what is used or below, if only by SQL before."""
    job = job_in("ready", key="order-1", unique=True)
    Job.objects.filter(pk=job.pk).update(attempts=2, max_attempts=limit)
    ended = changed(job, **changes)
    assert (ended.status, ended.finished_at, ended.unique_key) == ("failed", NOW, None)
    assert ended.memo == f"2 of {ended.max_attempts} attempts are used"
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


def test_true_is_another_context_than_1() -> None:
    job = job_in("ready", context={"all": 1})
    assert changed(job, context={"all": True}).context["all"] is True
