"""Checks of the settings of a type; all mistakes are reported at once."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any

from apps.common.errors import FieldError, PlatformError
from apps.common.json.schema import check_schema
from apps.common.json_rules import check_json, check_text
from apps.common.messages import Message
from apps.common.messages import Message as _
from apps.common.readers import fits_address, is_key
from apps.jobs.rules import type_snapshot
from apps.jobs.rules.key_limit import MAX_PATH, parse
from apps.jobs.rules.submission import MAX_STAGE

MAX_NAME = 64
MAX_TITLE = 200
MAX_HOST = 128
MAX_LISTED = 100
MAX_REASON = 500

CHOICES: Mapping[str, tuple[str, ...]] = {
    "lane": (type_snapshot.FAST, type_snapshot.SLOW),
    "unique": (type_snapshot.ALLOW, type_snapshot.ALWAYS, type_snapshot.NEVER),
    "origin": (type_snapshot.NO_ORIGIN, type_snapshot.PREFER_ORIGIN),
    "settle": (type_snapshot.BATCH, type_snapshot.EACH),
}
# Numbers that may have decimals, and those that may be left open.
FRACTIONS = frozenset(
    {
        "retry_delay_seconds",
        "retry_multiplier",
        "retry_max_seconds",
        "retry_jitter",
        "breaker_failure_rate",
    }
)
OPEN = frozenset(
    {
        *("expires_after_seconds", "max_running", "rate_per_minute", "retention_days"),
        *("limit_running", "limit_per_minute", "limit_burst"),
    }
)
# By whether it may have decimals, and be left open.
_NO_NUMBER: Mapping[tuple[bool, bool], str] = {
    (False, False): _("{value} does not do; write a whole number from {min} to {max}."),
    (True, False): _("{value} does not do; write a number from {min} to {max}."),
    (False, True): _(
        "{value} does not do; write a whole number from {min} to {max}, or null for none."
    ),
}
SETTINGS = (
    "title",
    "handler",
    *CHOICES,
    "stages",
    "params_schema",
    "limit_by",
    *type_snapshot.RANGES,
    "allowed_hosts",
    "paused",
    "pause_reason",
    "paused_until",
    "breaker_enabled",
    "pool",
)


def faults(settings: Mapping[str, Any], *, changed: frozenset[str]) -> Iterator[FieldError]:
    """The errors of a type's settings, all of which are given; expensive checks run only for those
    that changed."""
    yield from _text_faults("title", settings["title"], MAX_TITLE)
    yield from _text_faults("pause_reason", settings["pause_reason"], MAX_REASON)
    handler = settings["handler"]
    if handler != "" and not (isinstance(handler, str) and is_key(handler, MAX_NAME)):
        yield _fault("handler", _("{text!r} is no name of a handler.", text=str(handler)[:60]))
    for name, words in CHOICES.items():
        if settings[name] not in words:
            yield _fault(
                name,
                _(
                    "{text!r} is no {name}; choose one of {words}.",
                    text=str(settings[name])[:60],
                    name=name,
                    words=", ".join(words),
                ),
            )
    for name, (low, high) in type_snapshot.RANGES.items():
        yield from _number_faults(name, settings[name], low, high)
    for name in ("paused", "breaker_enabled", "pool"):
        if not isinstance(settings[name], bool):
            yield _fault(name, _("It must be true or false."))
    if settings["pool"] is True and settings["unique"] == type_snapshot.NEVER:
        yield _fault("unique", _("A pool has one open job for each key; choose another."))
    yield from _key_limit_faults(settings)
    if settings["stages"] != [type_snapshot.FREE_STAGES]:
        yield from _list_faults("stages", settings["stages"], MAX_STAGE)
    yield from _list_faults("allowed_hosts", settings["allowed_hosts"], MAX_HOST)
    if "params_schema" in changed:
        yield from _schema_faults(settings["params_schema"])
    until = settings["paused_until"]
    if isinstance(until, datetime) and until.tzinfo is None:
        yield _fault("paused_until", _("{at} needs a time zone.", at=until.isoformat()))
    if until is not None and not settings["paused"]:
        yield _fault("paused_until", _("Only a paused type resumes by itself; pause it, too."))


def _key_limit_faults(settings: Mapping[str, Any]) -> Iterator[FieldError]:
    by = settings["limit_by"]
    numbers = [settings[each] for each in ("limit_running", "limit_per_minute", "limit_burst")]
    if not isinstance(by, str):
        yield from _text_faults("limit_by", by, MAX_PATH)
    elif not by:
        if any(each is not None for each in numbers):
            needs = _("Say by what the jobs are limited: key, user_id, or a path of the context.")
            yield _fault("limit_by", needs)
    else:
        try:
            parse(by)
        except ValueError as error:
            yield _fault("limit_by", error.args[0])
        if numbers[:2] == [None, None]:
            yield _fault(
                "limit_running", _("Say how many jobs of a key may run at once, or in a minute.")
            )
        elif numbers[1] is None and numbers[2] is not None:
            yield _fault("limit_burst", _("A burst belongs to a number per minute; give both."))
        if settings["pool"] is True:
            yield _fault("limit_by", _("A pool has no limit by key; choose one of the two."))


def name_faults(name: Any) -> Iterator[FieldError]:
    """The error of the name of a new type."""
    if not (isinstance(name, str) and is_name(name)):
        yield _fault(
            "name",
            _(
                "{text!r} is no name of a type; use 1 to {limit} letters, digits and "
                "_ . : @ + -, without blanks and slashes, and not only dots: addresses hold it.",
                text=str(name)[:80],
                limit=MAX_NAME,
            ),
        )


def is_name(name: str) -> bool:
    """Whether a new type or handler can have the name, which stands in addresses."""
    return is_key(name, MAX_NAME) and fits_address(name)


def _text_faults(name: str, text: Any, limit: int) -> Iterator[FieldError]:
    if not isinstance(text, str) or len(text) > limit:
        yield _fault(name, _("It must be text of at most {limit} characters.", limit=limit))
        return
    try:
        check_text(text, field=name)
    except PlatformError as error:
        yield from error.errors


def _number_faults(name: str, value: Any, low: float, high: float) -> Iterator[FieldError]:
    if value is None and name in OPEN:
        return
    kinds = (int, float) if name in FRACTIONS else (int,)
    is_number = isinstance(value, kinds) and not isinstance(value, bool)
    if not is_number or not low <= value <= high:
        refusal = _NO_NUMBER[name in FRACTIONS, name in OPEN]
        yield _fault(name, Message(refusal, value=str(value)[:60], min=low, max=high))


def _list_faults(name: str, names: Any, limit: int) -> Iterator[FieldError]:
    if not isinstance(names, list) or len(names) > MAX_LISTED:
        yield _fault(name, _("It must be a list of at most {limit} names.", limit=MAX_LISTED))
        return
    for position, each in enumerate(names):
        if not (isinstance(each, str) and is_key(each, limit)):
            yield _fault(
                f"{name}[{position}]",
                _(
                    "{text!r} is no name; use 1 to {limit} letters, digits and "
                    "_ . : @ / + -, without blanks.",
                    text=str(each)[:60],
                    limit=limit,
                ),
            )
        elif each in names[:position]:
            yield _fault(f"{name}[{position}]", _("{name!r} is in the list twice.", name=each))


def _schema_faults(schema: Any) -> Iterator[FieldError]:
    if schema == {}:
        return
    try:
        check_json(schema, field="params_schema")
        check_schema(schema, field="params_schema")
    except PlatformError as error:
        yield from error.errors


def _fault(name: str, message: str) -> FieldError:
    return FieldError(name, "invalid", message)
