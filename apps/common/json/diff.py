"""The changes of a schema against an earlier one, in words."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from apps.common.json.rows import CHOICE, KINDS, LIMITS, OF_KINDS, OTHER, Schema, kind_of
from apps.common.json_rules import canonical
from apps.common.messages import Message
from apps.common.messages import Message as _


def diff(old: Schema, new: Schema) -> list[Message]:
    """A sentence for each difference, those of the fields in their order; none when both mean the
    same to checks and forms. Both are schemas that `check_schema` takes."""
    return [*_differences(old, new)]


def _differences(old: Schema, new: Schema) -> Iterator[Message]:
    was, now = old.get("properties", {}), new.get("properties", {})
    needed_before, needed = set(old.get("required", ())), set(new.get("required", ()))
    for name, declared in now.items():
        if name not in was:
            yield _added(name, declared, is_needed=name in needed)
            continue
        field = _label(name, was[name])
        if name in needed - needed_before:
            yield _("{field} is needed now.", field=field)
        if name in needed_before - needed:
            yield _("{field} is no longer needed.", field=field)
        yield from _changed(field, was[name], declared)
    for name, declared in was.items():
        if name not in now:
            yield _("Removes the field {field}.", field=_label(name, declared))
    for name in sorted((needed ^ needed_before) - now.keys()):
        if name in needed:
            yield _("{field} is needed now.", field=name)
        elif name not in was:
            yield _("{field} is no longer needed.", field=name)
    if [name for name in was if name in now] != [name for name in now if name in was]:
        yield _("Puts the fields in another order.")
    reported = {"properties", "required"}
    if whole := _differing(old, new, reported):
        yield _("Changes {keywords} of the whole.", keywords=", ".join(whole))


def _added(name: str, declared: Any, *, is_needed: bool) -> Message:
    field, kind = _label(name, declared), _kind(declared)
    if is_needed:
        return _("Adds the field {field} ({kind}), needed.", field=field, kind=KINDS[kind])
    return _("Adds the field {field} ({kind}).", field=field, kind=KINDS[kind])


def _changed(field: str, was: Any, now: Any) -> Iterator[Message]:
    if not isinstance(was, Mapping) or not isinstance(now, Mapping):
        if canonical(was) != canonical(now):
            yield _(
                "{field}: {old} becomes {new}.",
                field=field,
                old=_value_text(was),
                new=_value_text(now),
            )
        return
    reported: set[str] = set()
    if was.get("title") != now.get("title"):
        reported.add("title")
        old, new = was.get("title", "–"), now.get("title", "–")
        yield _("{field}: the label {old} becomes {new}.", field=field, old=old, new=new)
    before, kind = _kind(was), _kind(now)
    if before != kind:
        reported |= OF_KINDS
        yield _("{field}: {old} becomes {new}.", field=field, old=KINDS[before], new=KINDS[kind])
    elif kind == CHOICE:
        reported.add("enum")
        yield from _choices(field, was["enum"], now["enum"])
    else:
        for keyword, words in zip(LIMITS.get(kind, ()), _LIMIT_WORDS, strict=False):
            old, new = was.get(keyword), now.get(keyword)
            if canonical(old) != canonical(new):
                reported.add(keyword)
                yield Message(words, field=field, old=_number(old), new=_number(new))
    is_secret = now.get("secret") is True
    if is_secret != (was.get("secret") is True):
        reported.add("secret")
        if is_secret:
            yield _("{field} is secret now.", field=field)
        else:
            yield _("{field} is no longer secret.", field=field)
    if others := _differing(was, now, reported):
        yield _("{field}: changes {keywords}.", field=field, keywords=", ".join(others))


_LIMIT_WORDS = _("{field}: at least {old} → {new}."), _("{field}: at most {old} → {new}.")


def _choices(field: str, was: list[str], now: list[str]) -> Iterator[Message]:
    if more := [each for each in now if each not in was]:
        yield _("{field}: adds {choices}.", field=field, choices=", ".join(more))
    if gone := [each for each in was if each not in now]:
        yield _("{field}: removes {choices}.", field=field, choices=", ".join(gone))
    if not more and not gone and was != now:
        yield _("{field}: puts the choices in another order.", field=field)


def _differing(old: Schema, new: Schema, reported: set[str]) -> list[str]:
    """The keywords that differ and are not `reported` yet."""
    keywords = dict.fromkeys((*old, *new))
    return [
        each
        for each in keywords
        if each not in reported
        and ((each in old) != (each in new) or canonical(old[each]) != canonical(new[each]))
    ]


def _label(name: str, declared: Any) -> str:
    title = declared.get("title") if isinstance(declared, Mapping) else ""
    return title or name


def _kind(declared: Any) -> str:
    return kind_of(declared) if isinstance(declared, Mapping) else OTHER


def _value_text(declared: Any) -> str:
    return KINDS[_kind(declared)] if isinstance(declared, Mapping) else canonical(declared)


def _number(value: Any) -> str:
    return "–" if value is None else canonical(value)
