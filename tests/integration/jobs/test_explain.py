"""Why a waiting job does not run, from the rows. S1.2, S4.19."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from apps.common import clock
from apps.jobs.models import Job, TypeState
from apps.jobs.rules.explain import MAX_AHEAD
from apps.jobs.services import control, types
from apps.jobs.services.counts import jobs_before
from apps.jobs.services.explain import explain
from apps.jobs.services.submit import Submission, submit_many
from tests import factories
from tests.statements import sent_by

pytestmark = [pytest.mark.django_db, pytest.mark.both]


@pytest.fixture(autouse=True)
def served(frozen_clock: Any) -> None:
    """Host-a has a worker for the type mail."""
    for name in ("mail", "sms"):
        factories.job_type(name, handler="echo")
    factories.worker("host-a:1", types=["mail"])


def test_a_job_in_turn_learns_how_many_come_first() -> None:
    """In the order of the claim: by order key, then number."""
    low = factories.job(priority=-1)
    first, second = factories.job(), factories.job()
    factories.job("sms")
    factories.job(delay=timedelta(hours=1), priority=100)
    urgent = factories.job(priority=1)

    found = {job.pk: explain(job)[0] for job in (low, first, second, urgent)}

    assert found[urgent.pk].code == "next"
    counts = [found[job.pk].detail.params["count"] for job in (first, second, low)]
    assert counts == [1, 2, 3]


def test_a_job_for_one_host_is_behind_those_for_any_host() -> None:
    """A worker there takes both in one order."""
    factories.worker("host-b:1", types=["mail"])
    factories.job()
    elsewhere, bound = factories.job(), factories.job()
    for job, host in ((elsewhere, "host-b"), (bound, "host-a")):
        control.edit(
            job=job, changes={"affinity_host": host}, actor="ann", reason="data", version=1
        )
    last = factories.job()

    found = [jobs_before(Job.objects.get(pk=job.pk)) for job in (elsewhere, bound, last)]

    # Nothing keeps a worker on another host from taking the last one before those two.
    assert found == [1, 1, 1]


def test_no_more_are_counted_than_anybody_reads() -> None:
    submit_many([Submission(type="mail")] * (MAX_AHEAD + 20))
    last = factories.job()

    found: list[Any] = []
    sent = sent_by(lambda: found.extend(explain(last)))

    assert [reason.detail.params["count"] for reason in found] == [MAX_AHEAD]
    assert not any("COUNT(" in sql for sql in sent)


def test_limits_are_read_from_the_rows() -> None:
    mail = types.find("mail")
    job = factories.job()
    changes = {"max_running": 1, "rate_per_minute": 60, "breaker_enabled": True}
    types.update_type(job_type=mail, changes=changes, actor="admin:olga")
    types.pause_type(job_type=mail, reason="Mail server is down", actor="admin:olga")
    factories.running_job()
    now = clock.now()
    TypeState.objects.create(
        type="mail", tokens=0, filled_at=now, breaker="open", breaker_since=now
    )

    found = explain(job)

    assert [r.code for r in found] == ["paused", "breaker_open", "max_running", "rate"]
    assert "Mail server is down" in found[0].detail
    assert found[1].until == now + timedelta(seconds=30)


def test_a_job_that_does_not_wait_costs_little() -> None:
    for status, code in (("running", "running"), ("failed", "finished")):
        job, found = factories.job(into={"status": status}), list[str]()
        sent = sent_by(lambda job=job, found=found: found.extend(r.code for r in explain(job)))  # type: ignore[misc]
        assert (found, len(sent)) == ([code], 2)
