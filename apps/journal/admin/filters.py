"""Filters of the journal by all dimensions of reports, so that every figure links to a list."""

from __future__ import annotations

from typing import Any

from django import forms
from django.utils.translation import gettext_lazy as _
from unfold.widgets import UnfoldAdminTextInputWidget

from apps.common.admin.filters import DayFilter, FormFilter, InstantFilter, list_filters
from apps.common.filtersets import Choice, Key, Number, RowFilters, Text
from apps.journal.admin import words
from apps.journal.models import Source


def person_of(text: str) -> str:
    """The account or API key that the text names, an account where it does not say."""
    return text if text.startswith(("admin:", "key:")) else f"admin:{text}"


def _by(rows: Any, column: str, text: str) -> Any:
    return rows.filter(**{column: person_of(text)})


class EntryFilters(RowFilters):
    """The filters of entries. People and, if they have few entries, executors are found by an
    index; for all other filters rows are examined."""

    source = Choice(Source.choices, label=_("source"))
    event = Choice(
        lambda: [(name, event.words) for name, event in words.EVENTS.items()], label=_("event")
    )
    type_or_task = Key(label=_("type or task"))
    executor = Key(label=_("who"))
    host = Key(label=_("host"))
    worker = Key(label=_("worker"))
    by = Text("person", label=_("by"), method=_by)
    wait_from = Number("wait_ms", "gte", label=_("Waited"), least=0)
    run_from = Number("run_ms", "gte", label=_("Took"), least=0)


class PersonFilter(FormFilter):
    """The entries of an account or an API key: `ann`, `admin:ann`, `key:tills`."""

    def widget(self, each: Any) -> forms.Widget:
        return UnfoldAdminTextInputWidget(attrs={"placeholder": "admin:ann"})  # type: ignore[no-any-return]


class SlownessFilter(FormFilter):
    """Entries with a wait or run of at least this many milliseconds."""

    title = _("at least (ms)")
    parameters = ("wait_from", "run_from")


FILTERS: tuple[type[FormFilter], ...] = (
    *list_filters(EntryFilters, by=PersonFilter, wait_from=SlownessFilter, run_from=SlownessFilter),
    DayFilter,
    InstantFilter,
)
