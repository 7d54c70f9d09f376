"""Runs of flows that fail, and steps that are active for too long."""

from __future__ import annotations

from collections.abc import Iterator

from apps.common.messages import Message as _
from apps.flows.models import Flow
from apps.reports.rules.limits import Limit
from apps.reports.services.fact_sheet import FactSheet
from apps.reports.watches.base import WARNING, Reading, RuleWatch, time
from apps.reports.watches.subjects import FLOW_RUN, Way, act_on

_NO_FLOW = _("There is no flow {name} (yet).")
_RETRY = act_on("flows_flowrun", "retry")


def _failed(sheet: FactSheet) -> Iterator[Reading]:
    for each in sheet.failed_runs:
        why = _("“{text}”", text=each.memo) if each.memo else ""
        yield Reading(
            FLOW_RUN,
            str(each.run),
            target=each.flow,
            row=each.run,
            since=each.at,
            why=why,
            facts={"step": each.step} if each.step else {},
            via=_retry(each.run),
        )


def _retry(run: int) -> Way:
    url = _RETRY("", run)
    return Way("flows.operate_flowrun", _("Retry failed part"), lambda *_of: url)


def _active(sheet: FactSheet) -> Iterator[Reading]:
    for each in sheet.long_active_steps:
        seconds = max(0.0, (sheet.now - each.since).total_seconds())
        yield Reading(
            FLOW_RUN,
            str(each.run),
            seconds,
            target=each.flow,
            row=each.run,
            since=each.since,
            facts={"step": each.step},
        )


RUN_FAILED = RuleWatch(
    key="run_failed",
    title=_("Runs of flows succeed"),
    read=_failed,
    says={FLOW_RUN: _("Run {name} failed.")},
    says_now={FLOW_RUN: _("Run {name} failed at step {step}")},
    severity=WARNING,
    icon="account_tree",
    label=_("failed run: a run of a flow failed within a week"),
    has_target=lambda name: Flow.objects.filter(name=name).exists(),
    missing=_NO_FLOW,
)
STEP_ACTIVE = RuleWatch(
    key="step_active",
    title=_("No step of a flow goes on for too long"),
    read=_active,
    limit=Limit(86_400.0),
    says={
        FLOW_RUN: _("A step of run {name} has been active for {value}; the limit is {limit}."),
    },
    says_now={
        FLOW_RUN: _("Step {step} of run {name} has been active for {value}; the limit is {limit}"),
    },
    shows=time,
    icon="hourglass_top",
    label=_("long step: a step of a flow is active for too long"),
    has_target=lambda name: Flow.objects.filter(name=name).exists(),
    missing=_NO_FLOW,
)
