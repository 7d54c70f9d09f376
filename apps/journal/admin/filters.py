"""Filters of the journal by all that reports count by, so that every figure links to a list."""

from __future__ import annotations

from functools import partial
from typing import Any

from django import forms
from django.db.models import QuerySet
from django.utils.translation import gettext_lazy as _
from unfold.widgets import UnfoldAdminTextInputWidget

from apps.common import filtering
from apps.common.admin.filters import (
    ChoiceFilter,
    DayFilter,
    FormFilter,
    InstantFilter,
    KeyFilter,
    read_parameter,
)
from apps.journal.admin import words
from apps.journal.models import Source


class SourceFilter(ChoiceFilter):
    title = _("source")
    parameter = "source"
    options = Source.choices


class EventFilter(ChoiceFilter):
    title = _("event")
    parameter = "event"

    @property
    def options(self) -> list[tuple[str, words.Words]]:
        return [(name, event.words) for name, event in words.EVENTS.items()]


class TypeOrTaskFilter(KeyFilter):
    title = _("type or task")
    parameter = "type_or_task"


class ExecutorFilter(KeyFilter):
    title = _("executor")
    parameter = "executor"


class HostFilter(KeyFilter):
    title = _("host")
    parameter = "host"


class WorkerFilter(KeyFilter):
    title = _("worker")
    parameter = "worker"


class PersonFilter(FormFilter):
    """What an account or an API key has done: `ann`, `admin:ann`, `key:tills`."""

    title = _("by")
    parameter = "by"

    def fields(self) -> dict[str, forms.Field]:
        widget = UnfoldAdminTextInputWidget(attrs={"placeholder": "admin:ann"})
        return {self.parameter: forms.CharField(label="", required=False, widget=widget)}

    def narrowed(self, rows: QuerySet[Any], given: dict[str, str]) -> QuerySet[Any]:
        return rows.filter(person=person_of(given[self.parameter]))


def person_of(text: str) -> str:
    """The account or API key that the text names, an account where it does not say."""
    return text if text.startswith(("admin:", "key:")) else f"admin:{text}"


class SlownessFilter(FormFilter):
    """Entries with a wait or run of at least this many milliseconds."""

    title = _("at least (ms)")
    parameters = ("wait_from", "run_from")
    columns = {"wait_from": "wait_ms", "run_from": "run_ms"}

    def fields(self) -> dict[str, forms.Field]:
        def number(text: Any) -> forms.Field:
            widget = UnfoldAdminTextInputWidget(attrs={"inputmode": "numeric"})
            return forms.CharField(label=text, required=False, widget=widget)

        return {"wait_from": number(_("Waited")), "run_from": number(_("Took"))}

    def narrowed(self, rows: QuerySet[Any], given: dict[str, str]) -> QuerySet[Any]:
        for name, text in given.items():
            milliseconds = read_parameter(partial(filtering.number, least=0), text)
            rows = rows.filter(**{f"{self.columns[name]}__gte": milliseconds})
        return rows


FILTERS: tuple[type[FormFilter], ...] = (
    SourceFilter,
    EventFilter,
    TypeOrTaskFilter,
    ExecutorFilter,
    HostFilter,
    WorkerFilter,
    PersonFilter,
    SlownessFilter,
    DayFilter,
    InstantFilter,
)
