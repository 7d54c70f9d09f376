"""The words of flows in the journal."""

from __future__ import annotations

from django.utils.translation import gettext_lazy as _

from apps.flows.models import Flow, FlowRun, FlowStep
from apps.flows.services import advance
from apps.journal.admin.words import CHANGED, Event, register
from apps.journal.models import Source

# Of saved flows; the others are of runs.
_OF_FLOWS = {"flow_version", "flow_status"}

register(
    Flow,
    FlowRun,
    FlowStep,
    events={
        "flow_version": Event(
            _("Version of the flow made"), "add_circle", "success", said=_("saved {what}")
        ),
        "flow_status": Event(_("Flow retired or active again"), "edit", "info", said=CHANGED),
        "started": Event(_("Run started"), "play_circle", "info", said=_("started {what}")),
        "step_active": Event(
            _("Step begun"), "play_circle", "info", said=_("began step {step} of {what}")
        ),
        "step_ended": Event(
            _("Step ended"),
            "flag",
            "success",
            Event(_("Step failed"), "error", "danger"),
            said=_("ended step {step} of {what}"),
        ),
        "step_skipped": Event(
            _("Step skipped"), "skip_next", "warning", said=_("skipped step {step} of {what}")
        ),
        "skip_asked": Event(
            _("Step is being skipped"),
            "skip_next",
            "warning",
            said=_("asked to skip step {step} of {what}"),
        ),
        "reopened": Event(
            _("Step goes on after a retry"),
            "replay",
            "info",
            said=_("reopened step {step} of {what}"),
        ),
        "not_reopened": Event(
            _("Another run of its key is open"),
            "block",
            "warning",
            said=_("could not reopen {what}, another run of its key is open"),
        ),
        "retried": Event(_("Retried"), "replay", "info", said=_("retried {what}")),
        "paused": Event(_("Paused"), "pause_circle", "warning", said=_("paused {what}")),
        "resumed": Event(_("Resumed"), "play_circle", "success", said=_("resumed {what}")),
        "cancel_asked": Event(
            _("Cancel requested"), "cancel", "warning", said=_("asked to cancel {what}")
        ),
        "ended": Event(
            _("Run ended"),
            "flag",
            "success",
            Event(_("Run failed"), "error", "danger"),
            said=_("ended {what}"),
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
