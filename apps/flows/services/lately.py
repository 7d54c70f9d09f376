"""The late past of flows: their open runs, the last one, how many of a week succeeded, and how long
the last ones took."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection
from datetime import datetime, timedelta
from statistics import median
from typing import NamedTuple

from django.db.models import Count, QuerySet

from apps.common.db import fetch_each, table
from apps.common.ids import lowest_id_at
from apps.flows.models import OPEN, FlowRun

SPAN = timedelta(days=7)
# Runs from before that are looked at, and those of them that say how long one takes.
_LOOKED_AT, LATEST = 30, 6


class Lately(NamedTuple):
    """`ended` are the runs of the week that succeeded or failed; `last` is the newest run that is
    within the rows that were asked about."""

    open: int = 0
    last: FlowRun | None = None
    succeeded: int = 0
    ended: int = 0


def lately_of(names: Collection[str], runs: QuerySet[FlowRun], now: datetime) -> dict[str, Lately]:
    """Read the late past of each flow, of these runs only, in four statements."""
    if not names:
        return {}
    own = runs.filter(flow__in=names).order_by()
    still_open = own.filter(status__in=OPEN).values_list("flow").annotate(Count("pk"))
    week = own.filter(pk__gte=lowest_id_at(now - SPAN), status__in=_ENDS)
    ends: dict[str, Counter[str]] = defaultdict(Counter)
    for flow, status, count in week.values_list("flow", "status").annotate(Count("pk")):
        ends[flow][status] = count
    last = {run.flow: run for run in _last(names, runs)}
    opened = dict(still_open)
    return {
        name: Lately(
            opened.get(name, 0),
            last.get(name),
            ends[name][FlowRun.Status.SUCCEEDED],
            ends[name].total(),
        )
        for name in names
    }


_ENDS = (FlowRun.Status.SUCCEEDED.value, FlowRun.Status.FAILED.value)


def _last(names: Collection[str], runs: QuerySet[FlowRun]) -> QuerySet[FlowRun]:
    one = f"SELECT id FROM {table(FlowRun)} WHERE flow = %s ORDER BY id DESC LIMIT 1"
    numbers = [number for (number,) in fetch_each((one, [name]) for name in names)]
    return runs.filter(pk__in=numbers).defer("definition", "params")


# --- how long runs take ---------------------------------------------------------------------------
class Usual(NamedTuple):
    """How long the last `runs` of a flow took that went well: the middle one."""

    runs: int
    lasted: timedelta


def usual(run: FlowRun) -> Usual | None:
    """How long a run of this flow takes; None for a definition of its own, and the first run."""
    if not run.flow:
        return None
    before = FlowRun.objects.filter(flow=run.flow, pk__lt=run.pk).order_by("-pk")
    rows = before.values_list("status", "created_at", "finished_at")[:_LOOKED_AT]
    took = [
        (finished_at - created_at).total_seconds()
        for status, created_at, finished_at in rows
        if status == FlowRun.Status.SUCCEEDED and finished_at is not None
    ][:LATEST]
    return Usual(len(took), timedelta(seconds=median(took))) if took else None
