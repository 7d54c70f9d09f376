"""The two tables of the home page: job types, the worst first, and groups by what they have to
fill."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple
from urllib.parse import urlencode

from django.urls import reverse
from django.utils.translation import gettext

from apps.common.admin.display import short_text, shown_text
from apps.common.admin.html import list_url, page_url
from apps.common.ttl_cache import TTLCache
from apps.dispatch.models import Executor, OnceTask
from apps.dispatch.services.availability import ending_next
from apps.dispatch.services.past import members_of
from apps.jobs.admin.labels import age, capped
from apps.jobs.admin.type_tabs import now_url
from apps.jobs.handlers import registry
from apps.jobs.models import Job, JobType
from apps.jobs.rules.type_snapshot import TypeSnapshot
from apps.jobs.services import counts
from apps.reports.admin.overview.sight import Sight
from apps.reports.rules.outcomes import JOB
from apps.reports.services.columns import percent
from apps.reports.services.fact_sheet import FactSheet
from apps.reports.watches.base import CRITICAL, WARNING
from apps.reports.watches.subjects import JOB_TYPE
from apps.reports.watches.troubles import Trouble

MAX_ROWS = 4
# So many of the tasks that end next are looked at, with an end and without.
_MAX_TASKS = 40
# A share of successes below this is marked.
_BAD_RATE = 0.8


class Act(NamedTuple):
    icon: str
    text: str
    url: str


class TypeRow(NamedTuple):
    name: str
    title: str
    url: str
    waiting: str
    waiting_url: str
    oldest: str
    succeeded: str
    failed_url: str
    is_bad: bool
    is_paused: bool
    # What is done to the type with one more click: the icon, the words and the address, if any.
    act: Act | None


@dataclass(frozen=True)
class Types:
    rows: list[TypeRow]
    all: int
    url: str


def types(sight: Sight, status: FactSheet, open_: Collection[Trouble]) -> Types | None:
    """The job types that this person sees, those in trouble first, then those with most waiting."""
    if JOB not in sight.shown or not sight.permits("jobs.view_jobtype"):
        return None
    seen = [each for each in status.types if sight.sees_type(each.name)]
    troubled = {
        name for each in open_ if each.severity in (CRITICAL, WARNING) for name in _types_of(each)
    }
    ready = status.ready_by_type
    seen.sort(key=lambda each: (each.name not in troubled, -ready[each.name], each.name))
    rows = []
    for each in seen[:MAX_ROWS]:
        ended, due = status.ended_lately.get(each.name), status.oldest_due_by_type.get(each.name)
        rate = None if ended is None or not ended.ended else 1 - ended.failed_share
        rows.append(
            TypeRow(
                name=each.name,
                title=shown_text(each.name),
                url=now_url(each.pk),
                waiting=capped(ready[each.name], counts.MAX_COUNTED),
                waiting_url=list_url(Job, type=each.name, status=Job.Status.READY),
                oldest="–" if due is None else age(due, status.now),
                succeeded=percent(rate),
                failed_url=list_url(Job, type=each.name, status=Job.Status.FAILED),
                is_bad=rate is not None and rate < _BAD_RATE,
                is_paused=each.is_paused(status.now),
                act=_act(each, status.now) if sight.permits("jobs.operate_jobtype") else None,
            )
        )
    return Types(rows, len(seen), list_url(JobType)) if rows else None


def _act(each: TypeSnapshot, now: datetime) -> Act | None:
    """The way to stop the type or to start it again; the platform's own always run."""
    if each.is_paused(now):
        verb, text = "resume", gettext("Resume {name}…")
    elif registry.is_system(each.name):
        return None
    else:
        verb, text = "pause", gettext("Pause {name}…")
    asked = urlencode({"ids": each.pk, "back": reverse("admin:index")})
    url = f"{reverse('admin:jobs_jobtype_act', args=[verb])}?{asked}"
    icon = "play_circle" if verb == "resume" else "pause_circle"
    return Act(icon, text.format(name=shown_text(each.name)), url)


def _types_of(each: Trouble) -> list[str]:
    """The job types that a trouble is about."""
    subjects = [each.key, *(subject for _kind, subject in each.read.instead)]
    found = (subject.partition(":") for subject in subjects)
    return [name for kind, _colon, name in found if kind == JOB_TYPE]


# --- groups ---------------------------------------------------------------------------------------
class GroupRow(NamedTuple):
    key: int
    title: str
    url: str
    members: int
    task_url: str
    handed: int
    quota: int
    text: str
    when: str
    tone: str


class _Group(NamedTuple):
    """A group with its task that ends next."""

    pk: int
    title: str
    task: int
    members: int
    handed: int
    quota: int
    start: datetime
    end: datetime


# The groups by the executors that a person is limited to.
groups_kept: TTLCache[list[_Group]] = TTLCache(10.0)


def groups(sight: Sight, status: FactSheet, open_: Collection[Trouble]) -> list[GroupRow]:
    """The groups whose quotas end next: those open first, then full ones, then what is to come."""
    needed = ("dispatch.view_executor", "dispatch.view_oncetask")
    if not all(map(sight.permits, needed)) or sight.bound == []:
        return []
    bound = None if sight.bound is None else frozenset(sight.bound)
    found = groups_kept.get(bound, lambda: _groups(sight, status.now))
    late = {each.read.name for each in open_ if each.kind == "will_not_fill"}
    ranked = sorted(found, key=lambda each: _rank(each, status.now))
    return [_row(each, status.now, str(each.task) in late) for each in ranked[:MAX_ROWS]]


def _groups(sight: Sight, now: datetime) -> list[_Group]:
    tasks = OnceTask.objects.select_related("executor").filter(executor__kind=Executor.Kind.GROUP)
    if sight.bound is not None:
        tasks = tasks.filter(executor__name__in=sight.bound)
    next_ = ending_next(tasks, _MAX_TASKS, now=now)
    first = {task.executor_id: task for task in reversed(next_)}
    members = members_of(first)
    return [
        _Group(
            pk=pk,
            title=task.executor.title or task.executor.name,
            task=task.pk,
            members=members[pk],
            handed=task.availability.handed,
            quota=task.availability.quota,
            start=task.start_at,
            end=task.availability.until or now,
        )
        for pk, task in first.items()
    ]


def _rank(each: _Group, now: datetime) -> tuple[int, datetime, int]:
    is_full = each.handed >= each.quota
    state = 2 if each.start > now else 1 if is_full else 0
    return state, each.end, each.task


def _row(each: _Group, now: datetime, is_late: bool) -> GroupRow:
    when, tone = gettext("ends %s") % short_text(each.end), "late" if is_late else ""
    if each.start > now:
        when = gettext("starts %s") % short_text(each.start)
    elif each.handed >= each.quota:
        when, tone = gettext("full"), "full"
    return GroupRow(
        key=each.pk,
        title=shown_text(each.title, limit=60),
        url=page_url(Executor, each.pk),
        members=each.members,
        task_url=page_url(OnceTask, each.task),
        handed=min(each.handed, each.quota),
        quota=max(1, each.quota),
        text=gettext("%(some)s of %(all)s")
        % {"some": f"{each.handed:,}", "all": f"{each.quota:,}"},
        when=when,
        tone=tone,
    )
