"""The changes of a definition against an earlier one, in words."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from decimal import Decimal
from typing import Any

from apps.common.durations import in_units
from apps.common.json.diff import diff
from apps.common.json_rules import canonical, is_same
from apps.common.messages import Message
from apps.common.messages import Message as _
from apps.flows.rules import shapes, texts

MAX_VALUE = 60
_GIVEN = ("context", "params")
_KINDS = {
    shapes.JOB: _("one job"),
    shapes.JOBS: _("a job for each"),
    shapes.TASK: _("people"),
    shapes.WAIT: _("wait"),
}
# The words of the form for what steps have.
_PARTS = {
    "type": _("job type"),
    "executor": _("who"),
    "quota": _("how many"),
    "each": _("for each of"),
    "max": _("at most"),
    "at_least": _("at least"),
    "needs": _("waits for"),
    "when": _("begins when"),
    "if": _("only if"),
    "within": _("time limit"),
    "seconds": _("how long"),
    "optional": _("may fail"),
    "title": _("title"),
    "template": _("template"),
}


def _duration(seconds: int) -> Message:
    return in_units(Decimal(seconds))


_SHOWN: Mapping[str, Callable[[Any], str]] = {
    "each": texts.each_text,
    "needs": texts.needs_text,
    "if": texts.condition_text,
    "within": _duration,
    "seconds": _duration,
}


WrittenStep = Mapping[str, Any]
Shown = Callable[[WrittenStep], WrittenStep]


def changes(old: Mapping[str, Any], new: Mapping[str, Any], *, shown: Shown) -> list[Message]:
    """A sentence for each difference: those of the params, then those of the steps in their order,
    each as it is `shown`. Both are definitions without faults."""
    return [*_of_params(old.get("params"), new.get("params")), *_of_steps(old, new, shown)]


def _of_params(old: Any, new: Any) -> Iterator[Message]:
    if old is None or new is None:
        if old is not None:
            yield _("Takes any params now.")
        elif new is not None:
            yield _("Checks the params now.")
        return
    for each in diff(old, new):
        yield _("Params: {change}", change=each)


def _of_steps(old: Mapping[str, Any], new: Mapping[str, Any], shown: Shown) -> Iterator[Message]:
    was = {step["name"]: step for step in old["steps"]}
    now = {step["name"]: step for step in new["steps"]}
    for name, step in now.items():
        if name not in was:
            yield _("Adds the step {step} ({kind}).", step=name, kind=_KINDS[step["kind"]])
        else:
            yield from _of_step(name, was[name], step, shown)
    for name in was:
        if name not in now:
            yield _("Removes the step {step}.", step=name)
    if [name for name in was if name in now] != [name for name in now if name in was]:
        yield _("Puts the steps in another order.")


def _of_step(name: str, old: WrittenStep, new: WrittenStep, shown: Shown) -> Iterator[Message]:
    if old["kind"] != new["kind"]:
        kinds = {"old": _KINDS[old["kind"]], "new": _KINDS[new["kind"]]}
        yield _("{field}: {old} becomes {new}.", field=name, **kinds)
        return
    was, now = shown(old), shown(new)
    for key in dict.fromkeys([*old, *new]):
        if key == "unit" or (key in old and key in new and _are_same(key, old, new)):
            continue
        field = _("{field}, {part}", field=name, part=_PARTS.get(key, key))
        if key in _GIVEN:
            # It can be long, and secret.
            yield _("{step} is given something else.", step=name)
        elif key not in old:
            yield _("{field}: now {new}.", field=field, new=_value_text(key, now))
        elif key not in new:
            yield _("{field}: no longer {old}.", field=field, old=_value_text(key, was))
        else:
            before, after = _value_text(key, was), _value_text(key, now)
            yield _("{field}: {old} becomes {new}.", field=field, old=before, new=after)


def _are_same(key: str, old: Mapping[str, Any], new: Mapping[str, Any]) -> bool:
    if key == "at_least":
        return texts.least_text(old) == texts.least_text(new)
    return is_same(old[key], new[key])


def _value_text(key: str, step: Mapping[str, Any]) -> str:
    value = step[key]
    if key == "at_least":
        return texts.least_text(step)
    if value is not None and key in _SHOWN:
        text = _SHOWN[key](value)
    else:
        text = value if isinstance(value, str) else canonical(value)
    return text if len(text) <= MAX_VALUE else f"{text[: MAX_VALUE - 1]}…"
