"""Short texts that people type of steps: `$list.photos` for a reference, `shop = $params.shop`
for a part of a context, `list.public = true` for a condition, `95 %` for how many must succeed.

Whoever reads a text raises ValueError(Message).
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from typing import Any

from apps.common.errors import PlatformError
from apps.common.json.text import parse_text
from apps.common.messages import Message
from apps.common.messages import Message as _
from apps.flows.rules.references import FROM, PATH, RESULTS, is_reference, path_fault
from apps.flows.rules.shapes import PERCENT

_WHAT = Message("The text")
_REFERENCE = re.compile(r"\$?([A-Za-z0-9_-]{1,64})(\..*|\[.*|)", re.DOTALL)
_HANDLE = re.compile(rf"{re.escape(RESULTS)}\s+([A-Za-z0-9_-]{{1,64}})")
_BETWEEN = re.compile(r"[\s,;，、；]+")
_LEAST = re.compile(r"(\d{1,5})\s*(%?)")


# --- references -----------------------------------------------------------------------------------
def reference_text(value: Mapping[str, Any]) -> str:
    """`$list.photos`, `$results resize`."""
    if RESULTS in value:
        return f"{RESULTS} {value[RESULTS]}"
    return f"${_place(value[FROM], value.get(PATH, ''))}"


def _place(name: str, path: str) -> str:
    return f"{name}{path}" if path[:1] in ("", "[") else f"{name}.{path}"


def _read_place(text: str) -> tuple[str, str]:
    """The name and the path of `list.photos`."""
    found = _REFERENCE.fullmatch(text.strip())
    if found is None:
        raise ValueError(
            _(
                "{text} leads to nothing; write a step and what of its result, such as "
                "list.photos, or params.shop.",
                text=text[:80],
            )
        )
    path = found[2].removeprefix(".")
    if fault := path_fault(path):
        raise ValueError(fault)
    return found[1], path


def read_reference(text: str) -> dict[str, str]:
    """The reference that the text stands for."""
    if handle := _HANDLE.fullmatch(text.strip()):
        return {RESULTS: handle[1]}
    name, path = _read_place(text)
    return {FROM: name, **({PATH: path} if path else {})}


# --- values ---------------------------------------------------------------------------------------
def value_text(value: Any) -> str:
    """JSON, a reference, or a text that is nothing else as it is."""
    if is_reference(value) and _has_text(value):
        return reference_text(value)
    if isinstance(value, str) and _is_plain(value):
        return value
    return json.dumps(value, ensure_ascii=False)


def _has_text(reference: Mapping[str, Any]) -> bool:
    """Whether it is read from its text as it is: one with a fault is not."""
    if not reference.keys() <= {FROM, PATH, RESULTS} or not {FROM, RESULTS} & reference.keys():
        return False
    if not all(isinstance(each, str) for each in reference.values()):
        return False
    try:
        return read_reference(reference_text(reference)) == reference
    except ValueError:
        return False


def _is_plain(text: str) -> bool:
    if not text or text != text.strip() or text[0] in '$"{[' or len(text.splitlines()) > 1:
        return False
    try:
        json.loads(text)
    except ValueError:
        return True
    return False


def read_value(text: str) -> Any:
    """The value of a text such as `Bern`, `800`, `"800"`, `$list.photos`."""
    text = text.strip()
    if text[:1] == "$":
        return read_reference(text)
    if text[:1] in ('"', "{", "["):
        return read_json(text)
    try:
        return read_json(text)
    except ValueError:
        return text


def read_json(text: str) -> Any:
    """The JSON value of the text."""
    try:
        return parse_text(text, what=_WHAT)
    except PlatformError as error:
        raise ValueError(error.detail) from error


# --- contexts -------------------------------------------------------------------------------------
def given_text(given: Mapping[str, Any]) -> str:
    """A line for each value, `shop = $params.shop`; JSON where lines cannot say it."""
    if all(_is_name(name) for name in given):
        return "\n".join(f"{name} = {value_text(value)}" for name, value in given.items())
    return json.dumps(given, ensure_ascii=False, indent=2)


def _is_name(name: str) -> bool:
    return name == name.strip() != "" and "=" not in name and name[0] != "{" and name.isprintable()


def read_given(text: str) -> dict[str, Any]:
    """The object that the lines, or the JSON, say."""
    if text.strip()[:1] == "{":
        return dict(read_json(text))
    found: dict[str, Any] = {}
    for line in filter(str.strip, text.splitlines()):
        name, equals, value = (part.strip() for part in line.partition("="))
        if not name or not equals or not value:
            message = _(
                "{line} is not name = value; write for example shop = $params.shop.",
                line=line[:80],
            )
            raise ValueError(message)
        if name in found:
            raise ValueError(_("{name} stands twice; leave one out.", name=name[:80]))
        found[name] = read_value(value)
    return found


# --- conditions, and what else is short -----------------------------------------------------------
def condition_text(condition: Mapping[str, Any]) -> str:
    """`list.public = true`."""
    place = _place(condition["step"], condition.get(PATH, ""))
    return f"{place} = {value_text(condition['equals'])}"


def read_condition(text: str) -> dict[str, Any]:
    """The `if` that the text says."""
    place, equals, value = text.partition("=")
    if not equals or not value.strip():
        message = _("{text} is no condition; write for example list.public = true.", text=text[:80])
        raise ValueError(message)
    name, path = _read_place(place)
    return {"step": name, **({PATH: path} if path else {}), "equals": _plain_value(value)}


def _plain_value(text: str) -> Any:
    """A value, which cannot be a reference."""
    text = text.strip()
    return text if text[:1] == "$" else read_value(text)


def each_text(each: Any) -> str:
    """`$list.photos`, or a list as JSON."""
    return value_text(each)


def read_each(text: str) -> Any:
    """The list, or the reference to one."""
    return read_json(text) if text.strip()[:1] == "[" else read_reference(text)


def needs_text(needs: Iterable[str]) -> str:
    """`list, resize`."""
    return ", ".join(needs)


def read_needs(text: str) -> list[str]:
    """The names, each once."""
    return [*dict.fromkeys(filter(None, _BETWEEN.split(text)))]


def least_text(step: Mapping[str, Any]) -> str:
    """`95 %`, `2`; "" for all."""
    if "at_least" not in step:
        return ""
    return f"{step['at_least']} %" if step.get("unit") == PERCENT else str(step["at_least"])


def read_least(text: str) -> dict[str, Any]:
    """The `at_least` and `unit` that the text says."""
    found = _LEAST.fullmatch(text.strip())
    if found is None:
        message = _("{text} is no number; write for example 2 or 95 %.", text=text[:40])
        raise ValueError(message)
    return {"at_least": int(found[1]), **({"unit": PERCENT} if found[2] else {})}
