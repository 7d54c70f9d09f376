"""The run of `demo --workers`: how much work it is, and what it says while it waits."""

from __future__ import annotations

import pytest
from django.core.management import load_command_class

from apps.jobs.models import Job
from apps.jobs.rules import transitions as t
from taskplatform.demo.workers import WorkerRun
from taskplatform.management.commands.demo import WORKER_JOBS
from tests.frozen import FrozenClock

pytestmark = pytest.mark.django_db


def test_run_has_as_many_jobs_as_the_help_says(frozen_clock: FrozenClock) -> None:
    run = WorkerRun("http://nowhere", 2, 100)

    assert (run.total, Job.objects.count()) == (100, 100)
    helped = load_command_class("taskplatform", "demo").create_parser("", "demo").format_help()
    assert f"{WORKER_JOBS:,} jobs" in " ".join(helped.split())


def test_line_says_when_only_leases_of_the_killed_worker_are_left(
    frozen_clock: FrozenClock,
) -> None:
    run = WorkerRun("http://nowhere", 12, 10)
    run.killed = f"{run.trace_id}-12"
    first, second, *others = Job.objects.values_list("pk", flat=True)
    Job.objects.filter(pk__in=others).update(status=t.SUCCEEDED)
    Job.objects.filter(pk=first).update(status=t.RUNNING, worker=run.killed)

    assert run.look()[0].endswith("worker 12 was killed")
    Job.objects.filter(pk=second).update(status=t.SUCCEEDED)
    assert run.look()[0].endswith("waits for leases of killed worker 12")
