"""Errors that the search finds: the same ones together, with the ways to all of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from urllib.parse import urlencode

from django.db.models import Count, Max, Q, QuerySet
from django.http import HttpRequest
from django.urls import reverse
from django.utils.translation import gettext, ngettext

from apps.common import clock
from apps.common.admin.display import shown_text
from apps.common.admin.html import list_url, page_url
from apps.common.chunks import chunks
from apps.common.masking import redact
from apps.dispatch.models import Dispatch, OperatorScope
from apps.jobs.admin.job_groups import GROUP_URL, STATUSES
from apps.jobs.admin.labels import relative
from apps.jobs.models import Job
from apps.jobs.services.error_states import Error, states_of
from apps.journal.admin.words import reason_of
from apps.journal.models import JournalEntry, Source
from apps.reports.services.titles import titles

_RETRIED = {*STATUSES["retry"]}
# What errors are one by, and how many of them are read in search of the meant ones.
_ONE = ("source", "type_or_task", "error_key")
MAX_LOOKED_AT = 50


@dataclass(frozen=True, slots=True)
class FoundError:
    """One error of a job type or task; `acts` are what can be done with all that failed by it."""

    url: str
    title: str
    detail: str
    acts: Sequence[tuple[str, str]]


def errors_in(
    request: HttpRequest,
    entries: QuerySet[Any],
    wanted: Q,
    is_meant: Callable[[JournalEntry], bool],
    *,
    limit: int,
) -> list[FoundError]:
    """The errors of the wanted entries, the latest first, each if its latest such entry is
    meant."""
    of_one: Any = entries.exclude(error_key="").order_by().values(*_ONE)
    groups = list(of_one.filter(wanted).annotate(last=Max("pk")).order_by("-last")[:MAX_LOOKED_AT])
    latest = _latest(groups, is_meant, limit)
    groups = [group for group in groups if group["last"] in latest]
    if not groups:
        return []
    keys = {group["error_key"] for group in groups}
    counts = of_one.filter(error_key__in=keys).annotate(times=Count("pk"))
    times = {tuple(each[name] for name in _ONE): each["times"] for each in counts}
    for group in groups:
        group["times"] = times[tuple(group[name] for name in _ONE)]
    user: Any = request.user
    # A task may have been addressed to others since: its present title is not for all to see.
    sees_titles = user.has_perm("dispatch.view_oncetask") and OperatorScope.names_of(user) is None
    names = titles([group["type_or_task"] for group in groups]) if sees_titles else {}
    states = _states(groups) if user.has_perm("jobs.operate_job") else {}
    now = clock.now()
    return [_found(request, group, latest[group["last"]], names, states, now) for group in groups]


def _latest(
    groups: Sequence[Mapping[str, Any]], is_meant: Callable[[JournalEntry], bool], limit: int
) -> dict[int, JournalEntry]:
    """The latest entries of the groups, by their ids: the first ones that are meant."""
    found: dict[int, JournalEntry] = {}
    for some in chunks(groups, limit):
        entries = JournalEntry.objects.in_bulk([group["last"] for group in some])
        for group in some:
            entry = entries.get(group["last"])
            if entry is not None and len(found) < limit and is_meant(entry):
                found[entry.pk] = entry
        if len(found) == limit:
            break
    return found


def _states(groups: Sequence[Mapping[str, Any]]) -> Mapping[Error, Mapping[str, int] | None]:
    of_jobs = (group for group in groups if group["source"] == Source.JOB)
    return states_of((group["type_or_task"], group["error_key"]) for group in of_jobs)


def _found(
    request: HttpRequest,
    group: Mapping[str, Any],
    entry: JournalEntry,
    names: Mapping[str, str],
    states: Mapping[Error, Mapping[str, int] | None],
    now: datetime,
) -> FoundError:
    name, key, times = group["type_or_task"], group["error_key"], group["times"]
    known = states.get((name, key), {})
    acts = []
    if known is None or known.keys() & _RETRIED:
        back = f"{reverse('admin:search')}?{urlencode({'term': request.GET.get('term', '')})}"
        asked = urlencode({"type": name, "error_key": key, "back": back})
        acts.append((gettext("Retry…"), f"{reverse(GROUP_URL, args=['retry'])}?{asked}"))
    count = ngettext("%s time", "%s times", times) % f"{times:,}"
    return FoundError(
        _url(request, group),
        shown_text(reason_of(redact(entry.error_line)), limit=120),
        " · ".join(filter(None, [names.get(name, name), count, relative(entry.at, now)])),
        acts,
    )


def _url(request: HttpRequest, group: Mapping[str, Any]) -> str:
    """The list of what has failed like that, or the latest entry about it."""
    user: Any = request.user
    name = group["type_or_task"]
    if group["source"] == Source.JOB and user.has_perm("jobs.view_job"):
        return list_url(Job, type=name, error_key=group["error_key"])
    if group["source"] == Source.DISPATCH and user.has_perm("dispatch.view_dispatch"):
        source, _colon, task = name.partition(":")
        return list_url(Dispatch, source=source, task=task, state="failed")
    return page_url(JournalEntry, group["last"])
