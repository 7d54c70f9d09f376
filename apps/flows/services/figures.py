"""Figures on runs for watches: steps that are long active, runs that failed, and counts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from datetime import datetime
from typing import Any, NamedTuple

from apps.common.db import fetch, fetch_each, force_index, instant, placeholders, table
from apps.common.masking import redact
from apps.common.messages import Message, recognised
from apps.flows.models import OPEN, FlowRun, FlowStep
from apps.flows.rules import joins
from apps.flows.services.advance import MEMOS

_FAILED = FlowRun.Status.FAILED.value


class LongActive(NamedTuple):
    """The step of a run that has been active for longest."""

    run: int
    flow: str
    step: str
    since: datetime


class FailedRun(NamedTuple):
    """A failed run, with the first step by which it failed and why."""

    run: int
    flow: str
    at: datetime
    step: str
    memo: Message


def long_active(limit: int) -> list[LongActive]:
    """Read the steps that have been active for longest, at most `limit`, one of each run."""
    rows = fetch(
        f"SELECT s.run_id, r.flow, s.name, s.started_at "
        f"FROM {table(FlowStep)} s{force_index('flow_step_active')} "
        f"JOIN {table(FlowRun)} r ON r.id = s.run_id WHERE s.state = %s "
        f"ORDER BY s.started_at LIMIT {limit:d}",
        [joins.ACTIVE],
    )
    found: dict[int, LongActive] = {}
    for run, flow, step, since in rows:
        found.setdefault(run, LongActive(run, flow, step, instant(since)))
    return [*found.values()]


def failed_since(since: datetime, limit: int) -> list[FailedRun]:
    """The runs that failed since then and have not been tried again, the newest first."""
    runs = fetch(
        f"SELECT id, flow, finished_at FROM {table(FlowRun)}{force_index('flow_run_ended')} "
        f"WHERE status = %s AND finished_at >= %s ORDER BY finished_at DESC LIMIT {limit:d}",
        [_FAILED, since],
    )
    numbers = [run for run, *_rest in runs]
    steps: dict[int, tuple[str, Message]] = {}
    if numbers:
        failed = fetch(
            f"SELECT run_id, name, memo FROM {table(FlowStep)} "
            f"WHERE run_id IN ({placeholders(len(numbers))}) AND state = %s ORDER BY ended_at, id",
            [*numbers, joins.FAILED],
        )
        may_fail = _that_may_fail(failed)
        for run, name, memo in failed:
            if (run, name) not in may_fail:
                steps.setdefault(run, (name, _memo_text(memo)))
    nothing = "", Message("")
    return [FailedRun(run, flow, instant(at), *steps.get(run, nothing)) for run, flow, at in runs]


def _that_may_fail(failed: Sequence[Sequence[Any]]) -> set[tuple[int, str]]:
    """The run and name of the optional ones among these failed steps. Definitions are long: only
    those of runs with several are read."""
    several = [run for run, count in Counter(run for run, *_rest in failed).items() if count > 1]
    definitions = FlowRun.objects.filter(pk__in=several).values_list("pk", "definition")
    return {
        (run, said["name"])
        for run, definition in (definitions if several else ())
        for said in definition["steps"]
        if said.get("optional")
    }


def _memo_text(memo: str) -> Message:
    """The memo as it was said, secrets masked."""
    masked = str(redact(memo))
    found = (recognised(masked, template) for template in MEMOS)
    return next((each for each in found if each is not None), Message(masked))


def counts(failed_since: datetime, limit: int) -> dict[str, int]:
    """The open runs by status, and those that failed since then; each counted up to a limit."""
    of_status = f"SELECT id FROM {table(FlowRun)} WHERE status = %s"
    wanted: dict[str, tuple[str, list[Any]]] = {status: (of_status, [status]) for status in OPEN}
    wanted[_FAILED] = (f"{of_status} AND finished_at >= %s", [_FAILED, failed_since])
    parts = (
        (f"SELECT '{status}', COUNT(*) FROM ({rows} LIMIT {limit:d}) some", values)
        for status, (rows, values) in wanted.items()
    )
    return {status: int(count) for status, count in fetch_each(parts)}
