"""How what the journal keeps is said to people, in their language.

The journal keeps names (`task_changed`, `lease_seconds`); one that stands in no table here is said
as it is written, with blanks.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from django.utils.formats import localize
from django.utils.functional import Promise
from django.utils.timezone import localtime
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _


@dataclass(frozen=True)
class Event:
    """What happened, in words; icon and colour are those of its moment on a timeline."""

    words: str | Promise
    icon: str = "circle"
    colour: str = ""


EVENTS = {
    "handed_out": Event(_("Handed out"), "outbox", "info"),
    "succeeded": Event(_("Succeeded"), "check_circle", "success"),
    "failed": Event(_("Failed"), "error", "danger"),
    "expired": Event(_("Expired"), "timer_off", "warning"),
    "released": Event(_("Released"), "undo"),
    "cancelled": Event(_("Cancelled"), "cancel"),
    "late_result": Event(_("Late result"), "schedule", "warning"),
    "task_created": Event(_("Task created"), "add_circle", "success"),
    "task_changed": Event(_("Task changed"), "edit", "info"),
    "task_copied": Event(_("Task copied"), "content_copy", "info"),
    "task_deleted": Event(_("Task deleted"), "delete", "danger"),
    "purged": Event(_("Old rows removed"), "delete_sweep"),
    "tasks_imported": Event(_("Tasks imported"), "upload", "success"),
    "executor_created": Event(_("Executor created"), "add_circle", "success"),
    "executor_changed": Event(_("Executor changed"), "edit", "info"),
    "executor_deleted": Event(_("Executor deleted"), "delete", "danger"),
    "members_changed": Event(_("Members changed"), "group", "info"),
    "template_version": Event(_("Template version"), "add_circle", "success"),
    "template_status": Event(_("Template status"), "toggle_on", "info"),
    "template_deleted": Event(_("Template deleted"), "delete", "danger"),
    "client_created": Event(_("Client created"), "add_circle", "success"),
    "client_changed": Event(_("Client changed"), "edit", "info"),
    "client_rotated": Event(_("Client rotated"), "sync", "info"),
    "client_revoked": Event(_("Client revoked"), "block", "danger"),
}
STATES = {
    "open": _("open"),
    "succeeded": _("succeeded"),
    "failed": _("failed"),
    "expired": _("expired"),
    "released": _("released"),
    "cancelled": _("cancelled"),
    "live": _("live"),
    "revoked": _("revoked"),
    "active": _("active"),
    "paused": _("paused"),
    "deleted": _("deleted"),
    "retired": _("retired"),
}
NAMES = {
    "add": _("add"),
    "copied_from": _("copied from"),
    "copies": _("copies"),
    "dispatch_times": _("dispatch times"),
    "dispatches": _("dispatches"),
    "enabled": _("enabled"),
    "end_at": _("end"),
    "executor": _("executor"),
    "executors": _("executors"),
    "expires_at": _("expires at"),
    "job_types": _("job types"),
    "lease_seconds": _("lease (s)"),
    "max_rounds": _("max rounds"),
    "misfire": _("missed ones"),
    "misfire_limit": _("limit of missed ones"),
    "mode": _("mode"),
    "name": _("name"),
    "once_tasks": _("once tasks"),
    "on_expiry": _("on expiry"),
    "on_failure": _("on failure"),
    "outcome": _("outcome"),
    "params": _("params"),
    "previous_valid_until": _("previous key valid until"),
    "priority": _("priority"),
    "rate": _("rate"),
    "remove": _("remove"),
    "result": _("result"),
    "rotate_tasks": _("rotate tasks"),
    "rows": _("rows"),
    "rule": _("rule"),
    "scopes": _("scopes"),
    "start_at": _("start"),
    "status": _("status"),
    "stocks": _("stocks"),
    "template": _("template"),
    "time_zone": _("time zone"),
    "title": _("title"),
    "version": _("version"),
}
# Of these names the values are words, too.
CHOICES = {
    "misfire": {"skip": _("skip"), "once": _("once"), "all": _("all")},
    "mode": {"single": _("single"), "multi": _("multi"), "blocking": _("blocking")},
    "on_failure": {
        "finish": _("finish"),
        "give_back": _("give back"),
        "retry_same": _("retry"),
    },
    "on_expiry": {"give_back": _("give back"), "keep": _("keep")},
    "outcome": STATES,
    "status": STATES,
}


def event_of(name: str) -> Event:
    """The event in words: `task_changed` is "Task changed"."""
    return EVENTS.get(name) or Event(name.replace("_", " ").capitalize())


def name_of(name: str) -> str:
    """The name of a fact in words: `dispatch_times` is "dispatch times"."""
    return str(NAMES.get(name) or name.replace("_", " "))


def state_of(state: str) -> str:
    """The state in words."""
    return str(STATES.get(state) or state)


def value_of(name: str, value: object) -> str:
    """A plain value in words: a choice by its name, an instant in the time zone of the page."""
    if value is None:
        return "–"
    if isinstance(value, bool):
        return gettext("yes") if value else gettext("no")
    text = str(value)
    if name.endswith(("_at", "_until")):
        return _instant(text)
    return str(CHOICES.get(name, {}).get(text) or text)


def _instant(text: str) -> str:
    try:
        instant = datetime.fromisoformat(text)
    except ValueError:
        return text
    return localize(localtime(instant)) if instant.tzinfo else text


def duration_of(milliseconds: int) -> str:
    """`340 ms`, `12.5 s`, `3 min 20 s`, `5 h 10 min`, `2 d 3 h`."""
    seconds = milliseconds / 1000
    if abs(seconds) < 1:
        return gettext("%d ms") % milliseconds
    if abs(seconds) < 60:
        return gettext("%.1f s") % seconds
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 60:
        return gettext("%(minutes)d min %(seconds)d s") % {"minutes": minutes, "seconds": rest}
    hours, minutes = divmod(minutes, 60)
    if hours < 48:
        return gettext("%(hours)d h %(minutes)d min") % {"hours": hours, "minutes": minutes}
    days, hours = divmod(hours, 24)
    return gettext("%(days)d d %(hours)d h") % {"days": days, "hours": hours}
