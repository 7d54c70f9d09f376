"""What the ends of jobs and hand-outs mean to the steps that they are part of."""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime

from apps.common import clock
from apps.common.db import fetch, placeholders, repeatable, table
from apps.flows.models import FlowStep
from apps.flows.rules import joins
from apps.flows.services import programs

# Runs that one sweep looks at.
MAX_DUE = 500


def concerned(parts: Collection[int]) -> list[int]:
    """The runs that may go on now that something has ended, or left its end, that was part of these
    steps. Whoever commits last sees no open job, because it looks after its own commit."""
    rows = fetch(
        f"SELECT id, run_id, first, last, state FROM {table(FlowStep)} "
        f"WHERE id IN ({placeholders(len(parts))})",
        [*parts],
    )
    return sorted(
        {
            run
            for step, run, first, last, state in rows
            if state == joins.FAILED
            or (state == joins.ACTIVE and not programs.is_open(first, last, step))
        }
    )


def needed(parts: Collection[int]) -> set[int]:
    """Those of the steps whose jobs are not to be forgotten: they are active, or failed lately."""
    rows = FlowStep.objects.filter(pk__in=parts, look_at__isnull=False)
    return {*rows.values_list("pk", flat=True)}


def due(now: datetime) -> list[int]:
    """The runs with a step that is to be looked at."""
    rows = fetch(
        f"SELECT DISTINCT run_id FROM {table(FlowStep)} WHERE look_at <= %s LIMIT {MAX_DUE}", [now]
    )
    return [run for (run,) in rows]


@repeatable
def look_at(run: int, at: datetime | None = None) -> None:
    """Have the steps of the run that are looked at looked at then; now at the latest."""
    at = at or clock.now()
    FlowStep.objects.filter(run=run, look_at__isnull=False).update(look_at=at)
