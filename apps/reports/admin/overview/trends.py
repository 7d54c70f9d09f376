"""The part of the overview that changes once a minute: the last hour, minute by minute."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime
from urllib.parse import quote

from django.utils.functional import Promise
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from apps.common.admin.display import shown_text
from apps.common.admin.html import link, list_url
from apps.dispatch.models import Dispatch, Executor
from apps.jobs.models import Job, JobType
from apps.reports.admin.minute_chart import minute_chart
from apps.reports.admin.overview.hour import ENDED, clock_time, report_url
from apps.reports.admin.overview.sight import Sight
from apps.reports.admin.sparkline import sparkline
from apps.reports.rules.outcomes import DISPATCH, JOB
from apps.reports.services import lately
from apps.reports.services.columns import percent
from apps.reports.services.lately import Minutes, Trend

_CHARTS = {JOB: _("Jobs ended each minute"), DISPATCH: _("Dispatches ended each minute")}


@dataclass(frozen=True, kw_only=True)
class Chart:
    """The ends of a source, minute by minute; `url` is its report."""

    key: str
    title: str | Promise
    url: str
    picture: SafeString | None
    words: str


def charts(sight: Sight, sources: Collection[str], until: datetime) -> list[Chart]:
    """A chart for each of the sources of which this person sees everything."""
    whole = [source for source in sources if not sight.is_limited(source)]
    minutes = Minutes.read(until, [lately.of_all(source) for source in whole])
    return [_chart(source, minutes.trend_of_all(source), until) for source in whole]


def _chart(source: str, trend: Trend, until: datetime) -> Chart:
    words = _words(trend, until)
    picture = minute_chart(trend.ended, trend.failed, until, words)
    return Chart(
        key=f"chart-{source}",
        title=_CHARTS[source],
        url=report_url(source, "minute", until),
        picture=picture if trend.total else None,
        words=words,
    )


@dataclass(frozen=True, kw_only=True)
class Table:
    """The trends of the busiest types or groups as rows of HTML; None when there are too many."""

    key: str
    title: str | Promise
    heading: str | Promise
    ended: str | Promise
    url: str
    rows: list[SafeString] | None


def tables(sight: Sight, sources: Collection[str], until: datetime) -> list[Table]:
    """The trends of types and groups in which something ended."""
    sees_groups = DISPATCH in sources and sight.may("dispatch.view_executor")
    series = [lately.OF_TYPES] if JOB in sources else []
    series += [lately.OF_GROUPS] if sees_groups else []
    minutes = Minutes.read(until, series)
    found = []
    if lately.OF_TYPES in series:
        table = Table(
            key="types",
            title=_("Job types, last hour"),
            heading=_("Type"),
            ended=ENDED[JOB],
            url=list_url(JobType),
            rows=_rows(
                "type",
                minutes.trends_of_types(),
                until,
                f"{list_url(Job)}?type=",
                f"{report_url(JOB, 'minute', until)}&only=type%3A",
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
            ended=ENDED[DISPATCH],
            url=list_url(Executor, kind=Executor.Kind.GROUP),
            rows=_rows(
                "group",
                minutes.trends_of_groups(only=only),
                until,
                *[f"{list_url(Dispatch)}?executor="] * 2,
            ),
        )
        found.append(table)
    return [table for table in found if table.rows != []]


def _rows(
    kind: str, trends: list[Trend] | None, until: datetime, url: str, report: str
) -> list[SafeString] | None:
    """`url` and `report` are addresses to which the name is appended."""
    if trends is None:
        return None
    return [_drawn(kind, trend, until, url, report) for trend in trends]


def _drawn(kind: str, trend: Trend, until: datetime, url: str, report: str) -> SafeString:
    """The row of a type or group; drawn without a template, as tiles are."""
    quoted = quote(trend.name, safe="")
    return format_html(
        '<tr id="overview-{}-{}"><th scope="row">{}</th><td>{}</td><td>{}</td><td>{}</td></tr>',
        kind,
        trend.name,
        link(url + quoted, shown_text(trend.name)),
        sparkline(trend.ended, _words(trend, until), failed=trend.failed),
        link(report + quoted, f"{trend.total:,}"),
        link(report + quoted, percent(trend.success_rate)),
    )


def _words(trend: Trend, until: datetime) -> str:
    highest = max(trend.ended)
    if not highest:
        return gettext("Nothing ended in the hour up to %s.") % clock_time(until)
    return gettext(
        "%(ended)s ended in the last hour, %(max)s in the busiest minute and %(last)s in the "
        "newest; %(failed)s failed."
    ) % {
        "ended": f"{trend.total:,}",
        "max": f"{highest:,}",
        "last": f"{trend.ended[-1]:,}",
        "failed": f"{sum(trend.failed):,}",
    }
