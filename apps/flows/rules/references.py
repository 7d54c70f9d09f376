"""References in what steps are given: `{"$from": "list", "path": "photos[0]"}` stands for the
params of the run or the result of another step, `{"$results": "resize"}` for a handle by which a
job reads the results of its jobs page by page.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from apps.common.errors import FieldError
from apps.common.json.path import read_path, value_at
from apps.common.messages import Message as _

PARAMS = "params"
FROM, RESULTS, PATH = "$from", "$results", "path"
# Where a step may have references.
GIVEN = ("context", "each", "params")


class Reference(NamedTuple):
    """Where it stands, and the name that it says."""

    field: str
    name: str
    is_handle: bool


class Missing(Exception):
    """A reference leads to nothing; the message says which."""

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message


def is_reference(value: object) -> bool:
    """Whether the value stands for another one."""
    return isinstance(value, dict) and any(str(key).startswith("$") for key in value)


def references(value: object, field: str) -> Iterator[Reference]:
    """Yield the references in the value, which `faults` found no fault with."""
    for where, each in _found(value, field):
        is_handle = RESULTS in each
        yield Reference(where, each[RESULTS if is_handle else FROM], is_handle)


def faults(value: object, field: str) -> Iterator[FieldError]:
    """Find what is wrong with the shape of references in the value."""
    for where, each in _found(value, field):
        if each.keys() == {RESULTS} and isinstance(each[RESULTS], str):
            continue
        if not {FROM} <= each.keys() <= {FROM, PATH} or not isinstance(each[FROM], str):
            message = _(
                "A key with $ makes it a reference; write {from_} with a path or without, or "
                "{results}.",
                from_='{"$from": "step"}',
                results='{"$results": "step"}',
            )
            yield FieldError(where, "invalid", message)
        elif fault := path_fault(each.get(PATH, "")):
            yield FieldError(f"{where}.{PATH}", "invalid", fault)


def path_fault(path: object) -> str:
    """Say what is wrong with a path; "" for nothing."""
    if not isinstance(path, str):
        return _("A path is text; write for example order.items[0].sku.")
    try:
        read_path(path)
    except ValueError as error:
        return error.args[0]  # type: ignore[no-any-return]
    return ""


def _found(value: object, field: str) -> Iterator[tuple[str, dict[str, Any]]]:
    if isinstance(value, dict):
        if is_reference(value):
            yield field, value
            return
        for key, each in value.items():
            yield from _found(each, f"{field}.{key}")
    elif isinstance(value, list):
        for position, each in enumerate(value):
            yield from _found(each, f"{field}[{position}]")


def resolved(value: Any, results: Mapping[str, Any], handles: Mapping[str, Any]) -> Any:
    """The value with everything in the place of its references; Missing when one leads to nothing.

    `results` are those of steps by name, and the params. One that has none, such as a step that was
    skipped or has failed, is null whatever the path.
    """
    if is_reference(value):
        if RESULTS in value:
            return handles[value[RESULTS]]
        return looked_up(results, value[FROM], value.get(PATH, ""))
    if isinstance(value, dict):
        return {key: resolved(each, results, handles) for key, each in value.items()}
    if isinstance(value, list):
        return [resolved(each, results, handles) for each in value]
    return value


def looked_up(results: Mapping[str, Any], name: str, path: str) -> Any:
    """The value at the path of what is known by the name; Missing for nothing."""
    whole = results[name]
    if whole is None:
        return None
    try:
        return value_at(whole, read_path(path))
    except LookupError as error:
        message = _("{name} has nothing at {path}.", name=name, path=path)
        raise Missing(message) from error


def holds(condition: Mapping[str, Any], results: Mapping[str, Any]) -> bool:
    """Whether what a step's `if` names is equal to what it wants; what is not there never is."""
    try:
        found = looked_up(results, condition["step"], condition.get(PATH, ""))
    except Missing:
        return False
    wanted = condition["equals"]
    if isinstance(found, bool) or isinstance(wanted, bool):
        return found is wanted
    return bool(found == wanted)
