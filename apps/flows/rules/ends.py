"""How a step ends by what became of its jobs or of what was handed out, and its result."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from apps.common.json_rules import MAX_BYTES, canonical
from apps.common.messages import Message
from apps.common.messages import Message as _
from apps.flows.rules.definition import Step
from apps.flows.rules.joins import CANCELLED, FAILED, SUCCEEDED
from apps.flows.rules.shapes import JOB

TOO_LARGE = _("Its results fill more than 256 KB, so it keeps none.")

TOO_FEW = _("{good} of {made} jobs succeeded; it needs {enough}.")
TOO_FEW_PEOPLE = _("{good} of {made} people succeeded; it needs {enough}.")

# How the jobs of a step may have ended.
COUNTED = (SUCCEEDED, FAILED, CANCELLED)


class End(NamedTuple):
    """The state of a step after it, its result, and why it failed."""

    state: str
    result: Any = None
    memo: str = ""


def of_jobs(step: Step, counts: Mapping[str, int], made: int, results: Sequence[Any]) -> End:
    """Decide the end of a step for jobs, `made` in all and so many by status; `results` are in
    their order, if the step keeps them."""
    good = counts.get(SUCCEEDED, 0)
    enough = step.enough(made)
    if step.kind == JOB:
        result: Any = results[0] if results else None
    else:
        counted = {name: counts.get(name, 0) for name in COUNTED}
        result = {"count": made, **counted}
        if step.keeps_results:
            result["results"] = [*results]
    if good < enough:
        memo = Message(TOO_FEW, good=good, made=made, enough=enough)
        return _kept(FAILED, result if step.kind != JOB else None, memo)
    return _kept(SUCCEEDED, result)


def of_task(step: Step, results: Sequence[Any], quota: int | None) -> End:
    """Decide the end of a step for people; these results came with success."""
    good, total = len(results), quota if quota is not None else len(results)
    enough = step.enough(total)
    if good < enough:
        memo = Message(TOO_FEW_PEOPLE, good=good, made=total, enough=enough)
        return _kept(FAILED, [*results], memo)
    return _kept(SUCCEEDED, [*results])


def _kept(state: str, result: Any, memo: str = "") -> End:
    """The end with a result that can be stored."""
    if len(canonical(result)) <= MAX_BYTES // 4 or len(canonical(result).encode()) <= MAX_BYTES:
        return End(state, result, memo)
    if isinstance(result, dict) and "results" in result:
        return End(state, {n: v for n, v in result.items() if n != "results"}, memo or TOO_LARGE)
    return End(state, None, memo or TOO_LARGE)
