"""Decides about steps that have not begun, by the states of the steps that they need.

A step begins when all its needs have ended. One that a failed need keeps from it stays blocked: so
nothing has to be undone when that need succeeds after all.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum, auto
from typing import NamedTuple

from apps.flows.rules.definition import Definition, Step
from apps.flows.rules.shapes import ALWAYS, SUCCESS

BLOCKED, ACTIVE = "blocked", "active"
SUCCEEDED, FAILED, SKIPPED, CANCELLED = "succeeded", "failed", "skipped", "cancelled"
STATES = (BLOCKED, ACTIVE, SUCCEEDED, FAILED, SKIPPED, CANCELLED)


class Stands(NamedTuple):
    """The state of a step, and whether an operator has brought it about."""

    state: str
    by_hand: bool = False


class Verdict(Enum):
    """Decide about a blocked step: to begin, to skip, to wait, or not reached."""

    START = auto()
    SKIP = auto()
    WAIT = auto()
    NEVER = auto()


class _End(Enum):
    """The meaning of a need to the steps after it. GONE was skipped by its condition, SOFT failed
    and is optional."""

    OPEN = auto()
    GOOD = auto()
    GONE = auto()
    SOFT = auto()
    BAD = auto()


_OF_VERDICT = {
    Verdict.START: _End.OPEN,
    Verdict.WAIT: _End.OPEN,
    Verdict.SKIP: _End.GONE,
    Verdict.NEVER: _End.BAD,
}


def verdicts(definition: Definition, stands: Mapping[str, Stands]) -> dict[str, Verdict]:
    """The verdict on each blocked step."""
    ends: dict[str, _End] = {}
    found: dict[str, Verdict] = {}
    for name, step in definition.steps.items():
        own = stands[name]
        if own.state == BLOCKED:
            found[name] = _verdict(step, {ends[need] for need in step.needs})
            ends[name] = _OF_VERDICT[found[name]]
        else:
            ends[name] = _end(step, own)
    return found


def _end(step: Step, own: Stands) -> _End:
    if own.state == ACTIVE:
        return _End.OPEN
    if own.state == SKIPPED:
        # An operator goes on without it.
        return _End.GOOD if own.by_hand else _End.GONE
    if own.state == SUCCEEDED:
        return _End.GOOD
    return _End.SOFT if step.is_optional and own.state == FAILED else _End.BAD


def _verdict(step: Step, needs: set[_End]) -> Verdict:
    if _End.OPEN in needs:
        return Verdict.WAIT
    if step.when == ALWAYS:
        return Verdict.START
    if step.when == SUCCESS:
        if _End.BAD in needs:
            return Verdict.NEVER
        return Verdict.SKIP if needs == {_End.GONE} else Verdict.START
    return Verdict.START if needs & {_End.BAD, _End.SOFT} else Verdict.SKIP


def has_failed(definition: Definition, stands: Mapping[str, Stands]) -> bool:
    """Whether a run whose steps stand so, and of which none can go on, has failed."""
    return any(
        own.state == FAILED and not definition.steps[name].is_optional
        for name, own in stands.items()
    )
