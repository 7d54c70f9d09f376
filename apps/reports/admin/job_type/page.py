"""The page of a job type: whether it fails, six figures, a day of it, why jobs fail, what runs and
what comes next. Its parts renew themselves."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from typing import Any
from urllib.parse import urlencode

from django.contrib import admin
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.urls import reverse
from django.utils.functional import Promise
from django.utils.timezone import get_current_timezone_name
from django.utils.translation import gettext, ngettext
from django.utils.translation import gettext_lazy as _

from apps.common import clock
from apps.common.admin.buttons import shared_out
from apps.common.admin.display import moment_time, short_time, shown_text
from apps.common.admin.html import list_url, page_link, page_url
from apps.common.errors import Invalid
from apps.common.masking import redact
from apps.common.zones import parse_zone
from apps.jobs.admin import labels
from apps.jobs.admin.job_groups import GROUP_URL
from apps.jobs.admin.type_state import state_of
from apps.jobs.admin.type_tabs import NOW, now_url, tabs_of
from apps.jobs.admin.worker_panels import LIVE_SECONDS, running_of
from apps.jobs.models import Job, JobType, bounds_of
from apps.jobs.rules.key_limit import KeyLimit
from apps.jobs.rules.transitions import FAILED
from apps.jobs.services.admission import most_blocked
from apps.jobs.services.counts import MAX_COUNTED, counts_of, oldest_due
from apps.jobs.services.error_states import MAX_LOOKED_AT
from apps.jobs.services.error_states import counts_of as counts_of_errors
from apps.journal.admin.words import reason_of
from apps.reports.admin.findings import shown_findings
from apps.reports.admin.job_type import chart
from apps.reports.admin.overview.times import zoned_clock
from apps.reports.permissions import may_report
from apps.reports.rules.tally import OTHER
from apps.reports.services.choice import PRESET_TITLES
from apps.reports.services.columns import duration, percent
from apps.reports.services.fact_sheet import LATELY, FactSheet, sheet_of_type
from apps.reports.services.failures import Failure
from apps.reports.services.of_type import SPANS, final_failures, past_of, through_time
from apps.reports.watches.base import look
from apps.reports.watches.jobs import BREAKER_OPEN, FAILURE_RATE
from apps.schedules.models import Schedule

DEFAULT_SPAN = "24h"
# The seconds after which the parts that change once a minute renew themselves.
SLOW_SECONDS = 30
MAX_RUNNING = 10
MAX_DUE = 5
MAX_KEYS = 20
MAX_SAMPLE = 160
# Below, a share of successes is marked; below the second one it is danger.
WELL, HALF = 0.95, 0.5


@dataclass(frozen=True)
class Figure:
    """One of the six figures; `look` is warning, danger or empty."""

    key: str
    title: str | Promise
    value: str
    note: str = ""
    url: str = ""
    look: str = ""


@dataclass(frozen=True)
class _Seen:
    """A type as one person sees it. The jobs of users are not counted together: with a limit to
    some of them there are only those that run."""

    request: HttpRequest
    row: JobType
    now: datetime

    def may(self, permission: str) -> bool:
        user: Any = self.request.user
        return bool(user.has_perm(permission))

    @cached_property
    def counts_jobs(self) -> bool:
        return self.may("jobs.view_job") and bounds_of(self.request.user).users is None

    @cached_property
    def has_figures(self) -> bool:
        return self.counts_jobs and may_report(self.request.user)

    @cached_property
    def sheet(self) -> FactSheet:
        return sheet_of_type(self.row.name)

    @property
    def span(self) -> str:
        asked = self.request.GET.get("period", "")
        return asked if asked in SPANS else DEFAULT_SPAN


def job_type_page(request: HttpRequest, pk: int) -> HttpResponse:
    """The page, or the part of it that `part` names."""
    model_admin: Any = admin.site.get_model_admin(JobType)
    row = model_admin.existing(request, pk, may="view")
    seen = _Seen(request, row, clock.now())
    part = request.GET.get("part", "")
    if part in PARTS:
        return render(request, f"admin/job_type/{part}.html", _drawn(seen, part))
    context = {name: value for each in PARTS for name, value in _drawn(seen, each).items()}
    return model_admin.page(  # type: ignore[no-any-return]
        request,
        "admin/job_type/page.html",
        title=row.name,
        header_tabs=tabs_of(row, NOW),
        is_fullwidth="1",
        add_url=_add_url(seen),
        **context,
        **shared_out(model_admin.buttons(request, row)),
    )


def _add_url(seen: _Seen) -> str:
    if not seen.may("jobs.add_job"):
        return ""
    return f"{reverse('admin:jobs_job_add')}?{urlencode({'type': seen.row.name})}"


def _drawn(seen: _Seen, part: str) -> dict[str, Any]:
    asked = {"part": part, **({"period": seen.span} if seen.span != DEFAULT_SPAN else {})}
    url = f"{now_url(seen.row.pk)}?{urlencode(asked)}"
    seconds = LIVE_SECONDS if part in ("present", "running") else SLOW_SECONDS
    return {"row": seen.row, part: PARTS[part](seen), f"{part}_live": (url, seconds)}


# --- the present state ----------------------------------------------------------------------------
def _present(seen: _Seen) -> dict[str, Any]:
    return {
        "troubles": [*_troubles(seen)],
        "state": state_of(seen.row, seen.now),
        "figures": _figures(seen) if seen.counts_jobs else [],
        "shown_now": zoned_clock(seen.now),
    }


def _troubles(seen: _Seen) -> list[dict[str, Any]]:
    """The troubles of the job type, each with the buttons beside it."""
    if not seen.counts_jobs:
        return []
    failing = [*shown_findings(look(FAILURE_RATE, seen.sheet), seen.may)]
    broken = [*shown_findings(look(BREAKER_OPEN, seen.sheet), seen.may)]
    groups = final_failures(seen.row.name, seen.sheet.stored) if failing else ()
    ways = [(gettext("See the failed jobs"), list_url(Job, type=seen.row.name, status=FAILED))]
    is_paused = seen.row.snapshot.is_paused(seen.now)
    if seen.may("jobs.operate_jobtype") and not is_paused:
        url = reverse("admin:jobs_jobtype_act", args=["pause"])
        ways.append((gettext("Pause…"), f"{url}?{urlencode({'ids': seen.row.pk})}"))
    why = _cause(groups[0]) if groups else ""
    return [
        *({"text": each.text, "why": why, "ways": ways} for each in failing),
        *({"text": each.text, "why": each.why, "ways": []} for each in broken),
    ]


def _figures(seen: _Seen) -> list[Figure]:
    name = seen.row.name
    counts = counts_of([name])[name]
    figures = [_waiting(seen, counts.ready, counts.blocked), _running(seen, counts.running)]
    past = past_of(name, seen.sheet.stored) if seen.has_figures else None
    if past is not None:
        lately, day = past
        figures += [
            _succeeded(seen, day.success_rate),
            _times("wait", _("wait p50 / p95"), lately.wait, day.wait),
            _times("run", _("run p50 / p95"), lately.run, day.run),
        ]
    figures.append(_next_due(seen, counts.scheduled))
    return figures


def _waiting_note(seen: _Seen, since: datetime | None, blocked: int) -> str:
    parts = [gettext("oldest %s") % labels.age(since, seen.now)] if since else []
    if blocked:
        parts.append(gettext("%s blocked") % labels.capped(blocked, MAX_COUNTED))
    return " · ".join(parts)


def _waiting(seen: _Seen, ready: int, blocked: int) -> Figure:
    name = seen.row.name
    since = oldest_due([name]).get(name) if ready else None
    return Figure(
        "waiting",
        _("waiting"),
        labels.capped(ready, MAX_COUNTED),
        _waiting_note(seen, since, blocked),
        list_url(Job, type=name, status=Job.Status.READY),
        "warning" if labels.waiting_too_long([seen.row.snapshot]) else "",
    )


def _running(seen: _Seen, running: int) -> Figure:
    limit, count = seen.row.max_running, labels.capped(running, MAX_COUNTED)
    if limit is not None:
        words = gettext("%(running)s of %(max)d") % {"running": count, "max": limit}
    return Figure(
        "running",
        _("running"),
        count if limit is None else words,
        gettext("limit reached") if limit is not None and running >= limit else "",
        list_url(Job, type=seen.row.name, status=Job.Status.RUNNING),
    )


def _succeeded(seen: _Seen, in_day: float | None) -> Figure:
    ends = seen.sheet.ended_lately.get(seen.row.name)
    share = 1 - ends.failed_share if ends and ends.ended else None
    look = "" if share is None or share >= WELL else "danger" if share <= HALF else "warning"
    minutes = LATELY.seconds // 60
    return Figure(
        "succeeded",
        gettext("succeeded, %d min") % minutes,
        percent(share),
        gettext("24 h: %s") % percent(in_day),
        _report_url(seen),
        look,
    )


def _times(key: str, title: str | Promise, lately: Any, day: Any) -> Figure:
    pair = "%s / %s"
    return Figure(
        key,
        title,
        pair % (duration(lately.p50), duration(lately.p95)),
        gettext("24 h: %s") % (pair % (duration(day.p50), duration(day.p95))),
    )


def _next_due(seen: _Seen, scheduled: int) -> Figure:
    first = next((at for at, _title, _url in _due(seen)), None)
    text = ngettext("%s job scheduled", "%s jobs scheduled", scheduled)
    return Figure(
        "due",
        _("next due"),
        "–" if first is None else labels.relative(first, seen.now),
        text % labels.capped(scheduled, MAX_COUNTED),
        list_url(Job, type=seen.row.name, status=Job.Status.SCHEDULED),
    )


# --- a day of it ----------------------------------------------------------------------------------
def _report_url(seen: _Seen, span: str = DEFAULT_SPAN) -> str:
    step, _count = SPANS[span]
    asked = {"source": "job", "by": step, "only": f"type:{seen.row.name}", "period": span}
    return f"{reverse('report')}?{urlencode(asked)}"


def _trend(seen: _Seen) -> dict[str, Any] | None:
    if not seen.has_figures:
        return None
    span, zone = seen.span, parse_zone(get_current_timezone_name())
    drawn: dict[str, Any] = {
        "title": PRESET_TITLES[span],
        "spans": [(PRESET_TITLES[name], f"?period={name}", name == span) for name in SPANS],
        "report_url": _report_url(seen, span),
    }
    try:
        summary = through_time(seen.row.name, span, zone, seen.sheet.stored)
    except Invalid:
        text = gettext("The hours and days of this time zone are not kept for so long.")
        return {**drawn, "why_not": text}
    if summary is None or not summary.total.total:
        return {**drawn, "why_not": gettext("Nothing ended in this period.")}
    return {**drawn, "picture": chart.picture(summary, span), "until": moment_time(summary.as_of)}


# --- why jobs fail --------------------------------------------------------------------------------
def _failures(seen: _Seen) -> dict[str, Any] | None:
    if not seen.counts_jobs:
        return None
    name = seen.row.name
    groups = final_failures(name, seen.sheet.stored)
    counts = counts_of_errors((name, each.error_key) for each in groups if each.error_key != OTHER)
    is_open = bounds_of(seen.request.user).are_open
    return {
        "groups": [_group(seen, each, counts.get((name, each.error_key))) for each in groups],
        "all_url": f"{reverse('failures')}?{urlencode({'type': name})}" if is_open else "",
    }


def _cause(failure: Failure) -> str:
    return shown_text(reason_of(failure.sample), limit=MAX_SAMPLE)


def _group(seen: _Seen, failure: Failure, states: Any) -> dict[str, Any]:
    asked = {"type": seen.row.name, "error_key": failure.error_key}
    drawn = {
        "count": f"{failure.final:,}",
        "last": short_time(failure.last_seen),
        "is_now": seen.now - failure.last_seen < LATELY,
    }
    if states is None:
        url = list_url(Job, type=seen.row.name, status=FAILED)
        return {**drawn, "text": gettext("Other errors (too many to list)"), "url": url}
    drawn |= {"text": _cause(failure), "url": page_url(Job, failure.subject_id)}
    if seen.may("jobs.operate_job") and states[FAILED]:
        back = {"back": now_url(seen.row.pk)}
        more = "+" if states.total() == MAX_LOOKED_AT else ""
        drawn["retry"] = gettext("Retry %s") % f"{states[FAILED]:,}{more}"
        drawn["retry_url"] = f"{reverse(GROUP_URL, args=['retry'])}?{urlencode({**asked, **back})}"
    return drawn


# --- what runs, and what comes --------------------------------------------------------------------
def _runs(seen: _Seen) -> dict[str, Any] | None:
    if not seen.may("jobs.view_job"):
        return None
    return running_of(seen.row.name, seen.request.user, MAX_RUNNING)


def _blocked(seen: _Seen) -> dict[str, Any] | None:
    """The keys with most blocked jobs; their values for those who see contexts."""
    limit = seen.row.snapshot.key_limit
    if limit is None or not seen.counts_jobs:
        return None
    crowded = most_blocked(seen.row.name, MAX_KEYS)
    jobs = Job.objects.in_bulk([each.job for each in crowded])
    shows = limit.is_column or seen.may("jobs.view_payload")
    return {
        "by": limit.by,
        "lines": [
            {
                "value": shown_text(_value(limit, jobs[each.job]), limit=80) if shows else "",
                "count": f"{each.blocked:,}",
                "first": page_link(Job, each.job, str(each.job)),
            }
            for each in crowded
            if each.job in jobs
        ],
    }


def _value(limit: KeyLimit, job: Job) -> str:
    return limit.value(key=job.key, user_id=job.user_id, context=redact(job.context)) or "–"


def _due(seen: _Seen) -> list[tuple[datetime, str, str]]:
    """The next schedules of the type: when, their titles and addresses."""
    if not seen.may("schedules.view_schedule"):
        return []
    own = Schedule.objects.visible_to(seen.request.user).filter(
        job_type=seen.row.name, status=Schedule.Status.ACTIVE, next_at__isnull=False
    )
    found = own.order_by("next_at").values_list("next_at", "title", "pk")[:MAX_DUE]
    return [(at, shown_text(title), page_url(Schedule, pk)) for at, title, pk in found if at]


def _schedules(seen: _Seen) -> dict[str, Any] | None:
    if not seen.may("schedules.view_schedule"):
        return None
    return {
        "lines": [
            {
                "at": short_time(at),
                "wait": labels.relative(at, seen.now),
                "title": title,
                "url": url,
            }
            for at, title, url in _due(seen)
        ],
        "all_url": list_url(Schedule, type=seen.row.name),
    }


PARTS: dict[str, Callable[[_Seen], Any]] = {
    "present": _present,
    "trend": _trend,
    "failures": _failures,
    "running": _runs,
    "blocked": _blocked,
    "schedules": _schedules,
}
