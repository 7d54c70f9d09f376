"""What the end of a job that is part of a step reads, among many jobs."""

from __future__ import annotations

import pytest

from apps.flows.models import FlowStep
from apps.flows.services import ends
from apps.jobs.models import Job
from tests.flows import jobs, run_of, started, step_of
from tests.jobs import jobs as plain_jobs
from tests.statements import analyze, index_reads, other_reads

pytestmark = [pytest.mark.mariadb, pytest.mark.django_db(transaction=True)]


def test_end_of_a_job_reads_a_few_rows_of_its_step(mail: object) -> None:
    """Of several steps as of one; neither those of other work nor those that have ended."""
    plain_jobs(300)
    runs = [started(jobs("many", [*range(300)])) for _time in range(3)]
    plain_jobs(300)
    steps = [step_of(run, "many").pk for run in runs]
    for step in steps:
        ended = Job.objects.filter(part_of=step).order_by("pk").values_list("pk", flat=True)[:200]
        now = run_of(runs[0]).created_at
        Job.objects.filter(pk__in=[*ended]).update(status="succeeded", finished_at=now)
    analyze(Job, FlowStep)
    for some in (steps[:1], steps):
        before = index_reads() + other_reads()
        assert ends.concerned(some) == []
        assert index_reads() + other_reads() - before < 30
    Job.objects.filter(part_of=steps[1]).update(status="succeeded", finished_at=now)
    assert ends.concerned(steps) == [runs[1]]
