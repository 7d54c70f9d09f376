"""The words of schedules in the journal."""

from __future__ import annotations

from django.utils.translation import gettext_lazy as _

from apps.journal.admin.words import CHANGED, Event, register
from apps.journal.models import Source
from apps.schedules.models import Schedule
from apps.schedules.services.make import BROKE

register(
    Schedule,
    events={
        "schedule_created": Event(
            _("Schedule created"), "add_circle", "success", said=_("created {what}")
        ),
        "schedule_changed": Event(_("Schedule changed"), "edit", "info", said=CHANGED),
        "schedule_copied": Event(
            _("Schedule copied"), "content_copy", "info", said=_("made {what} as a copy")
        ),
        "schedule_paused": Event(
            _("Schedule paused"), "pause_circle", "warning", said=_("paused {what}")
        ),
        "schedule_resumed": Event(
            _("Schedule resumed"), "play_circle", "success", said=_("resumed {what}")
        ),
        "schedule_deleted": Event(
            _("Schedule deleted"), "delete", "danger", said=_("deleted {what}")
        ),
        "schedule_run": Event(_("Run by hand"), "bolt", "info", said=_("ran {what} by hand")),
        "run_refused": Event(
            _("No job made"), "error", "danger", said=_("ran {what} by hand, but no job was made")
        ),
    },
    names={
        "job": _("job"),
        "run_at": _("planned for"),
        "runs": _("runs"),
        "schedules": _("schedules"),
    },
    choices={"overlap": {"allow": _("allow"), "skip": _("skip")}},
    messages=(BROKE,),
    pages={Source.SCHEDULE: lambda entry: "schedules_schedule" if entry.subject_id else ""},
)
