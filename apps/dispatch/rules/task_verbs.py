"""What is done to many tasks at once, and why one in some state is left out."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

from apps.common.errors import FieldError, Invalid
from apps.common.messages import Message
from apps.common.messages import Message as _
from apps.dispatch.rules import life
from apps.dispatch.rules.recurrence import Recurrence, read_rule
from apps.dispatch.rules.shift import MAX_SHIFT, is_moved, shifted
from apps.dispatch.rules.task import RANGES, end_faults

PAUSE, RESUME, SHIFT, PRIORITY, END, COPY, DELETE = (
    "pause",
    "resume",
    "shift",
    "priority",
    "end",
    "copy",
    "delete",
)
# The field of each verb.
FIELD: Mapping[str, str] = {SHIFT: "shift_seconds", PRIORITY: "priority", END: "end_at"}
VERBS = (PAUSE, RESUME, SHIFT, PRIORITY, END, COPY, DELETE)
FACTS = ("status", "start_at", "end_at", "priority")
# Of a rotation also its rule as the text of its JSON.
RULE_FACTS = (*FACTS, "rule_json", "time_zone")
_STATUS = {PAUSE: life.PAUSED, RESUME: life.ACTIVE}


def needed(verb: str) -> tuple[str, ...]:
    """The fields that must be given."""
    return (FIELD[verb],) if verb in FIELD else ()


def faults(verb: str, params: Mapping[str, Any]) -> Iterator[FieldError]:
    """What is wrong with the fields of the verb."""
    for name in sorted(params.keys() - {*needed(verb)}):
        yield FieldError(name, "unknown_field", _("{verb} takes no {name}.", verb=verb, name=name))
    value = params.get(FIELD.get(verb, ""))
    if verb == END and isinstance(value, datetime):
        yield from end_faults(value)
    elif verb == END:
        yield FieldError("end_at", "invalid", _("Give the time at which they are to end."))
    if verb == PRIORITY:
        yield from _number_faults("priority", value, *RANGES["priority"])
    if verb == SHIFT and value == 0:
        text = _(
            "{text!r} is out of range; shift by one second to {limit} days.",
            text="0",
            limit=MAX_SHIFT.days,
        )
        yield FieldError("shift_seconds", "invalid", text)
    elif verb == SHIFT:
        most = int(MAX_SHIFT.total_seconds())
        yield from _number_faults("shift_seconds", value, -most, most)


def _number_faults(name: str, value: Any, low: int, high: int) -> Iterator[FieldError]:
    if type(value) is not int or not low <= value <= high:
        text = _(
            "{value} is no {name}; write a whole number from {min} to {max}.",
            value=str(value)[:60],
            name=name,
            min=low,
            max=high,
        )
        yield FieldError(name, "invalid", text)


def why_not(
    verb: str, facts: Mapping[str, Any], params: Mapping[str, Any], now: datetime
) -> str | None:
    """Why a task with these facts is left out; None when the verb changes it."""
    status = facts["status"]
    if status == life.DELETED or status == _STATUS.get(verb):
        return Message(status)
    if verb == PRIORITY and facts["priority"] == params.get("priority"):
        return _("has this priority already")
    if verb == END and params and facts["end_at"] == params["end_at"]:
        return _("has this end already")
    if verb == END and params and params["end_at"] <= facts["start_at"]:
        return _("starts later")
    return _not_shifted(facts, params, now) if verb == SHIFT and params else None


def _not_shifted(facts: Mapping[str, Any], params: Mapping[str, Any], now: datetime) -> str | None:
    try:
        changes(SHIFT, facts, params)
    except Invalid as error:
        return error.detail
    if "rule_json" in facts and not is_moved(_series(facts), _by(params), now):
        return _("would be due at the same times as before")
    return None


def _series(facts: Mapping[str, Any]) -> Recurrence:
    rule, zone = read_rule(facts["rule_json"]), ZoneInfo(facts["time_zone"])
    return Recurrence(rule=rule, zone=zone, start_at=facts["start_at"], end_at=facts["end_at"])


def _by(params: Mapping[str, Any]) -> timedelta:
    return timedelta(seconds=params["shift_seconds"])


def changes(verb: str, facts: Mapping[str, Any], params: Mapping[str, Any]) -> dict[str, Any]:
    """The new values of the columns that an edit changes."""
    if verb in _STATUS:
        return {"status": _STATUS[verb]}
    if verb == SHIFT:
        start_at, end_at = shifted(facts["start_at"], facts["end_at"], _by(params))
        return {"start_at": start_at, "end_at": end_at}
    return {FIELD[verb]: params[FIELD[verb]]}


def sample(verb: str, facts: Mapping[str, Any], params: Mapping[str, Any]) -> str:
    """What becomes of a task: `priority 0 → 40`."""
    if verb == DELETE:
        return Message(life.DELETED)
    if verb == COPY:
        return _("a paused copy for the same executor")
    new = changes(verb, facts, params)
    if verb in _STATUS:
        return Message(new["status"])
    if verb == SHIFT:
        return _("start {old} → {new}", old=facts["start_at"], new=new["start_at"])
    if verb == END:
        return _("end {old} → {new}", old=facts["end_at"] or "–", new=new["end_at"])
    return _("priority {old} → {new}", old=facts["priority"], new=new["priority"])


def opposite(verb: str, params: Mapping[str, Any]) -> tuple[str, dict[str, Any]] | None:
    """The verb that takes the change back, with its fields, where there is one."""
    if verb in _STATUS:
        return (RESUME if verb == PAUSE else PAUSE), {}
    return (SHIFT, {"shift_seconds": -params["shift_seconds"]}) if verb == SHIFT else None
