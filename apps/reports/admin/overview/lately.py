"""The part of the overview that changes once a minute: the last hour."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from urllib.parse import quote, urlencode

from django.urls import reverse
from django.utils.functional import Promise
from django.utils.html import escape
from django.utils.safestring import SafeString
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from apps.common.admin.display import shown_text
from apps.dispatch.models import Dispatch, Executor
from apps.jobs.models import Job, JobType
from apps.reports.admin.choice import stamp
from apps.reports.admin.overview.sight import Sight
from apps.reports.admin.overview.tiles import (
    DANGER,
    WARNING,
    Panel,
    Tile,
    listed,
    rate,
)
from apps.reports.admin.report import ATTEMPTS, JOBS, duration, percent
from apps.reports.admin.sparkline import sparkline
from apps.reports.rules.outcomes import DISPATCH, JOB
from apps.reports.services import lately
from apps.reports.services.coverage import Stored
from apps.reports.services.lately import Ended, Minutes, Trend

MAX_COUNTED = 5_000
_TITLES = {JOB: _("Jobs, last hour"), DISPATCH: _("Dispatches, last hour")}
_MODELS = {JOB: Job, DISPATCH: Dispatch}
_BY = {JOB: "type", DISPATCH: "task"}
# Reports count each attempt at a job as an end, too.
_ENDED = {JOB: JOBS.title, DISPATCH: _("ended")}
_FLOW_MINUTES = lately.FLOW // timedelta(minutes=1)
# A success rate that fell by this much since the hour before is marked.
_NOTABLE = 0.05


@dataclass(frozen=True, kw_only=True)
class Table:
    """The trends of types or groups as rows of HTML; None when there are too many."""

    key: str
    title: str | Promise
    heading: str | Promise
    ended: str | Promise
    url: str
    rows: list[SafeString] | None


def panels(sight: Sight, sources: Collection[str], stored: Stored, until: datetime) -> list[Panel]:
    """A panel for each of these sources."""
    whole = [source for source in sources if not sight.is_limited(source)]
    came = lately.came_in([_MODELS[source] for source in whole], until, MAX_COUNTED)
    minutes = Minutes.read(until, [lately.of_all(source) for source in whole])
    ended = lately.last_hours(stored, sources, executors=sight.executors)
    found = []
    for source in sources:
        tiles, picture = list[Tile](), None
        if source in whole:
            trend = minutes.trend_of_all(source)
            tiles += _flow(source, came[_MODELS[source]], trend, until)
            picture = _picture(trend)
        tiles += _ends(sight, source, *ended[source], until)
        panel = Panel(key=f"hour-{source}", title=_TITLES[source], tiles=tiles, picture=picture)
        found.append(panel)
    return found


def _flow(source: str, came: int, trend: Trend, until: datetime) -> Iterator[Tile]:
    model = _MODELS[source]
    minutes = gettext("last %d minutes") % _FLOW_MINUTES
    yield Tile(
        key=f"{source}-in",
        title=_("in"),
        value=rate(came, _FLOW_MINUTES, MAX_COUNTED),
        url=listed(model, since=stamp(until - lately.FLOW), until=stamp(until)),
        note=minutes,
    )
    yield Tile(
        key=f"{source}-out",
        title=_("out"),
        value=rate(trend.flow, _FLOW_MINUTES),
        url=_report(source, _BY[source], until, lately.FLOW),
        note=minutes,
    )


def _report(source: str, by: str, until: datetime, length: timedelta = timedelta(hours=1)) -> str:
    """The address of the report of the time up to an instant."""
    period = {"from": stamp(until - length), "to": stamp(until)}
    return f"{reverse('report')}?{urlencode({'source': source, 'by': by, **period})}"


def _ends(sight: Sight, source: str, last: Ended, before: Ended, until: datetime) -> Iterator[Tile]:
    report = _report(source, "executor" if sight.is_limited(source) else _BY[source], until)
    yield Tile(
        key=f"{source}-ended",
        title=_ENDED[source],
        value=f"{last.ended:,}",
        url=report,
        note=_before(f"{before.ended:,}"),
    )
    if source == JOB:
        yield Tile(
            key=f"{source}-attempts",
            title=ATTEMPTS.title,
            value=f"{last.attempts:,}",
            url=report,
            note=_before(f"{before.attempts:,}"),
        )
    yield Tile(
        key=f"{source}-success",
        title=_("succeeded"),
        value=percent(last.success_rate),
        url=report,
        note=_before(percent(before.success_rate)),
        tone=_tone(last.success_rate, before.success_rate),
    )
    yield Tile(
        key=f"{source}-wait",
        title=_("wait p95"),
        value=duration(last.wait_p95),
        url=report,
        note=_before(duration(before.wait_p95)),
    )
    yield Tile(
        key=f"{source}-run",
        title=_("run p95"),
        value=duration(last.run_p95),
        url=report,
        note=_before(duration(before.run_p95)),
    )


def _before(text: str) -> str:
    return gettext("hour before: %s") % text


def _tone(last: float | None, before: float | None) -> str:
    if last is None or last > 0.99:
        return ""
    if last < 0.5:
        return DANGER
    return WARNING if before is not None and before - last >= _NOTABLE else ""


def tables(
    sight: Sight, sources: Collection[str], until: datetime, types: Collection[str]
) -> list[Table]:
    """The trends of types and groups; `types` are the names of all types."""
    groups = _groups(sight) if DISPATCH in sources else []
    series = [lately.OF_TYPES] if JOB in sources else []
    series += [lately.OF_GROUPS] if groups else []
    minutes = Minutes.read(until, series)
    found = []
    if lately.OF_TYPES in series:
        table = Table(
            key="types",
            title=_("Job types, last hour"),
            heading=_("Type"),
            ended=_ENDED[JOB],
            url=listed(JobType),
            rows=_rows(
                "type",
                minutes.trends_of_types(types),
                f"{listed(Job)}?type=",
                f"{_report(JOB, 'minute', until)}&only=type%3A",
            ),
        )
        found.append(table)
    if lately.OF_GROUPS in series:
        only = None
        if sight.is_limited(DISPATCH):
            only = set(sight.groups.values_list("name", flat=True))
        table = Table(
            key="groups",
            title=_("Executor groups, last hour"),
            heading=_("Group"),
            ended=_ENDED[DISPATCH],
            url=listed(Executor, kind=Executor.Kind.GROUP),
            rows=_rows(
                "group",
                minutes.trends_of_groups(groups, only=only),
                *[f"{listed(Dispatch)}?executor="] * 2,
            ),
        )
        found.append(table)
    return found


def _groups(sight: Sight) -> list[str]:
    """The names of the first visible groups."""
    if not sight.may("dispatch.view_executor"):
        return []
    names = sight.groups.order_by("name").values_list("name", flat=True)
    return list(names[: lately.MAX_DRAWN])


def _rows(kind: str, trends: list[Trend] | None, url: str, report: str) -> list[SafeString] | None:
    """`url` and `report` are addresses to which the name is appended."""
    if trends is None:
        return None
    return [_drawn(kind, trend, url, report) for trend in trends]


def _drawn(kind: str, trend: Trend, url: str, report: str) -> SafeString:
    """The row of a type or group; drawn without a template, as tiles are."""
    name, quoted = shown_text(trend.name), quote(trend.name, safe="")
    report = f'<td><a class="text-link" href="{escape(report + quoted)}">'
    return SafeString(
        f'<tr id="overview-{kind}-{escape(trend.name)}">'
        f'<th scope="row"><a class="text-link" href="{escape(url + quoted)}">'
        f"{escape(name)}</a></th>"
        f"<td>{_picture(trend)}</td>"
        f"{report}{trend.total:,}</a></td>"
        f"{report}{escape(percent(trend.success_rate))}</a></td></tr>"
    )


def _picture(trend: Trend) -> SafeString:
    return sparkline(trend.ended, _words(trend), failed=trend.failed)


def _words(trend: Trend) -> str:
    highest = max(trend.ended)
    if not highest:
        return gettext("Nothing ended in the last hour.")
    return gettext(
        "%(ended)s ended in the last hour, %(max)s in the busiest minute and %(last)s in the "
        "newest; %(failed)s failed."
    ) % {
        "ended": f"{trend.total:,}",
        "max": f"{highest:,}",
        "last": f"{trend.ended[-1]:,}",
        "failed": f"{sum(trend.failed):,}",
    }
