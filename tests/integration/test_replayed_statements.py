"""The baselines of the benchmark: statements that were recorded and do the same work again."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.core.management.base import CommandError

from apps.common import clock
from apps.common.db import execute, table
from apps.jobs.models import Job
from apps.jobs.services.submit import submit
from tests.benchmark import backlog
from tests.benchmark.statements import record, replay

pytestmark = [pytest.mark.both, pytest.mark.django_db]


def written(moment: object) -> str:
    return str(moment).removesuffix("+00:00")


def touch(pk: int, *, ahead: timedelta) -> None:
    """Move a job that has fallen due."""
    now = clock.now()
    execute(
        f"UPDATE {table(Job)} SET expected_at = %s, run_at = %s WHERE id = %s AND run_at <= %s",
        [written(now), written(now + ahead), pk, written(now)],
    )


class TestReplay:
    def test_times_move_on_with_the_clock(self) -> None:
        """Otherwise what falls due after the recording would be left alone."""
        backlog.ensure_types()
        first, second = submit("noop", {}), submit("noop", {})
        hour = timedelta(hours=1)
        recorded = record(lambda: touch(first.id, ahead=hour))
        Job.objects.filter(pk=second.id).update(run_at=clock.now())
        before = clock.now()

        replay([each.naming({first.id: "job"}) for each in recorded], {"job": second.id})

        moved = Job.objects.get(pk=second.id)
        assert before <= moved.expected_at <= clock.now()
        assert moved.run_at - moved.expected_at == pytest.approx(hour, abs=timedelta(seconds=5))

    def test_baseline_that_changes_other_rows_is_refused(self) -> None:
        backlog.ensure_types()
        job = submit("noop", {})
        recorded = record(lambda: touch(job.id, ahead=timedelta(hours=1)))

        with pytest.raises(CommandError, match="changed 0 rows where 1 were changed by UPDATE"):
            replay(recorded, {})
