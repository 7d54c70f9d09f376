"""Quotas that will not be full in time, and schedules in trouble."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from typing import NamedTuple

from django.db.models import Count, Q

from apps.common.admin.html import page_url
from apps.common.messages import Message as _
from apps.dispatch.models import Dispatch, Executor, OnceTask, Source
from apps.dispatch.services.past import members_of
from apps.reports.rules.limits import Limit
from apps.reports.services.fact_sheet import ENDING, FactSheet
from apps.reports.watches.base import WARNING, Reading, RuleWatch, Watch, share
from apps.reports.watches.subjects import ONCE_TASK, SCHEDULE, SCHEDULE_RUN, Way
from apps.schedules.rules import trouble

# So many of the quotas that are not full are looked at.
_MAX_UNFILLED = 20
_HOUR = timedelta(hours=1)


def _quotas(sheet: FactSheet) -> Iterator[Reading]:
    for task in sheet.quotas_ending:
        found = task.availability
        if found.quota and task.end_at is not None and task.end_at <= sheet.now + ENDING:
            share_out = found.handed / found.quota
            yield Reading(ONCE_TASK, str(task.pk), share_out, task.executor.name)


class _People(NamedTuple):
    """How many people of its group took part in a task, how many there are, and how often it was
    handed out lately."""

    taken: int
    all: int
    lately: int


def _will_not_fill(sheet: FactSheet) -> Iterator[Reading]:
    """The tasks whose quota will not be full, at the pace of the hour up to now."""
    lacking = [each for each in sheet.quotas_ending if each.availability.left > 0][:_MAX_UNFILLED]
    if not lacking:
        return
    people = _people(lacking, sheet.now - _HOUR)
    for task in lacking:
        handed, quota = task.availability.handed, task.availability.quota
        taken, members, lately = people[task.pk]
        began = min(max(sheet.now - task.start_at, timedelta(minutes=1)), _HOUR)
        end = task.end_at or sheet.now
        expected = handed + int(lately * ((end - sheet.now) / began))
        if expected >= quota:
            continue
        text = _(
            "“{title}” will not fill: {handed} of {quota}, ends {at}",
            title=task.title,
            handed=handed,
            quota=quota,
            at=end,
        )
        why, via = _("At this pace {count} by then", count=expected), None
        if task.executor.is_group:
            why = _(
                "{pace} · {taken} of {members} in {group} have taken part",
                pace=why,
                taken=taken,
                members=members,
                group=task.executor.title or task.executor.name,
            )
            via = _ask(task, members - taken) if members > taken else None
        yield Reading(
            ONCE_TASK, str(task.pk), target=task.executor.name, text=text, why=why, via=via
        )


def _people(tasks: Sequence[OnceTask], since: datetime) -> dict[int, _People]:
    rows = Dispatch.objects.filter(source=Source.ONCE, task__in=[each.pk for each in tasks])
    taken = Count("executor", distinct=True)
    lately = Count("pk", filter=Q(dispatched_at__gt=since))
    counted = rows.order_by().values_list("task").annotate(taken=taken, lately=lately)
    counts = {pk: each for pk, *each in counted}
    members = members_of({each.executor_id for each in tasks})
    found = {}
    for each in tasks:
        took_part, handed = counts.get(each.pk, (0, 0))
        found[each.pk] = _People(took_part, members[each.executor_id], handed)
    return found


def _ask(task: OnceTask, count: int) -> Way:
    # Who could take it, and how many it asks for, stand in this part of the form.
    url = f"{page_url(OnceTask, task.pk)}#task-who"
    return Way("dispatch.change_oncetask", _("Ask {count} more", count=count), lambda *_of: url)


def _schedules(sheet: FactSheet) -> Iterator[Reading]:
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
    missing=_("There is no person or group {name} (yet)."),
)
WILL_NOT_FILL = Watch(
    key="will_not_fill",
    title=_("Quotas that end within two hours fill at their pace"),
    read=_will_not_fill,
    severity=WARNING,
    icon="group_add",
)
SCHEDULE_FAILED = RuleWatch(
    key="schedule_failed",
    title=_("Schedules make jobs, and these succeed"),
    read=_schedules,
    says={
        SCHEDULE: _("The last three jobs of schedule {name} failed."),
        SCHEDULE_RUN: _("The last run of schedule {name} made no job; its page says why."),
    },
    severity=WARNING,
    icon="event_busy",
    label=_("failing schedule: a run made no job, or three jobs in a row failed"),
)
