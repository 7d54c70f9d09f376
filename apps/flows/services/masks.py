"""Secrets in what steps are given and ask for: hidden, put back by the name of the step, and not
moved to a name under which they would be shown."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from apps.common.errors import FieldError, Invalid
from apps.common.json.path import read_path
from apps.common.json_rules import is_same
from apps.common.masking import is_secret, merge, redact
from apps.common.masking.edits import MAX_ERRORS
from apps.common.messages import Message, joined
from apps.common.messages import Message as _
from apps.flows.rules.definition import Definition
from apps.flows.rules.references import GIVEN, PATH, is_reference

IF, EQUALS = "if", "equals"
_MOVED = _(
    "What is at {path} is masked, and would be shown here; give it under the name of a secret, "
    "such as token."
)


def masked(definition: Any) -> Any:
    """The definition with masks for secrets."""
    return _with_steps(definition, masked_step)


def masked_step(step: Mapping[str, Any]) -> dict[str, Any]:
    """The step with masks for secrets."""
    shown = {key: redact(step[key]) for key in GIVEN if key in step}
    return {**step, **shown, **_masked_condition(step)}


def without_secrets(definition: Definition) -> Definition:
    """The definition as it is drawn: what its conditions ask for is masked, and what steps are
    given is as it was, because ways come from it."""
    return Definition(
        _with_steps(definition.said, lambda step: {**step, **_masked_condition(step)})
    )


def unmasked(edited: Any, stored: Any, *, field: str = "") -> Any:
    """The edited definition with the secrets of the stored one where their masks were left, also
    of steps that were moved; Invalid, below `field`, where one is left over."""
    steps = stored.get("steps", ()) if isinstance(stored, Mapping) else ()
    known = {str(step.get("name")): step for step in steps if isinstance(step, Mapping)}
    at = f"{field}.steps" if field else "steps"
    return _with_steps(edited, lambda step: _merged(step, known.get(str(step.get("name")), {}), at))


def unmasked_value(key: str, value: Any, stored: Mapping[str, Any], *, field: str = "") -> Any:
    """What the step has under the key, with the secrets of the stored step where their masks were
    left; Invalid where one is left over, and where a new reference would show a secret."""
    if key in GIVEN and (moved := [*_moved(value, stored.get(key), field)]):
        raise Invalid(joined(each.named for each in moved[:3]), errors=moved[:MAX_ERRORS])
    if key != IF or not _is_condition(value):
        return merge(value, stored.get(key), field=field)
    before: Any = stored.get(IF)
    if not _is_condition(before) or _place(value) != _place(before):
        before = None
    elif is_same(value[EQUALS], _masked_condition(stored)[IF][EQUALS]):
        return {**value, EQUALS: before[EQUALS]}
    nested = merge(_nested(value), before and _nested(before), field=field)
    return {**value, EQUALS: _innermost(value, nested)}


def _merged(step: Mapping[str, Any], stored: Mapping[str, Any], at: str) -> dict[str, Any]:
    field = f"{at}.{step.get('name')}"
    return {
        key: unmasked_value(key, value, stored, field=f"{field}.{key}")
        for key, value in step.items()
    }


def _moved(value: Any, stored: Any, at: str) -> Iterator[FieldError]:
    """The references to what is masked that stand under no name of a secret, and are new."""
    if is_reference(value):
        if not is_same(value, stored) and any(map(is_secret, _names(value))):
            yield FieldError(at, Invalid.code, Message(_MOVED.template, path=value[PATH]))
    elif isinstance(value, dict):
        for key, each in value.items():
            if not is_secret(key):
                before = stored.get(key) if isinstance(stored, dict) else None
                yield from _moved(each, before, f"{at}.{redact(key)}".removeprefix("."))
    elif isinstance(value, list):
        for position, each in enumerate(value):
            is_there = isinstance(stored, list) and position < len(stored)
            yield from _moved(each, stored[position] if is_there else None, f"{at}[{position}]")


# --- conditions -----------------------------------------------------------------------------------
def _masked_condition(step: Mapping[str, Any]) -> dict[str, Any]:
    """The `if` of the step, if it has one, with a mask for what it compares a secret with."""
    condition: Any = step.get(IF)
    if not _is_condition(condition):
        return {}
    return {IF: {**condition, EQUALS: _innermost(condition, redact(_nested(condition)))}}


def _is_condition(condition: Any) -> bool:
    return isinstance(condition, Mapping) and EQUALS in condition


def _place(condition: Mapping[str, Any]) -> tuple[Any, Any]:
    return condition.get("step"), condition.get(PATH, "")


def _names(condition: Mapping[str, Any]) -> list[str]:
    """The names on the path of the condition, or of a reference; none when it has a fault."""
    try:
        return [part for part in read_path(condition.get(PATH, "")) if isinstance(part, str)]
    except (TypeError, ValueError):
        return []


def _nested(condition: Mapping[str, Any]) -> Any:
    """What the condition asks for, below the names of its path: these say whether it is secret."""
    value = condition[EQUALS]
    for name in reversed(_names(condition)):
        value = {name: value}
    return value


def _innermost(condition: Mapping[str, Any], nested: Any) -> Any:
    """What stands below the names of the path; what stands in place of one of them is a mask."""
    for _name in _names(condition):
        if not isinstance(nested, dict):
            break
        [nested] = nested.values()
    return nested


def _with_steps(definition: Any, change: Callable[[Mapping[str, Any]], Any]) -> Any:
    if not isinstance(definition, Mapping) or not isinstance(definition.get("steps"), list):
        return definition
    steps = [change(step) if isinstance(step, Mapping) else step for step in definition["steps"]]
    return {**definition, "steps": steps}
