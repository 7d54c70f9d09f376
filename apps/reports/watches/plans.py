"""Quotas that will not be full in time, and schedules in trouble."""

from __future__ import annotations

from collections.abc import Iterator

from apps.common.messages import Message as _
from apps.dispatch.models import Executor
from apps.reports.rules.limits import Limit
from apps.reports.services.standing import Standing
from apps.reports.watches.base import Reading, RuleWatch, share
from apps.reports.watches.subjects import ONCE_TASK, SCHEDULE, SCHEDULE_RUN
from apps.schedules.rules import trouble


def _quotas(sheet: Standing) -> Iterator[Reading]:
    for task in sheet.quotas_ending:
        found = task.standing
        if found.quota:
            share_out = found.handed / found.quota
            yield Reading(ONCE_TASK, str(task.pk), share_out, task.executor.name)


def _schedules(sheet: Standing) -> Iterator[Reading]:
    kinds = {trouble.UNMADE: SCHEDULE_RUN, trouble.FAILING: SCHEDULE}
    for each in sheet.schedules_in_trouble:
        yield Reading(kinds[each.trouble], str(each.schedule), target=each.job_type)


QUOTA_UNFILLED = RuleWatch(
    key="quota_unfilled",
    title=_("Quotas fill before their tasks end"),
    read=_quotas,
    limit=Limit(0.8, rises=False, highest=1.0),
    says={
        ONCE_TASK: _(
            "Once task {name} ends within the hour and only {value} of its quota is handed out; it "
            "should be {limit}."
        )
    },
    shows=share,
    label=_("unfilled quota: a task ends within the hour"),
    has_target=lambda name: Executor.objects.names_among([name]).exists(),
    missing=_("There is no executor {name} (yet)."),
)
SCHEDULE_FAILED = RuleWatch(
    key="schedule_failed",
    title=_("Schedules make jobs, and these succeed"),
    read=_schedules,
    says={
        SCHEDULE: _("The last three jobs of schedule {name} failed."),
        SCHEDULE_RUN: _("The last run of schedule {name} made no job; its page says why."),
    },
    label=_("failing schedule: a run made no job, or three jobs in a row failed"),
)
