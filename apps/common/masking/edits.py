"""Edits by those who see masks: where one was left, the stored secret stays."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

from apps.common.errors import FieldError, Invalid
from apps.common.json_rules import is_same
from apps.common.masking import names
from apps.common.masking.kept import Kept
from apps.common.masking.patterns import MASK
from apps.common.masking.redaction import is_value_of, redact
from apps.common.messages import Message, joined
from apps.common.messages import Message as _

_ABSENT = object()
# Places that a refusal names, and the letters of an address.
MAX_ERRORS = 20
_MAX_SHOWN = 80

_NEW = _("{mask} stands for a secret only at the place where it was shown; write the value.")
_TEXT = _(
    "{mask} stands for a secret only in a text that is as it was shown; leave all of it, or write "
    "all of it."
)
_ELEMENT = _(
    "{mask} stands for a secret in a list only while the length of the list and this element are "
    "as they were shown; write the value."
)
_ADDRESS = _(
    "{mask} would be sent to {address}, which was not there before; write the value of the secret, "
    "too."
)
_BARED = _(
    "What {mask} stands for is a secret by what stands before it, and would be shown behind what "
    "is there now; write the value."
)
# The begin of an address, up to its path; who signs in there says nothing of where that is.
_BEGIN = re.compile(r"([a-z][a-z0-9+.-]*://)(?:[^\s/?#\"'<>@]*@)?([^\s/?#\"'<>@]+)", re.IGNORECASE)


def kept(stored: Any) -> Any:
    """The stored object, all of whose secrets stay as they are."""
    shown = redact(stored)
    return Kept(stored, shown) if isinstance(stored, dict) and shown != stored else stored


def merge(edited: Any, stored: Any, *, field: str = "") -> Any:
    """The edited JSON value with the secrets of the stored one where their masks were left.

    A mask stands for what is stored at the same path; in lists of the same length, in an element
    that is otherwise unchanged; in a text, if all of it is as it was shown. None does beside an
    address of another host, which would get the secret. Invalid names the first places, below
    `field`, where one is left over.
    """
    if not _has_mask(edited):
        return edited
    left: list[FieldError] = []
    merged: Any = None
    with suppress(_Enough):
        shown = redact(stored)
        merged = _merged(edited, stored, shown, field, left)
        if not left and (new := _hosts(edited) - _hosts(shown)):
            for place in _masks(edited, field):
                _leave(left, place.removeprefix("."), _ADDRESS, address=min(new)[:_MAX_SHOWN])
    _require_none(left)
    require_hidden(merged, edited, field=field)
    return Kept(merged, edited) if isinstance(merged, dict) else merged


def require_hidden(value: Any, shown: Any, *, field: str) -> None:
    """Invalid names the first places where `shown` has masks, and the value would show what they
    stand for: before it stands something else now."""
    left: list[FieldError] = []
    with suppress(_Enough):
        for place in _bared(shown, redact(value), field):
            _leave(left, place, _BARED)
    _require_none(left)


def _require_none(left: list[FieldError]) -> None:
    if left:
        raise Invalid(joined(each.named for each in left[:3]), errors=left)


def _has_mask(value: Any) -> bool:
    if isinstance(value, dict):
        return any(MASK in key for key in value) or any(map(_has_mask, value.values()))
    if isinstance(value, list):
        return any(map(_has_mask, value))
    return isinstance(value, str) and MASK in value


def _merged(edited: Any, stored: Any, shown: Any, path: str, left: list[FieldError]) -> Any:
    if isinstance(edited, dict):
        return _object(edited, stored, shown, path, left)
    if isinstance(edited, list):
        return _list(edited, stored, shown, path, left)
    if not isinstance(edited, str) or MASK not in edited:
        return edited
    if edited == shown:
        return stored
    _leave(left, path, _TEXT if isinstance(shown, str) and shown != MASK else _NEW)
    return edited


def _object(
    edited: dict[str, Any], stored: Any, shown: Any, path: str, left: list[FieldError]
) -> dict[str, Any]:
    # A value that is masked as a whole has no parts for those who edit it.
    keys = dict(zip(shown, stored, strict=True)) if isinstance(shown, dict) else {}
    merged = {}
    for key, value in edited.items():
        named = str(redact(key))
        below = f"{path}.{named}" if path else named
        if key in keys:
            merged[keys[key]] = _merged(value, stored[keys[key]], shown[key], below, left)
            continue
        # One that looks like a masked one beside it would say by its place whether it is the same.
        if MASK in key or (named != key and named in edited):
            _leave(left, below, _NEW)
        merged[key] = _merged(value, None, _ABSENT, below, left)
    return merged


def _list(
    edited: list[Any], stored: Any, shown: Any, path: str, left: list[FieldError]
) -> list[Any]:
    is_as_long = isinstance(shown, list) and len(shown) == len(edited)
    merged = []
    for position, value in enumerate(edited):
        is_kept = is_as_long and is_same(value, shown[position])
        if is_kept and _is_tied(edited, stored, shown, position):
            merged.append(stored[position])
            continue
        for place in _masks(value, f"{path}[{position}]"):
            _leave(left, place, _ELEMENT if isinstance(shown, list) else _NEW)
        merged.append(value)
    return merged


def _is_tied(edited: list[Any], stored: list[Any], shown: list[Any], position: int) -> bool:
    """Whether the element is no secret of an option, or still is that of the same one."""
    if not position or is_same(edited[position - 1], shown[position - 1]):
        return True
    before, value = stored[position - 1 : position + 1]
    return not is_value_of(before, value, names.patterns())


def _hosts(value: Any) -> set[str]:
    """The begins of the addresses in the value."""
    if isinstance(value, str):
        return {"".join(found).lower() for found in _BEGIN.findall(value)}
    below = [*value, *value.values()] if isinstance(value, dict) else value
    return set().union(*map(_hosts, below)) if isinstance(value, dict | list) else set()


def _bared(edited: Any, shown: Any, path: str) -> Iterator[str]:
    """The paths of masks in place of which the merged value would show what was hidden."""
    if shown == MASK:
        return
    if isinstance(edited, str):
        if MASK in edited and edited != shown:
            yield path
    elif isinstance(edited, list):
        for position, item in enumerate(edited):
            yield from _bared(item, shown[position], f"{path}[{position}]")
    elif isinstance(edited, dict):
        for (key, item), (now, below) in zip(edited.items(), shown.items(), strict=True):
            at = f"{path}.{redact(key)}".removeprefix(".")
            if MASK in key and key != now:
                yield at
            yield from _bared(item, below, at)


def _masks(value: Any, path: str) -> Iterator[str]:
    """The paths of what has masks in it."""
    if isinstance(value, str) and MASK in value:
        yield path
    elif isinstance(value, list):
        for position, item in enumerate(value):
            yield from _masks(item, f"{path}[{position}]")
    elif isinstance(value, dict):
        for key, item in value.items():
            if MASK in key:
                yield f"{path}.{key}"
            yield from _masks(item, f"{path}.{redact(key)}")


def _leave(left: list[FieldError], path: str, why: Message, **facts: str) -> None:
    left.append(FieldError(path, Invalid.code, Message(why.template, mask=MASK, **facts)))
    if len(left) == MAX_ERRORS:
        raise _Enough


class _Enough(Exception):
    """No more places are named."""
