"""How lists and pages show the states of runs."""

from __future__ import annotations

from django.utils.safestring import SafeString
from django.utils.text import capfirst

from apps.common.admin.display import label
from apps.flows.models import FlowRun

RUN_COLOURS: dict[str, str] = {
    FlowRun.Status.RUNNING: "info",
    FlowRun.Status.CANCELLING: "warning",
    FlowRun.Status.SUCCEEDED: "success",
    FlowRun.Status.FAILED: "danger",
}


def shown_state(run: FlowRun) -> SafeString:
    """The state of a run with its colour."""
    return label(capfirst(str(run.get_status_display())), RUN_COLOURS.get(run.status, ""))
