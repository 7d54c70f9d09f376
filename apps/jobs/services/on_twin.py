"""Changes the waiting job whose key a submission has: replaces it, or moves it to a later time. One
that runs or has ended is left alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, NamedTuple

from apps.common.messages import Message
from apps.jobs.models import Job
from apps.jobs.rules import reasons
from apps.jobs.rules.submission import LATER, MOVED, REPLACE, REPLACED, Submission
from apps.jobs.rules.transitions import WAITING
from apps.jobs.services.action_effects import edited
from apps.jobs.services.move import Move, entry_of, move

# Who did it, where the platform's own code submits.
CODE = "code"


class TwinChange(NamedTuple):
    """A submission with the job that has its key, and what its type makes of it."""

    twin: int
    job: Submission
    stage: str
    priority: int
    run_at: datetime


def change_twins(
    wanted: Sequence[TwinChange], now: datetime, by: str
) -> Mapping[int, tuple[str, str]]:
    """Do what they wish, in their order, to those of the jobs that wait.

    Returns of these the state and what was done to it, by number. In one statement for all that
    change alike, beside the lock and the journal.
    """
    numbers = {wish.twin for wish in wanted}
    waiting = Job.objects.select_for_update().filter(pk__in=numbers, status__in=WAITING)
    twins = {job.pk: job for job in waiting.order_by("pk")}
    changes: dict[int, dict[str, Any]] = {}
    done: dict[int, tuple[str, Message]] = {}
    stages: dict[int, str] = {}
    for wish in wanted:
        if (twin := twins.get(wish.twin)) is None:
            continue
        so_far = changes.setdefault(wish.twin, {})
        due = so_far.get("run_at", twin.run_at)
        if wish.job.on_twin == REPLACE:
            so_far |= {"context": wish.job.context, "priority": wish.priority}
            stages[wish.twin] = wish.stage
            # One that is due keeps its place unless another time is asked for.
            if due > now or wish.run_at > now:
                so_far["run_at"] = wish.run_at
            done[wish.twin] = REPLACED, reasons.REPLACED
        elif wish.job.on_twin == LATER and wish.run_at > max(due, now):
            so_far["run_at"] = wish.run_at
            done.setdefault(wish.twin, (MOVED, reasons.MOVED))
    moves: list[Move] = []
    for number, (_word, reason) in done.items():
        twin = twins[number]
        if effect := edited(twin, now, changes[number]):
            if "context" in effect.changes:
                effect = effect._replace(changes={**effect.changes, **_anew(stages[number])})
            status = effect.changes.get("status", twin.status)
            facts = {"actor": by or CODE, "reason": reason, **effect.facts}
            entry = entry_of(twin, effect.event, status, now, **facts)
            moves.append((effect.arrow, twin, effect.changes, entry))
    written = move(moves)
    return {
        number: (written.get(number, {}).get("status", twins[number].status), word)
        for number, (word, _reason) in done.items()
    }


def _anew(stage: str) -> dict[str, Any]:
    """The columns of a job whose earlier tries were about another context."""
    return {"stage": stage, "attempts": 0, "checkpoint": None, "sequence": 0, "progress": None}
