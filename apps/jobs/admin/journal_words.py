"""The words of jobs in the journal."""

from __future__ import annotations

from django.utils.translation import gettext_lazy as _

from apps.jobs.models import Job, JobType, TypeState, Worker
from apps.journal.admin.words import Event, register
from apps.journal.models import Source

_STATES = {
    "scheduled": _("scheduled"),
    "ready": _("ready"),
    "running": _("running"),
    "succeeded": _("succeeded"),
    "failed": _("failed"),
    "cancelled": _("cancelled"),
    "released": _("released"),
    "timed_out": _("timed out"),
    "lost": _("lost"),
    "stage_done": _("stage done"),
    "closed": _("closed"),
    "open": _("open"),
    "half_open": _("half open"),
    "active": _("active"),
    "paused": _("paused"),
    "deleted": _("deleted"),
}

register(
    Job,
    JobType,
    TypeState,
    Worker,
    events={
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
        "registered": Event(_("Worker registered"), "login", "success"),
        "left": Event(_("Worker left"), "logout"),
        "type_created": Event(_("Job type created"), "add_circle", "success"),
        "type_changed": Event(_("Job type changed"), "edit", "info"),
        "type_paused": Event(_("Job type paused"), "pause_circle", "warning"),
        "type_resumed": Event(_("Job type resumed"), "play_circle", "success"),
        "type_deleted": Event(_("Job type deleted"), "delete", "danger"),
        "breaker_reset": Event(_("Breaker closed by hand"), "restart_alt", "info"),
    },
    states=_STATES,
    names={"end": _("outcome"), "hold": _("hold")},
    choices={"end": _STATES},
    reasons={
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
        r"there is no job type (?P<type>\S+) any more": _("there is no job type %(type)s any more"),
        r"(?P<used>\d+) of (?P<most>\d+) attempts are used": _(
            "%(used)s of %(most)s attempts are used"
        ),
    },
    pages={Source.JOB: lambda entry: "jobs_job"},
)
