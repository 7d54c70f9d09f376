"""The words of flows in the journal."""

from __future__ import annotations

from django.utils.translation import gettext_lazy as _

from apps.flows.models import Flow, FlowRun, FlowStep
from apps.flows.services import advance
from apps.journal.admin.words import Event, register
from apps.journal.models import Source

# Of saved flows; the others are of runs.
_OF_FLOWS = {"flow_version", "flow_status"}

register(
    Flow,
    FlowRun,
    FlowStep,
    events={
        "flow_version": Event(_("Version of the flow made"), "add_circle", "success"),
        "flow_status": Event(_("Flow retired or active again"), "edit", "info"),
        "started": Event(_("Run started"), "play_circle", "info"),
        "step_active": Event(_("Step begun"), "play_circle", "info"),
        "step_ended": Event(
            _("Step ended"), "flag", "success", Event(_("Step failed"), "error", "danger")
        ),
        "step_skipped": Event(_("Step skipped"), "skip_next", "warning"),
        "skip_asked": Event(_("Step is being skipped"), "skip_next", "warning"),
        "reopened": Event(_("Step goes on after a retry"), "replay", "info"),
        "not_reopened": Event(_("Another run of its key is open"), "block", "warning"),
        "retried": Event(_("Retried"), "replay", "info"),
        "paused": Event(_("Paused"), "pause_circle", "warning"),
        "resumed": Event(_("Resumed"), "play_circle", "success"),
        "cancel_asked": Event(_("Cancel requested"), "cancel", "warning"),
        "ended": Event(
            _("Run ended"), "flag", "success", Event(_("Run failed"), "error", "danger")
        ),
    },
    names={
        "made": _("jobs"),
        "step": _("step"),
        "succeeded": _("succeeded"),
        "failed": _("failed"),
        "cancelled": _("cancelled"),
    },
    pages={Source.FLOW: lambda entry: f"flows_{'flow' if entry.event in _OF_FLOWS else 'flowrun'}"},
    messages=advance.MEMOS,
)
