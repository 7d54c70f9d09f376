"""The words of jobs in the journal."""

from __future__ import annotations

from django.utils.translation import gettext_lazy as _

from apps.jobs.models import InboxRow, Job, JobType, TypeState, Worker
from apps.jobs.rules import failures, reasons
from apps.jobs.rules.former import FORMER
from apps.journal.admin.words import CHANGED, Event, register
from apps.journal.models import Source

_STATES = {
    "scheduled": _("scheduled"),
    "ready": _("ready"),
    "running": _("running"),
    "succeeded": _("succeeded"),
    "failed": _("failed"),
    "cancelled": _("cancelled"),
    "released": _("released"),
    "blocked": _("blocked"),
    "yielded": _("yielded"),
    "interrupted": _("interrupted"),
    "timed_out": _("timed out"),
    "lost": _("offline"),
    "stage_done": _("stage done"),
    "closed": _("closed"),
    "open": _("open"),
    "half_open": _("half open"),
    "active": _("active"),
    "paused": _("paused"),
    "deleted": _("deleted"),
}
_OF_TYPES = ("type_", "pool_rebuilt", "breaker_reset")
_OF_INBOX = ("inbox_corrected", "inbox_discarded")

register(
    InboxRow,
    Job,
    JobType,
    TypeState,
    Worker,
    people=("user_id",),
    events={
        "timed_out": Event(_("Timed out"), "timer_off", "warning"),
        "lost": Event(_("Worker offline"), "heart_broken", "warning"),
        "stage_done": Event(_("Stage done"), "flag", "success"),
        "yielded": Event(_("Put off"), "snooze", "info"),
        "interrupted": Event(_("Interrupted"), "snooze", "info"),
        "gave_up": Event(_("Discarded"), "block", "danger"),
        "stale": Event(_("Stale result"), "schedule", "warning"),
        "retried": Event(_("Retried by hand"), "replay", "info", said=_("retried {what}")),
        "archived": Event(_("Moved to the older ones"), "inventory_2"),
        "restored": Event(
            _("Back from the older ones"),
            "unarchive",
            "info",
            said=_("brought {what} back from the older ones"),
        ),
        "run_now": Event(_("Run now"), "bolt", "info", said=_("made {what} due now")),
        "marked_done": Event(
            _("Marked done"), "task_alt", "success", said=_("marked {what} as done")
        ),
        "edited": Event(_("Job edited"), "edit", "info", said=CHANGED),
        "cancel_requested": Event(
            _("Asked to stop"), "pan_tool", "warning", said=_("asked {what} to stop")
        ),
        "registered": Event(_("Worker registered"), "login", "success"),
        "left": Event(_("Worker left"), "logout"),
        "quieted": Event(
            _("Worker made quiet"), "do_not_disturb_on", "warning", said=_("made {what} quiet")
        ),
        "resumed": Event(_("Worker resumed"), "play_circle", "success", said=_("resumed {what}")),
        "type_created": Event(
            _("Job type created"), "add_circle", "success", said=_("created {what}")
        ),
        "type_changed": Event(_("Job type changed"), "edit", "info", said=CHANGED),
        "type_paused": Event(
            _("Job type paused"), "pause_circle", "warning", said=_("paused {what}")
        ),
        "type_resumed": Event(
            _("Job type resumed"), "play_circle", "success", said=_("resumed {what}")
        ),
        "type_deleted": Event(_("Job type deleted"), "delete", "danger", said=_("deleted {what}")),
        "pool_rebuilt": Event(
            _("Pool rebuilt"), "sync_alt", "success", said=_("rebuilt the pool of {what}")
        ),
        "inbox_corrected": Event(
            _("Row of the inbox corrected"), "edit", "info", said=_("corrected {what}")
        ),
        "inbox_discarded": Event(
            _("Row of the inbox discarded"), "delete", "warning", said=_("discarded {what}")
        ),
        "breaker_reset": Event(
            _("Breaker closed by hand"),
            "restart_alt",
            "info",
            said=_("closed the breaker of {what}"),
        ),
    },
    states=_STATES,
    names={
        "end": _("outcome"),
        "hold": _("try"),
        "in_a_row": _("times in a row"),
        "sequence": _("checkpoint number"),
        "submitted": _("submitted jobs"),
        "detail": _("details"),
        "rebuild": _("rebuild"),
        "jobs": _("jobs"),
        "archived_jobs": _("older jobs"),
        "waiting": _("waiting"),
        "held": _("held by workers"),
    },
    choices={"end": _STATES},
    messages=(*failures.ALL, *reasons.ALL),
    former=FORMER,
    pages={
        Source.JOB: lambda e: "jobs_inboxrow" if e.event in _OF_INBOX else "jobs_job",
        Source.PLAN: lambda e: "jobs_jobtype" if e.event.startswith(_OF_TYPES) else "",
    },
)
