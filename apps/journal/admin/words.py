"""How what the journal keeps is said to people, in their language.

The journal keeps names (`task_changed`, `lease_seconds`); one that stands in no table here is said
as it is written, with blanks.
"""

from __future__ import annotations

import re
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
    "timed_out": Event(_("Timed out"), "timer_off", "warning"),
    "lost": Event(_("Worker lost"), "heart_broken", "warning"),
    "stage_done": Event(_("Stage done"), "flag", "success"),
    "gave_up": Event(_("Given up"), "block", "danger"),
    "stale": Event(_("Stale result"), "schedule", "warning"),
    "retried": Event(_("Retried by hand"), "replay", "info"),
    "run_now": Event(_("Run now"), "bolt", "info"),
    "marked_done": Event(_("Marked done"), "task_alt", "success"),
    "edited": Event(_("Job edited"), "edit", "info"),
    "cancel_requested": Event(_("Asked to stop"), "pan_tool", "warning"),
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
    "registered": Event(_("Worker registered"), "login", "success"),
    "left": Event(_("Worker left"), "logout"),
    "type_created": Event(_("Job type created"), "add_circle", "success"),
    "type_changed": Event(_("Job type changed"), "edit", "info"),
    "type_paused": Event(_("Job type paused"), "pause_circle", "warning"),
    "type_resumed": Event(_("Job type resumed"), "play_circle", "success"),
    "type_deleted": Event(_("Job type deleted"), "delete", "danger"),
    "breaker_reset": Event(_("Breaker closed by hand"), "restart_alt", "info"),
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
    "scheduled": _("scheduled"),
    "ready": _("ready"),
    "running": _("running"),
    "timed_out": _("timed out"),
    "lost": _("lost"),
    "stage_done": _("stage done"),
    "half_open": _("half open"),
    "closed": _("closed"),
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
    "affinity_host": _("only on host"),
    "allowed_hosts": _("allowed hosts"),
    "batch_limit": _("jobs per hold"),
    "breaker": _("breaker"),
    "breaker_enabled": _("breaker"),
    "breaker_failure_rate": _("opens at a failure rate of"),
    "breaker_min_calls": _("least attempts counted"),
    "breaker_open_seconds": _("stays open (s)"),
    "breaker_window_seconds": _("counted over (s)"),
    "context": _("context"),
    "copied_from": _("copied from"),
    "copies": _("copies"),
    "default_priority": _("priority"),
    "dispatch_times": _("dispatch times"),
    "dispatches": _("dispatches"),
    "enabled": _("enabled"),
    "end": _("outcome"),
    "end_at": _("end"),
    "executor": _("executor"),
    "executors": _("executors"),
    "expires_after_seconds": _("expires after (s)"),
    "expires_at": _("expires at"),
    "forced": _("by force"),
    "handler": _("handler"),
    "held_at": _("held"),
    "hold": _("hold"),
    "host": _("host"),
    "job_types": _("job types"),
    "lane": _("lane"),
    "lease_seconds": _("lease (s)"),
    "max_attempts": _("most attempts"),
    "max_processing_seconds": _("hard end (s)"),
    "max_rounds": _("max rounds"),
    "max_running": _("most running"),
    "memo": _("memo"),
    "misfire": _("missed ones"),
    "misfire_limit": _("limit of missed ones"),
    "mode": _("mode"),
    "name": _("name"),
    "on_expiry": _("on expiry"),
    "on_failure": _("on failure"),
    "once_tasks": _("once tasks"),
    "origin": _("retries on"),
    "origin_grace_seconds": _("grace of the same host (s)"),
    "outcome": _("outcome"),
    "params": _("params"),
    "params_schema": _("schema of the context"),
    "pause_reason": _("reason of the pause"),
    "paused": _("paused"),
    "paused_until": _("paused until"),
    "previous_valid_until": _("previous key valid until"),
    "priority": _("priority"),
    "rate": _("rate"),
    "rate_per_minute": _("most per minute"),
    "remove": _("remove"),
    "result": _("result"),
    "retention_days": _("kept for (days)"),
    "retry_delay_seconds": _("first retry after (s)"),
    "retry_jitter": _("jitter"),
    "retry_max_seconds": _("longest wait (s)"),
    "retry_multiplier": _("multiplier"),
    "rotate_tasks": _("rotate tasks"),
    "rows": _("rows"),
    "rule": _("rule"),
    "run_at": _("next run"),
    "scopes": _("scopes"),
    "settle": _("settle"),
    "stage": _("stage"),
    "stages": _("stages"),
    "start_at": _("start"),
    "status": _("status"),
    "stocks": _("stocks"),
    "template": _("template"),
    "time_zone": _("time zone"),
    "title": _("title"),
    "unique": _("unique"),
    "version": _("version"),
    "weight": _("weight"),
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
    "breaker": STATES,
    "end": STATES,
    "lane": {"fast": _("fast"), "slow": _("slow")},
    "origin": {"none": _("any host"), "prefer": _("the same host first")},
    "outcome": STATES,
    "settle": {"batch": _("in batches"), "each": _("each at once")},
    "status": STATES,
    "unique": {"allow": _("when asked for"), "always": _("always"), "never": _("never")},
}

# What the platform itself writes as a reason; the groups are filled in.
REASONS = {
    r"its worker fell silent": _("its worker fell silent"),
    r"it fell silent": _("it fell silent"),
    r"its process is gone": _("its process is gone"),
    r"past its hard end": _("past its hard end"),
    r"its handler asked for no retry": _("its handler asked for no retry"),
    r"it is past its expiry": _("it is past its expiry"),
    r"attempt (?P<number>\d+) of (?P<most>\d+) was the last": _(
        "attempt %(number)s of %(most)s was the last"
    ),
    r"reported (?P<end>\w+) after its lease was lost": _(
        "reported %(end)s after its lease was lost"
    ),
    r"over since (?P<since_at>\S+ \S+)": _("over since %(since_at)s"),
    r"there is no job type (?P<type>\S+) any more": _("there is no job type %(type)s any more"),
    r"(?P<used>\d+) of (?P<most>\d+) attempts are used": _(
        "%(used)s of %(most)s attempts are used"
    ),
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


def reason_of(reason: str) -> str:
    """A reason in words: that of a person as it was typed, the platform's own translated."""
    for pattern, text in REASONS.items():
        if match := re.fullmatch(pattern, reason):
            told = {name: value_of(name, value) for name, value in match.groupdict().items()}
            return str(text) % told
    return reason


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
