"""The changes of a definition against an earlier one, in words."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from apps.common.json.diff import diff
from apps.common.json_rules import canonical, is_same
from apps.common.messages import Message
from apps.common.messages import Message as _
from apps.flows.rules import shapes
from apps.flows.rules.references import GIVEN

MAX_VALUE = 60
_KINDS = {
    shapes.JOB: _("one job"),
    shapes.JOBS: _("a job for each"),
    shapes.TASK: _("people"),
    shapes.WAIT: _("wait"),
}


def changes(old: Mapping[str, Any], new: Mapping[str, Any]) -> list[Message]:
    """A sentence for each difference: those of the params, then those of the steps in their order.
    Both are definitions without faults."""
    return [*_of_params(old.get("params"), new.get("params")), *_of_steps(old, new)]


def _of_params(old: Any, new: Any) -> Iterator[Message]:
    if old is None or new is None:
        if old is not None:
            yield _("Takes any params now.")
        elif new is not None:
            yield _("Checks the params now.")
        return
    for each in diff(old, new):
        yield _("Params: {change}", change=each)


def _of_steps(old: Mapping[str, Any], new: Mapping[str, Any]) -> Iterator[Message]:
    was = {step["name"]: step for step in old["steps"]}
    now = {step["name"]: step for step in new["steps"]}
    for name, step in now.items():
        if name not in was:
            yield _("Adds the step {step} ({kind}).", step=name, kind=_KINDS[step["kind"]])
        else:
            yield from _of_step(name, was[name], step)
    for name in was:
        if name not in now:
            yield _("Removes the step {step}.", step=name)
    if [name for name in was if name in now] != [name for name in now if name in was]:
        yield _("Puts the steps in another order.")


def _of_step(name: str, old: Mapping[str, Any], new: Mapping[str, Any]) -> Iterator[Message]:
    if old["kind"] != new["kind"]:
        yield _(
            "{field}: {old} becomes {new}.",
            field=name,
            old=_KINDS[old["kind"]],
            new=_KINDS[new["kind"]],
        )
        return
    for key in dict.fromkeys([*old, *new]):
        before, after = old.get(key), new.get(key)
        if key in old and key in new and is_same(before, after):
            continue
        field = _("{field}, {part}", field=name, part=key)
        if key in GIVEN:
            # What steps are given can be long, and secret.
            yield _("{field} is another one.", field=field)
        elif key not in old:
            yield _("{field}: now {new}.", field=field, new=_said(after))
        elif key not in new:
            yield _("{field}: no longer {old}.", field=field, old=_said(before))
        else:
            yield _(
                "{field}: {old} becomes {new}.", field=field, old=_said(before), new=_said(after)
            )


def _said(value: Any) -> str:
    text = value if isinstance(value, str) else canonical(value)
    return text if len(text) <= MAX_VALUE else f"{text[: MAX_VALUE - 1]}…"
