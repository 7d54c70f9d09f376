"""The six figures of the home page, each with its line through the last hour."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from urllib.parse import urlencode

from django.db.models import Min
from django.urls import reverse
from django.utils.functional import Promise
from django.utils.safestring import SafeString
from django.utils.translation import gettext, ngettext
from django.utils.translation import gettext_lazy as _

from apps.common.admin.html import list_url
from apps.dispatch.models import Dispatch, Executor
from apps.dispatch.services import silent_people
from apps.jobs.admin.labels import age, capped
from apps.jobs.conf import conf
from apps.jobs.models import Job
from apps.jobs.services import counts
from apps.journal.services.minutes import second_of
from apps.reports.admin.overview.sight import Sight
from apps.reports.admin.sparkline import line
from apps.reports.rules.coverage import MINUTE, floor
from apps.reports.rules.outcomes import DISPATCH, JOB
from apps.reports.services import counts_by_minute, lately
from apps.reports.services.choice import stamp
from apps.reports.services.columns import duration, percent
from apps.reports.services.fact_sheet import FactSheet
from apps.reports.services.lately import Window

MAX_COUNTED = 5_000
BAD, WARN = "bad", "warn"
# The sweep closes overdue dispatches within this time.
_CLOSED_WITHIN = timedelta(seconds=30)
# A rate below that of yesterday by so much is marked, and a time so many times as long.
_NOTABLE, _LONGER = 0.05, 3
_TOO_SHORT = 1_000


@dataclass(frozen=True, kw_only=True)
class Figure:
    """A number that leads to what it counts; `key` stays the same at each refresh."""

    key: str
    title: str | Promise
    value: str
    url: str
    note: str = ""
    tone: str = ""
    line: SafeString


def figures(sight: Sight, status: FactSheet, hours: Mapping[str, Window]) -> list[Figure]:
    """The figures that this person sees; `hours` has the last hour of jobs if they see that."""
    stood = _noted_minutes(sight, status.now)
    found: list[Figure] = []
    if JOB in sight.shown:
        found.append(_waiting(sight, status, stood))
        if JOB in hours:
            found += _of_the_hour(sight, status, hours[JOB])
    if DISPATCH in sight.shown:
        found.append(_open(sight, status, stood))
    if sight.permits("dispatch.view_executor") and sight.bound != []:
        found.append(_silent(sight, stood))
    return found


def _noted_minutes(sight: Sight, now: datetime) -> Sequence[tuple[int, int, int]]:
    """Jobs waiting, dispatches open and people silent in each minute of the last hour; [] for
    people with limits."""
    if not sight.sees_all:
        return []
    end = floor(second_of(now), MINUTE) + MINUTE
    known = counts_by_minute.counts_between(end - lately.MINUTES * MINUTE, end)
    return [known[at] for at in sorted(known)]


# --- jobs -----------------------------------------------------------------------------------------
def _waiting(sight: Sight, status: FactSheet, stood: Sequence[tuple[int, int, int]]) -> Figure:
    if sight.job_types is None:
        count = status.ready(MAX_COUNTED)
    else:
        count = counts.totals_of(sight.job_types, MAX_COUNTED)["ready"]
    paused = {each.name for each in status.types if each.is_paused(status.now)}
    dues = {
        name: since
        for name, since in status.oldest_due_by_type.items()
        if name not in paused and sight.sees_type(name)
    }
    oldest = min(dues.values(), default=None)
    note, tone = gettext("none is due"), ""
    if oldest is not None:
        note = gettext("oldest %s") % age(oldest, status.now)
        is_late = status.now - oldest > timedelta(seconds=conf.JOB_STARVATION_SECONDS)
        tone = WARN if is_late else ""
    return Figure(
        key="waiting",
        title=_("Jobs waiting"),
        value=capped(count, MAX_COUNTED),
        url=list_url(Job, status=Job.Status.READY),
        note=note,
        tone=tone,
        line=line([waiting for waiting, _open, _silent in stood]),
    )


def _of_the_hour(sight: Sight, status: FactSheet, last: Window) -> Iterator[Figure]:
    chosen = lately.selection(JOB, sight.job_types)
    before = lately.yesterday(status.now, status.stored, chosen)
    report = report_url(JOB, "type", last.until)
    rate, then = last.success_rate, before.success_rate
    yield Figure(
        key="succeeded",
        title=_("Jobs succeeded"),
        value=percent(rate),
        url=report,
        note=_yesterday(percent(then)),
        tone=_rate_tone(rate, then),
        line=line(last.line_of_success()),
    )
    for key, title, name in (
        ("wait", _("Wait p95"), "waits"),
        ("run", _("Run p95"), "runs"),
    ):
        now, day_before = last.p95(name), before.p95(name)
        yield Figure(
            key=key,
            title=title,
            value=duration(now),
            url=report,
            note=_yesterday(duration(day_before)),
            tone=_time_tone(now, day_before),
            line=line(last.line_of_p95(name)),
        )


def _yesterday(text: str) -> str:
    return gettext("yesterday %s") % text


def _rate_tone(rate: float | None, before: float | None) -> str:
    if rate is None or rate > 0.99:
        return ""
    if rate < 0.5 or (before is not None and before - rate >= _NOTABLE):
        return BAD
    return ""


def _time_tone(now: int | None, before: int | None) -> str:
    if now is None or before is None or now < _TOO_SHORT:
        return ""
    return WARN if now > before * _LONGER else ""


def report_url(source: str, by: str, until: datetime) -> str:
    """The address of the report of the hour up to an instant."""
    period = {"from": stamp(until - timedelta(hours=1)), "to": stamp(until)}
    return f"{reverse('report')}?{urlencode({'source': source, 'by': by, **period})}"


# --- dispatches and people ------------------------------------------------------------------------
def _open(sight: Sight, status: FactSheet, stood: Sequence[tuple[int, int, int]]) -> Figure:
    if sight.bound is None:
        count, over, deadline = status.open_dispatches(MAX_COUNTED)
    else:
        is_open = sight.dispatches.filter(state=Dispatch.State.OPEN)
        deadline = is_open.aggregate(at=Min("deadline_at"))["at"]
        count = is_open.order_by()[:MAX_COUNTED].count()
        late = is_open.filter(deadline_at__lte=status.now)
        over = late.order_by()[:MAX_COUNTED].count()
    note = gettext("none overdue")
    if over:
        note = ngettext("%s overdue", "%s overdue", over)
        note %= capped(over, MAX_COUNTED)
    is_over = deadline is not None and status.now - deadline > _CLOSED_WITHIN
    return Figure(
        key="open",
        title=_("Dispatches open"),
        value=capped(count, MAX_COUNTED),
        url=list_url(Dispatch, state=Dispatch.State.OPEN),
        note=note,
        tone=WARN if is_over else "",
        line=line([open_ for _waiting, open_, _silent in stood]),
    )


def _silent(sight: Sight, stood: Sequence[tuple[int, int, int]]) -> Figure:
    found = silent_people.read_silent_people(sight.bound)
    count = f"{found.silent.count:,}" + ("" if found.silent.is_whole else "+")
    value = gettext("%(some)s of %(all)s") % {
        "some": count,
        "all": capped(found.people, MAX_COUNTED),
    }
    note = gettext("with work in hand")
    if found.silent_since is not None:
        # Seconds would be cut at the edge of the tile; nobody is silent before ten minutes.
        minutes = (found.at - found.silent_since) // timedelta(minutes=1)
        note = gettext("holds work, %s") % duration(minutes * 60_000)
    return Figure(
        key="silent",
        title=_("People silent"),
        value=value,
        url=list_url(Executor, kind=Executor.Kind.USER, silent="True"),
        note=note,
        tone=WARN if found.silent.count else "",
        line=line([silent for _waiting, _open, silent in stood]),
    )
