"""The verbs for tasks, and the reasons why a task in some state is left out."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Any, ClassVar

from apps.common.errors import FieldError, Invalid
from apps.common.messages import Message
from apps.common.messages import Message as _
from apps.common.verbs import Values, Verb, by_name
from apps.dispatch.rules import life, plan
from apps.dispatch.rules.recurrence import Recurrence, read_series
from apps.dispatch.rules.shift import MAX_SHIFT, is_moved, shifted
from apps.dispatch.rules.task import RANGES, end_faults

PAUSE, RESUME, SHIFT, PRIORITY, END, VERSION, COPY, DELETE = (
    "pause",
    "resume",
    "shift",
    "priority",
    "end",
    "version",
    "copy",
    "delete",
)
MAX_VERSION = 2**31 - 1
# `template_version` is the version of the template that a task has, None without one.
_COLUMNS = ("status", "start_at", "end_at", "priority", "template_version")
# For a rotation also its rule as JSON text.
_RULE_COLUMNS = (*_COLUMNS, "rule_json", "time_zone")


class TaskVerb(Verb):
    """A verb for once tasks or for rotations: each kind has permissions of its own."""

    right: ClassVar[str] = "change"
    event = "task_changed"
    undo = _("Tasks that have not changed since get back what they had.")

    def __init__(self, source: str) -> None:
        self.permission = f"dispatch.{self.right}_{source}task"
        self.columns = _COLUMNS if source == plan.ONCE else _RULE_COLUMNS

    def why_not(self, facts: Values, params: Values, now: datetime) -> str | None:
        if facts["status"] == life.DELETED:
            return Message(life.DELETED)
        return self.why_unchanged(facts, params, now)

    def why_unchanged(self, facts: Values, params: Values, now: datetime) -> str | None:
        """Why a task that is not deleted stays as it is."""
        return None

    def changes(self, facts: Values, params: Values) -> dict[str, Any]:
        """The new values of the columns that an edit changes."""
        return {name: params[name] for name in self.fields}


class _Switch(TaskVerb):
    status: ClassVar[str]

    def why_unchanged(self, facts: Values, params: Values, now: datetime) -> str | None:
        return Message(self.status) if facts["status"] == self.status else None

    def sample(self, facts: Values, params: Values) -> Message:
        return Message(self.status)

    def changes(self, facts: Values, params: Values) -> dict[str, Any]:
        return {"status": self.status}


class Pause(_Switch):
    name, words = PAUSE, _("Pause")
    status = life.PAUSED


class Resume(_Switch):
    name, words = RESUME, _("Resume")
    status = life.ACTIVE


class Shift(TaskVerb):
    name, words = SHIFT, _("Shift in time")
    fields = ("shift_seconds",)

    def wrong(self, params: Values, now: datetime) -> Iterator[FieldError]:
        value = params.get("shift_seconds")
        if value == 0:
            text = _(
                "{text!r} is out of range; shift by one second to {limit} days.",
                text="0",
                limit=MAX_SHIFT.days,
            )
            yield FieldError("shift_seconds", "invalid", text)
        else:
            most = int(MAX_SHIFT.total_seconds())
            yield from _number_faults("shift_seconds", value, -most, most)

    def why_unchanged(self, facts: Values, params: Values, now: datetime) -> str | None:
        if not params:
            return None
        try:
            self.changes(facts, params)
        except Invalid as error:
            return error.detail
        if "rule_json" in facts and not is_moved(_series(facts), _shift_of(params), now):
            return _("would be due at the same times as before")
        return None

    def sample(self, facts: Values, params: Values) -> Message:
        new = self.changes(facts, params)["start_at"]
        return _("start {old} → {new}", old=facts["start_at"], new=new)

    def changes(self, facts: Values, params: Values) -> dict[str, Any]:
        start_at, end_at = shifted(facts["start_at"], facts["end_at"], _shift_of(params))
        return {"start_at": start_at, "end_at": end_at}


class Priority(TaskVerb):
    name, words = PRIORITY, _("Change priority")
    fields = ("priority",)

    def wrong(self, params: Values, now: datetime) -> Iterator[FieldError]:
        yield from _number_faults("priority", params.get("priority"), *RANGES["priority"])

    def why_unchanged(self, facts: Values, params: Values, now: datetime) -> str | None:
        is_equal = facts["priority"] == params.get("priority")
        return _("has this priority already") if is_equal else None

    def sample(self, facts: Values, params: Values) -> Message:
        return _("priority {old} → {new}", old=facts["priority"], new=params["priority"])


class End(TaskVerb):
    name, words = END, _("Set the end")
    fields = ("end_at",)
    is_dangerous = True

    def wrong(self, params: Values, now: datetime) -> Iterator[FieldError]:
        end_at = params.get("end_at")
        if isinstance(end_at, datetime):
            yield from end_faults(end_at)
        else:
            yield FieldError("end_at", "invalid", _("Give the time at which they are to end."))

    def why_unchanged(self, facts: Values, params: Values, now: datetime) -> str | None:
        if not params:
            return None
        if facts["end_at"] == params["end_at"]:
            return _("has this end already")
        return _("starts later") if params["end_at"] <= facts["start_at"] else None

    def sample(self, facts: Values, params: Values) -> Message:
        return _("end {old} → {new}", old=facts["end_at"] or "–", new=params["end_at"])


class Version(TaskVerb):
    """A verb for another version of the template that a task has; its params must fit that
    version."""

    name, words = VERSION, _("Move to a version")
    fields = ("version",)

    def wrong(self, params: Values, now: datetime) -> Iterator[FieldError]:
        yield from _number_faults("version", params.get("version"), 1, MAX_VERSION)

    def why_unchanged(self, facts: Values, params: Values, now: datetime) -> str | None:
        version = facts["template_version"]
        if version is None:
            return _("has no template")
        return _("has this version already") if version == params.get("version") else None

    def sample(self, facts: Values, params: Values) -> Message:
        return _("v{old} → v{new}", old=facts["template_version"], new=params["version"])


class Copy(TaskVerb):
    name, words = COPY, _("Copy")
    right = "add"
    event, is_undone = "task_copied", False
    undo = _("Delete the copies instead.")

    def sample(self, facts: Values, params: Values) -> Message:
        return _("a paused copy for the same person or group")


class Delete(TaskVerb):
    name, words = DELETE, _("Delete")
    right = "delete"
    event = "task_deleted"
    is_dangerous = True

    def sample(self, facts: Values, params: Values) -> Message:
        return Message(life.DELETED)


_KINDS = (Pause, Resume, Shift, Priority, End, Version, Copy, Delete)
VERBS = {source: by_name(*(each(source) for each in _KINDS)) for source in (plan.ONCE, plan.ROTATE)}
NAMES = tuple(each.name for each in _KINDS)


def _number_faults(name: str, value: Any, low: int, high: int) -> Iterator[FieldError]:
    if value is None:
        text = _("Write a whole number from {min} to {max}.", min=low, max=high)
        yield FieldError(name, "invalid", text)
    elif type(value) is not int or not low <= value <= high:
        text = _(
            "{value} is no {name}; write a whole number from {min} to {max}.",
            value=str(value)[:60],
            name=name,
            min=low,
            max=high,
        )
        yield FieldError(name, "invalid", text)


def _series(facts: Values) -> Recurrence:
    rule, zone = read_series(facts["rule_json"], facts["time_zone"])
    return Recurrence(rule=rule, zone=zone, start_at=facts["start_at"], end_at=facts["end_at"])


def _shift_of(params: Values) -> timedelta:
    return timedelta(seconds=params["shift_seconds"])
