"""Secrets in what steps are given: hidden, and put back by the name of the step."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from apps.common.masking import merge, redact
from apps.flows.rules.references import GIVEN


def masked(definition: Any) -> Any:
    """The definition with masks for secrets."""
    return _with_steps(definition, lambda step: {**step, **_masked(step)})


def _masked(step: Mapping[str, Any]) -> dict[str, Any]:
    return {key: redact(step[key]) for key in GIVEN if key in step}


def unmasked(edited: Any, stored: Any) -> Any:
    """The edited definition with the secrets of the stored one where their masks were left, also
    of steps that were moved; Invalid where one is left over."""
    steps = stored.get("steps", ()) if isinstance(stored, Mapping) else ()
    known = {str(step.get("name")): step for step in steps if isinstance(step, Mapping)}
    return _with_steps(edited, lambda step: _merged(step, known.get(str(step.get("name")), {})))


def _merged(step: Mapping[str, Any], stored: Mapping[str, Any]) -> dict[str, Any]:
    field = f"steps.{step.get('name')}"
    merged = {
        key: merge(step[key], stored.get(key), field=f"{field}.{key}")
        for key in GIVEN
        if key in step
    }
    return {**step, **merged}


def _with_steps(definition: Any, change: Any) -> Any:
    if not isinstance(definition, Mapping) or not isinstance(definition.get("steps"), list):
        return definition
    steps = [change(step) if isinstance(step, Mapping) else step for step in definition["steps"]]
    return {**definition, "steps": steps}
