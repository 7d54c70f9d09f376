"""Forgetting runs: some time after their end they go, with their steps."""

from __future__ import annotations

from datetime import datetime

from apps.common import ids, tidy
from apps.flows.conf import conf
from apps.flows.models import OPEN, FlowRun


def forget_runs(now: datetime) -> int:
    """Remove the oldest runs that ended FLOW_RUNS_KEPT ago or earlier; returns how many."""
    before = now - conf.FLOW_RUNS_KEPT
    # Ids hold the time of creation; what began later has not ended earlier.
    over = FlowRun.objects.filter(pk__lt=ids.lowest_id_at(before), finished_at__lt=before)
    return tidy.remove(over.exclude(status__in=OPEN).order_by("pk"))
