"""The message of a report: its figures at the time of its run, as its owner may see them now."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.conf import settings
from django.urls import reverse
from django.utils import translation
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString
from django.utils.text import capfirst
from django.utils.translation import gettext as _

from apps.alerts.channels.contract import Mail, Message
from apps.alerts.channels.kinds import MAIL
from apps.alerts.models import Channel, Delivery, Event, ReportPlan
from apps.alerts.rules.text_table import text_table
from apps.alerts.services.report_plans import choice_of, find_plan, why_not_by
from apps.common.admin.html import joined
from apps.common.chunks import chunks
from apps.common.errors import Conflict
from apps.common.messages import wire_time
from apps.common.readers import read_instant
from apps.reports.rules.outcomes import JOB
from apps.reports.services.choice import SOURCES, TABS, Choice
from apps.reports.services.columns import (
    COLUMNS,
    JOBS,
    TILES,
    Column,
    Row,
    change,
    columns_of,
    time_names,
)
from apps.reports.services.sheet import Sheet, View, csv_of, local, read_sheet, span
from apps.reports.services.summary import Figures
from apps.reports.services.titles import titles

# Rows of the table in a mail, and of a webhook; the file has all.
MAX_ROWS = 50
# The lines of figures in a message of a bot, below the line of the period.
_LINES = 4
_CELL = "padding:2px 10px;text-align:right;white-space:nowrap"
_NAME = "padding:2px 10px;text-align:left"


def message_of(delivery: Delivery) -> Message:
    """The message, in the language of the channel. Invalid when the report has no figures, NotFound
    when its plan was deleted, Conflict when its owner may not see it any more."""
    plan, channel = find_plan(pk=delivery.message["plan"]), delivery.channel
    if why := why_not_by(plan.owner):
        raise Conflict(why)
    assert plan.owner is not None  # noqa: S101
    at = read_instant(delivery.message["at"])
    with translation.override(channel.language):
        view = View.of(plan.owner)
        choice = choice_of(plan.query, view, at)
        # The file of a mail has all groups.
        sheet = read_sheet(choice, view, is_whole=channel.kind == MAIL)
        return _Written(plan, at, channel, sheet).message(str(delivery.pk))


@dataclass(frozen=True)
class _Written:
    """One report in the words of a channel."""

    plan: ReportPlan
    at: datetime
    channel: Channel
    sheet: Sheet

    def message(self, number: str) -> Message:
        text, url = "\n".join(self._lines()), self._url
        return Message(
            id=number,
            title=self.plan.title,
            text=text,
            url=url,
            open=_("Open the report"),
            is_report=True,
            wire={**self._wire(), "id": number, "url": url, "text": text},
            mail=self._mail(text) if self.channel.kind == MAIL else None,
        )

    @property
    def _url(self) -> str:
        """The report with the period that was sent."""
        choice = self.sheet.choice
        query = choice.query(preset="", start=choice.start, end=choice.end)
        return f"{settings.PUBLIC_URL}{reverse('report')}{query}"

    # --- the figures ------------------------------------------------------------------------------
    @property
    def _columns(self) -> Sequence[Column]:
        return columns_of(self.sheet.choice, self.sheet.total)

    def _rows(self) -> tuple[list[tuple[str, Row]], int]:
        """The first rows with their names, and how many more there are."""
        choice, rows = self.sheet.choice, self.sheet.listed[:MAX_ROWS]
        names = [row.figures.group for row in rows]
        if choice.by == "task":
            known = titles(names)
            names = [f"{known[name]} ({name})" if name in known else name for name in names]
        elif not choice.is_by_group:
            names = time_names(choice, choice.time_step, rows)
        return list(zip(names, rows, strict=True)), self.sheet.hidden_count(len(rows))

    # --- for bots ---------------------------------------------------------------------------------
    def _lines(self) -> Iterator[str]:
        """The period, and the totals in four lines."""
        sheet, choice = self.sheet, self.sheet.choice
        summary = sheet.through_time
        period = span(choice, summary.start, choice.end)
        yield f"{SOURCES[choice.source]} · {period} · {choice.zone.key}"
        if not summary.total.total:
            yield self.sheet.why_empty
            return
        totals = [*self._totals()]
        size = -(-len(totals) // _LINES)
        for part in chunks(totals, size):
            yield " · ".join(part)

    def _totals(self) -> Iterator[str]:
        for column in TILES[self.sheet.choice.source]:
            now, old = (column.value(each) for each in (self.sheet.total, self.sheet.before))
            changed, _tone = change(column, now, old)
            text = f"{capfirst(str(column.title))} {column.shown(now)}"
            yield f"{text} ({changed})" if changed else text

    # --- for mail ---------------------------------------------------------------------------------
    def _mail(self, text: str) -> Mail:
        choice, columns = self.sheet.choice, self._columns
        rows, more = self._rows()
        head = [str(TABS[choice.by]), *(capfirst(str(column.title)) for column in columns)]
        cells = [[name, *_cells(columns, row.figures)] for name, row in rows]
        cells.append([capfirst(_("total")), *_cells(columns, self.sheet.total)])
        as_of = _("Added up to %s.") % local(choice, self.sheet.through_time.as_of)
        note = _("and %d more in the file") % more if more > 0 else ""
        name, file = csv_of(self.sheet)
        table = text_table([head, *cells]) if self.sheet.total.total else ""
        parts = [text, table, note, as_of, self._url]
        return Mail(
            text="\n\n".join(part for part in parts if part) + "\n",
            html=self._html(text, head, cells if table else [], note, as_of),
            file_name=name,
            file=file,
        )

    def _html(
        self,
        text: str,
        head: Sequence[str],
        cells: Sequence[Sequence[str]],
        note: str,
        as_of: str,
    ) -> SafeString:
        lines = joined(text.split("\n"), SafeString("<br>"))
        table = SafeString()
        if cells:
            table = format_html(
                '<table style="border-collapse:collapse"><thead>{}</thead><tbody>{}</tbody></table>'
                "<p>{}</p>",
                _html_row("th", head),
                joined(_html_row("td", row) for row in cells),
                note,
            )
        return format_html(
            '<p>{}</p>{}<p>{}</p><p><a href="{}">{}</a></p>',
            lines,
            table,
            as_of,
            self._url,
            _("Open the report"),
        )

    # --- for programs -----------------------------------------------------------------------------
    def _wire(self) -> dict[str, Any]:
        choice, summary, plan = self.sheet.choice, self.sheet.through_time, self.plan
        rows, more = self._rows()
        return {
            "event": Event.REPORT,
            "plan": {"id": plan.pk, "title": plan.title},
            "at": wire_time(self.at),
            "source": choice.source,
            "by": choice.by,
            "zone": choice.zone.key,
            "from": wire_time(summary.start),
            "to": wire_time(choice.end),
            "as_of": wire_time(summary.as_of),
            "total": _values(choice, self.sheet.total),
            "rows": [
                {"group": row.figures.group} | _values(choice, row.figures) for _name, row in rows
            ],
            "more": max(0, more),
        }


def _cells(columns: Sequence[Column], figures: Figures) -> list[str]:
    return [column.shown(column.value(figures)) for column in columns]


def _values(choice: Choice, figures: Figures) -> dict[str, Any]:
    values = {column.csv_name: column.value(figures) for column in COLUMNS[choice.source]}
    return {"jobs_ended": JOBS.value(figures), **values} if choice.source == JOB else values


def _html_row(tag: str, cells: Sequence[str]) -> SafeString:
    styles = [_NAME, *[_CELL] * (len(cells) - 1)]
    drawn = format_html_join(
        "",
        f'<{tag} style="{{}}">{{}}</{tag}>',
        zip(styles, cells, strict=True),
    )
    return format_html("<tr>{}</tr>", drawn)
