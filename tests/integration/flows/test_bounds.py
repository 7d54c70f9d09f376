"""What the smallest key, or one definition, can cost: bytes, transactions and errors."""

from __future__ import annotations

import pytest

from apps.common.errors import Invalid
from apps.flows import sweeps
from apps.flows.models import FlowRun
from apps.flows.services import programs
from apps.flows.services.check import check
from apps.flows.services.control import pause, resume
from apps.jobs.models import Bounds, Job
from apps.jobs.services.submit_check import MAX_ERRORS
from tests.flows import OLGA, job, jobs, looks, ref, run_of, started, states, step_of, wait, work
from tests.frozen import FrozenClock
from tests.jobs import job_type

pytestmark = [pytest.mark.django_db]


@pytest.fixture(autouse=True)
def types() -> None:
    job_type("mail")


def test_what_all_jobs_of_a_step_are_given_counts_as_often_as_it_is_stored() -> None:
    """200 KB of params are 1.6 GB in 8,000 jobs."""
    given = {"big": "x" * 200_000}
    run = started(
        jobs("a", [{}] * 8_000, context={"all": ref("params", "big")}),
        jobs("b", [{}] * 40, context={"all": ref("params", "big")}, optional=True),
        job("c", context={"all": ref("params")}),
        params=given,
    )
    assert states(run) == {"a": "failed", "b": "active", "c": "active"}
    assert "8000 jobs take" in step_of(run, "a").memo
    assert Job.objects.count() == 41


def test_a_transaction_begins_so_many_jobs_and_the_next_look_goes_on(
    frozen_clock: FrozenClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(programs, "ENOUGH_BYTES", 10 * programs.ROW_BYTES)
    run = started(*(jobs(name, [{}] * 10) for name in "abcd"), wait("w", needs=["d"]))
    assert [*states(run).values()] == ["active", "blocked", "blocked", "blocked", "blocked"]
    looks(frozen_clock, 1)
    assert [*states(run).values()] == ["active", "active", "blocked", "blocked", "blocked"]
    # A paused run begins none, and the rest when it goes on.
    pause(run=run_of(run), **OLGA)
    looks(frozen_clock, 1)
    assert [*states(run).values()].count("active") == 2
    resume(run=run_of(run), **OLGA)
    looks(frozen_clock, 1)
    assert [*states(run).values()] == ["active"] * 4 + ["blocked"]
    assert Job.objects.count() == 40
    work(run)
    assert states(run)["w"] == "active"
    assert sweeps.bring_on(run) is False
    assert FlowRun.objects.get().status == "running"


def test_of_many_errors_of_a_definition_some_are_told() -> None:
    said = [wait(f"s{n}", needs=[f"x{n}_{m}" for m in range(100)]) for n in range(100)]
    with pytest.raises(Invalid) as refused:
        check({"steps": said}, bounds=Bounds())
    assert len(refused.value.errors) == MAX_ERRORS
