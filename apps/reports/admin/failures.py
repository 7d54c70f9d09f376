"""The failures page: the errors of a period in groups, with links and bulk actions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any
from urllib.parse import quote, urlencode

from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect, QueryDict
from django.urls import reverse
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.timezone import get_current_timezone_name
from django.utils.translation import gettext, ngettext
from django.utils.translation import gettext_lazy as _

from apps.common import clock, filtering
from apps.common.admin.display import moment_time, short_time, shown_text
from apps.common.admin.filters import read_parameter
from apps.common.admin.html import joined, link, list_url, page_url
from apps.common.admin.pages import framed
from apps.common.zones import parse_zone
from apps.dispatch.models import Dispatch
from apps.jobs.admin.filters import type_names
from apps.jobs.admin.job_groups import GROUP_URL, STATUSES
from apps.jobs.admin.labels import relative
from apps.jobs.models import Job
from apps.jobs.services.error_states import Error, states_of
from apps.journal.admin.words import reason_of
from apps.reports.admin.controls import options
from apps.reports.admin.sparkline import sparkline
from apps.reports.permissions import may_see_failures
from apps.reports.rules.outcomes import DISPATCH, JOB
from apps.reports.rules.tally import OTHER
from apps.reports.services.choice import (
    LAST_MONTH,
    PRESET_TITLES,
    SHOWN,
    THIS_MONTH,
    Asked,
    Reader,
)
from apps.reports.services.coverage import Stored
from apps.reports.services.failures import (
    BY_COUNT,
    MAX_SEARCHED,
    NEW,
    NEWEST,
    Failure,
    failures,
)
from apps.reports.services.titles import titles

MAX_SHOWN = 100
MAX_SAMPLE = 240


# Steps of the trend by preset; custom periods have the default.
STEPS = {"1h": 20, "24h": 24, "7d": 28, "30d": 30, "90d": 30, THIS_MONTH: 30, LAST_MONTH: 30}
_DEFAULT_STEPS = 24
SORTS = {BY_COUNT: _("Most often"), NEWEST: _("Newest"), NEW: _("First seen last")}


@dataclass(frozen=True, kw_only=True)
class FailuresChoice(Asked):
    """The failures of a job type or task, or of all; `text` is part of an error."""

    type: str
    text: str

    def parameters(self, **changes: Any) -> dict[str, str]:
        to = replace(self, **changes)
        asked = {**to.times, "type": to.type, "text": to.text, "sort": to.sort}
        return {name: value for name, value in asked.items() if value}


def failures_page(request: HttpRequest) -> HttpResponse:
    """The error groups of the period and type of the address."""
    user: Any = request.user
    if not may_see_failures(user):
        raise PermissionDenied
    now = clock.now()
    choice = _read(request.GET, now)
    if SHOWN in request.GET and not choice.problems:
        return HttpResponseRedirect(reverse("failures") + choice.query())
    found = failures(
        choice.start,
        choice.end,
        steps=STEPS.get(choice.preset, _DEFAULT_STEPS),
        limit=MAX_SHOWN,
        order=choice.sort,
        sources=_sources(user),
        type_or_task=choice.type,
        text=choice.text,
        stored=Stored.read(),
    )
    names = titles([choice.type, *(each.type_or_task for each in found.groups)])
    rows = _Rows(
        choice,
        found.start,
        now,
        titles=names,
        states=_states(found.groups) if user.has_perm("jobs.operate_job") else {},
    )
    return framed(
        request,
        "admin/failures.html",
        title=_("Failures"),
        is_fullwidth="1",
        choice=choice,
        periods=options(choice, "preset", PRESET_TITLES),
        **choice.inputs,
        sorts=options(choice, "sort", SORTS),
        types=sorted({*type_names(), *filter(None, [choice.type])}),
        type_title=names.get(choice.type, choice.type),
        wider=choice.query(type="", text=""),
        searched="" if found.are_all_searched else f"{MAX_SEARCHED:,}",
        rows=[rows.drawn(each) for each in found.groups],
        more=found.count - len(found.groups),
        count=found.count,
        total=found.total,
        shown_total=f"{found.total:,}",
        as_of=moment_time(found.as_of),
        has_begun=found.as_of > found.start,
    )


def _sources(user: Any) -> tuple[str, ...]:
    return (JOB, DISPATCH) if user.has_perm("dispatch.view_dispatch") else (JOB,)


def _read(query: QueryDict, now: datetime) -> FailuresChoice:
    reader = Reader(query)
    period = reader.period(now, parse_zone(get_current_timezone_name()))
    sort = reader.one_of("sort", SORTS, BY_COUNT)
    type_ = query.get("type", "").strip()
    try:
        type_ = type_ and read_parameter(filtering.key, type_)
    except ValueError as error:
        reader.problems.append(str(error).replace("\0", ""))
        type_ = ""
    return FailuresChoice(
        **period,
        type=type_,
        text=reader.text("text"),
        sort=sort,
        problems=tuple(reader.problems),
    )


def _states(groups: Sequence[Failure]) -> Mapping[Error, Mapping[str, int] | None]:
    """The states of the jobs of each group."""
    return states_of(
        (each.type_or_task, each.error_key)
        for each in groups
        if each.source == JOB and each.error_key != OTHER
    )


class _Rows:
    """Draws the groups of a page; a template would take ten times as long for a hundred of them.

    `states` are those of the jobs of a group, None where they are not known; a person who may not
    act on jobs has none.
    """

    def __init__(
        self,
        choice: FailuresChoice,
        start: datetime,
        now: datetime,
        *,
        titles: Mapping[str, str],
        states: Mapping[Error, Mapping[str, int] | None],
    ) -> None:
        self._start, self._now, self._titles, self._states = start, now, titles, states
        self._only = f"{choice.query(type='')}&type="
        self._back = urlencode({"back": reverse("failures") + choice.query()})
        acts = (("retry", gettext("Retry…")), ("cancel", gettext("Cancel…")))
        self._acts = [
            (title, {*STATUSES[name]}, reverse(GROUP_URL, args=[name])) for name, title in acts
        ]
        self._new = format_html(' <span class="failure-new">{}</span>', gettext("new"))
        self._newest = gettext("The newest job or dispatch with this error")
        self._last_seen, self._first_seen = gettext("Last seen"), gettext("First seen")

    def drawn(self, failure: Failure) -> SafeString:
        """The error group as HTML."""
        is_rest = failure.error_key == OTHER
        sample, url = (_rest if is_rest else _one)(failure)
        is_new = not is_rest and failure.first_seen >= self._start
        name = failure.type_or_task
        final = ngettext("%(count)s final", "%(count)s final", failure.final)
        return format_html(
            '<li class="failure panel"><div class="failure-what"><p class="failure-type">{}{}</p>'
            '<p class="failure-sample">{}</p></div><p class="failure-count"><strong>{}</strong> '
            '<span class="faint">{}</span></p>{}<dl class="failure-times"><div><dt>{}</dt>'
            "<dd>{}</dd></div><div><dt>{}</dt><dd>{}</dd></div></dl>"
            '<p class="failure-acts">{}</p></li>',
            link(self._only + quote(name), self._titles.get(name, name)),
            self._new if is_new else "",
            link(url, format_html("<bdi>{}</bdi>", sample), look="", title=self._newest),
            f"{failure.total:,}",
            final % {"count": f"{failure.final:,}"},
            _trend(failure),
            self._last_seen,
            relative(failure.last_seen, self._now),
            self._first_seen,
            short_time(failure.first_seen),
            "" if is_rest else self._ways(failure),
        )

    def _ways(self, failure: Failure) -> SafeString:
        """The links to the jobs or dispatches of the group, and to what is done with its jobs."""
        if failure.source != JOB:
            return _button(
                _failed(failure), gettext("Dispatches"), gettext("Failed dispatches of this task")
            )
        error = failure.type_or_task, failure.error_key
        group = {"type": error[0], "error_key": error[1]}
        listed = gettext("Jobs"), gettext("Jobs whose last error is this one")
        ways = [_button(list_url(Job, **group), *listed)]
        states = self._states.get(error, {})
        for title, acted_on, url in self._acts:
            if states is None or acted_on & states.keys():
                ways.append(_button(f"{url}?{urlencode(group)}&{self._back}", title))
        return joined(ways, " ")


def _button(url: str, words: str, explained: str = "") -> SafeString:
    return link(url, words, look="plain-button", title=explained)


def _one(failure: Failure) -> tuple[str, str]:
    """The text of the newest error, and the address of its job or dispatch."""
    model = Job if failure.source == JOB else Dispatch
    url = page_url(model, failure.subject_id)
    return shown_text(reason_of(failure.sample), limit=MAX_SAMPLE), url


def _rest(failure: Failure) -> tuple[str, str]:
    """The errors beyond the limit, with a link to all failed jobs or dispatches."""
    return gettext("Other errors (too many to list)"), _failed(failure)


def _failed(failure: Failure) -> str:
    """The list of all failed jobs of the type, or dispatches of the task."""
    if failure.source == JOB:
        asked = {"type": failure.type_or_task, "status": "failed"}
        return list_url(Job, **asked)
    source, _colon, task = failure.type_or_task.partition(":")
    asked = {"source": source, "task": task, "state": "failed"}
    return list_url(Dispatch, **asked)


def _trend(failure: Failure) -> SafeString:
    words = gettext("%(steps)d steps: highest %(max)d, last %(last)d.") % {
        "max": max(failure.trend),
        "steps": len(failure.trend),
        "last": failure.trend[-1],
    }
    return sparkline(failure.trend, words, failed=failure.trend)
