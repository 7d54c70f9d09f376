"""The tiles and rows of a report as HTML, and the links of their figures."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from html import escape
from typing import Any

from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.translation import get_language, gettext

from apps.common.admin.html import link, noted
from apps.reports.admin import links
from apps.reports.rules.sketch import lower_bound
from apps.reports.services.choice import Choice
from apps.reports.services.columns import TILES, Column, Row, change
from apps.reports.services.summary import DAY, HOUR, MINUTE, Figures, Summary


@dataclass(frozen=True)
class Tile:
    """A total, and its change since the period before."""

    title: str
    text: str
    url: str
    before: str
    change: str
    tone: str


@dataclass(frozen=True)
class Heading:
    """The head of a column; `url` sorts by it, `arrow` shows the present order."""

    title: str
    url: str
    arrow: str = ""


def tiles(choice: Choice, summary: Summary, before: Figures) -> Iterator[Tile]:
    now = summary.total
    entries = links.between(links.entries_of(choice), summary.start, summary.as_of)
    for column in TILES[choice.source]:
        value, old = column.value(now), column.value(before)
        text, tone = change(column, value, old)
        yield Tile(
            title=str(column.title),
            text=column.shown(value),
            url=_narrowed(column, entries, value) if column.has_entries(value) else "",
            before=column.shown(old),
            change=text,
            tone=tone,
        )


def headings(choice: Choice, columns: Sequence[Column]) -> Iterator[Heading]:
    for column in columns:
        falling = f"-{column.name}"
        arrow = {column.name: "▲", falling: "▼"}.get(choice.sort, "")
        sort = column.name if choice.sort == falling else falling
        yield Heading(str(column.title), choice.query(sort=sort), arrow)


def group_row(
    choice: Choice, by: str, row: Row, columns: Sequence[Column], title: str = ""
) -> SafeString:
    """A row of a group, by its title if it has one. It links to its own report, the icon to the
    list of its jobs or dispatches. Drawn without a template, which would take ten times as long."""
    name = row.figures.group
    group = (by, name)
    beside = format_html(
        ' <a class="report-list" href="{}" title="{}" aria-label="{}"><span '
        'class="material-symbols-outlined" aria-hidden="true">list</span></a>',
        links.rows_of(choice, group),
        gettext("Its jobs, dispatches or runs"),
        gettext("Jobs, dispatches or runs: %(name)s") % {"name": name},
    )
    below = noted(beside, name if title else "")
    head = _head(title or name, links.report_of(choice, group), below)
    return head + cells(choice, row, columns, group)


def time_rows(
    choice: Choice,
    by: str,
    rows: Sequence[Row],
    columns: Sequence[Column],
    name_of: Mapping[datetime, str],
) -> list[SafeString]:
    """Rows of times; a day links to its hours, an hour to its minutes while they are stored."""
    finer = {DAY: HOUR, HOUR: MINUTE}.get(by, "")
    report = links.report_by(choice, finer) if finer else ""

    def url(row: Row) -> str:
        if not finer or (finer == MINUTE and row.since < choice.minutes_from):
            return ""
        return links.from_to(report, row.since, row.until)

    return [_head(name_of[row.since], url(row)) + cells(choice, row, columns) for row in rows]


def _head(name: str, url: str, beside: str = "") -> SafeString:
    head = link(url, name, look="") if url else name
    return format_html('<th scope="row">{}{}</th>', head, beside)


def cells(
    choice: Choice, row: Row, columns: Sequence[Column], group: tuple[str, str] | None = None
) -> SafeString:
    """The figures of a row, each with a link to the entries behind it."""
    entries = links.between(links.entries_of(choice, group), row.since, row.until)
    url, language, figures = escape(entries), get_language(), row.figures
    drawn = []
    for column in columns:
        value = column.value(figures)
        text = _shown(column.shown, value, language)
        if column.has_entries(value):
            text = f'<a href="{url}{escape(_narrowed(column, "", value))}">{text}</a>'
        drawn.append(f"<td>{text}</td>")
    return SafeString("".join(drawn))


@functools.lru_cache(maxsize=1 << 14)
def _shown(shown: Callable[[Any], str], value: Any, _language: str | None) -> str:
    """The value as HTML; tables repeat small values."""
    return escape(shown(value))


def _narrowed(column: Column, entries: str, value: Any) -> str:
    """The address of the entries behind the value."""
    if column.bound:
        # A percentile is the middle of its bin, which begins a bit below.
        return links.at_least(entries, column.bound, lower_bound(value))
    return links.counted_as(entries, column.counted)
