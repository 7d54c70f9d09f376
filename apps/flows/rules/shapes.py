"""The shape of each kind of step as JSON Schema: checks read it, and so does OpenAPI."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

JOB, JOBS, TASK, WAIT = "job", "jobs", "task", "wait"
KINDS = (JOB, JOBS, TASK, WAIT)
SUCCESS, FAILURE, ALWAYS = "success", "failure", "always"
COUNT, PERCENT = "count", "percent"

MAX_STEPS = 100
# Jobs of one step and of one run.
MAX_ITEMS = 10_000
MAX_JOBS = 100_000
# A step declared with no more keeps the results of its jobs.
MAX_KEPT = 100
MAX_SECONDS = 366 * 86_400
MAX_TITLE = 200
NAME = r"^[A-Za-z0-9_-]{1,64}$"

_TEXT = {"type": "string"}
_SECONDS = {"type": "integer", "minimum": 1, "maximum": MAX_SECONDS}
_AT_LEAST = {
    "at_least": {"type": "integer", "minimum": 1, "maximum": MAX_ITEMS},
    "unit": {"enum": [COUNT, PERCENT]},
}
_COMMON = {
    "name": {"type": "string", "pattern": NAME},
    "title": {"type": "string", "minLength": 1, "maxLength": MAX_TITLE},
    "needs": {"type": "array", "items": _TEXT, "maxItems": MAX_STEPS},
    "when": {"enum": [SUCCESS, FAILURE, ALWAYS]},
    "if": {
        "type": "object",
        "properties": {"step": _TEXT, "path": _TEXT, "equals": {}},
        "required": ["step", "equals"],
        "additionalProperties": False,
    },
    "optional": {"type": "boolean"},
    "within": _SECONDS,
}


def _step(kind: str, needed: list[str], **own: Any) -> Mapping[str, Any]:
    return {
        "type": "object",
        "properties": {"kind": {"const": kind}, **_COMMON, **own},
        "required": ["name", "kind", *needed],
        "additionalProperties": False,
    }


STEPS: Mapping[str, Mapping[str, Any]] = {
    JOB: _step(JOB, ["type"], type=_TEXT, context={"type": "object"}),
    JOBS: _step(
        JOBS,
        ["type", "each"],
        type=_TEXT,
        each={"type": ["array", "object"], "maxItems": MAX_ITEMS},
        context={"type": "object"},
        max={"type": "integer", "minimum": 1, "maximum": MAX_ITEMS},
        **_AT_LEAST,
    ),
    TASK: _step(
        TASK,
        ["executor"],
        executor=_TEXT,
        mode={"enum": ["single", "multi", "blocking"]},
        quota={"type": ["integer", "null"], "minimum": 1, "maximum": MAX_ITEMS},
        template=_TEXT,
        params={"type": "object"},
        priority={"type": "integer"},
        lease_seconds={"type": "integer"},
        on_failure={"enum": ["finish", "give_back", "retry_same"]},
        on_expiry={"enum": ["give_back", "keep"]},
        max_rounds={"type": "integer"},
        **_AT_LEAST,
    ),
    WAIT: _step(WAIT, [], seconds=_SECONDS),
}

DEFINITION: Mapping[str, Any] = {
    "type": "object",
    "properties": {
        "params": {"type": "object"},
        "steps": {
            "type": "array",
            "minItems": 1,
            "maxItems": MAX_STEPS,
            "items": {"oneOf": [*STEPS.values()]},
        },
    },
    "required": ["steps"],
    "additionalProperties": False,
}
