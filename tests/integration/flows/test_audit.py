"""The audit of runs of flows: what services wrote is sound, and each promise is broken by hand."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from apps.common import audit as auditing
from apps.common import clock, ids
from apps.flows.models import FlowRun, FlowStep
from apps.flows.services import control
from apps.flows.services.advance import advance
from apps.jobs.models import Job
from apps.jobs.services import control as of_jobs
from apps.journal.models import JournalEntry
from tests import factories
from tests.auditing import audit, breaches
from tests.emptying import undone
from tests.flows import OLGA, failing, job, jobs, run_of, started, step_of, task, wait, work
from tests.jobs import row

pytestmark = [pytest.mark.django_db, pytest.mark.both, pytest.mark.usefixtures("mail")]


@pytest.fixture
def runs(monkeypatch: pytest.MonkeyPatch) -> dict[str, int]:
    """A run in each state, by its name."""
    monkeypatch.setattr(auditing, "AGAIN_AFTER_SECONDS", 0.0)
    factories.group(members=["uid_ann"])
    glance = job("glance", optional=True)
    found = {
        "going": started(jobs("many", [1, 2]), task("check"), wait("gate"), key="k"),
        "well": started(glance, job("a")),
        "failed": started(job("a"), job("b", needs=["a"])),
        "cancelled": started(jobs("many", [1, 2]), wait("gate")),
        "skipped": started(job("a"), wait("gate")),
    }
    work(found["well"], "glance", failing)
    work(found["well"], "a")
    work(found["failed"], "a", failing)
    control.cancel(run=run_of(found["cancelled"]), **OLGA)
    control.skip(run=run_of(found["skipped"]), step="a", **OLGA)
    return found


def jobs_of(run: int, step: str) -> Any:
    return Job.objects.filter(part_of=step_of(run, step).pk)


def test_runs_that_services_have_moved_break_nothing(runs: dict[str, int]) -> None:
    """I71, I72: also while jobs of steps that have ended are tried again, each its own affair."""
    for name, step in (("well", "a"), ("failed", "a"), ("cancelled", "many"), ("skipped", "a")):
        assert audit()[0] == 0, audit()[1]
        of_jobs.retry(job=row(jobs_of(runs[name], step).first().pk), actor="admin:olga")
    assert audit()[0] == 0, audit()[1]
    control.skip(run=run_of(runs["failed"]), step="a", **OLGA)
    assert {*jobs_of(runs["failed"], "a").values_list("status", flat=True)} == {"cancelled"}
    assert audit()[0] == 0, audit()[1]


def test_what_disagrees_is_reported(runs: dict[str, int], subtests: pytest.Subtests) -> None:
    """I71, I72."""
    cases: list[tuple[str, str, dict[str, Any], str]] = [
        ("going", "", {"finished_at": clock.now()}, "running, but the time of its end says"),
        ("going", "", {"open_key": None}, "running, but keeps no others of its key out"),
        ("going", "", {"open_key": "|other"}, "running, but keeps no others of its key out"),
        ("well", "", {"open_key": "|k2"}, "succeeded, but keeps others of its key out"),
        ("well", "", {"status": "failed"}, "failed, but its steps say otherwise"),
        ("failed", "", {"status": "succeeded"}, "succeeded, but its steps say otherwise"),
        ("cancelled", "", {"finished_at": clock.now() + timedelta(hours=1)}, "tells of this end 0"),
        ("well", "a", {"state": "failed"}, "succeeded, but its steps say otherwise"),
        ("going", "gate", {"look_at": None}, "is active, but nobody looks at it"),
        ("going", "gate", {"started_at": None}, "is active without a start"),
        ("well", "a", {"look_at": clock.now()}, "succeeded, but is looked at"),
        ("failed", "a", {"state": "active"}, "active in a run that is failed"),
        ("going", "many", {"made": 3}, "made 3 jobs, and 2 are there"),
        ("going", "many", {"last": 7}, "is not in the range of step"),
        ("going", "many", {"state": "cancelled"}, "is open, but step"),
        ("going", "many", {"state": "succeeded", "look_at": None}, "is open, but step"),
    ]
    for name, step, columns, words in cases:
        with subtests.test(words, run=name), undone():
            rows: Any = FlowRun.objects.filter(pk=runs[name])
            if step:
                rows = FlowStep.objects.filter(run=runs[name], name=step)
                columns = {"ended_at": clock.now(), **columns}
            rows.update(**columns)
            assert [line for line in breaches() if words in line], breaches()
    ends = JournalEntry.objects.filter(source="flow", event="ended")
    with subtests.test("ended twice"), undone():
        twice = ends.get(subject_id=runs["well"])
        twice.pk = ids.next_id()
        twice.save(force_insert=True)
        assert [line for line in breaches() if "tells of this end 2 times" in line]
    ends.delete()
    assert len(breaches()) == 3
    assert not advance(runs["going"])
