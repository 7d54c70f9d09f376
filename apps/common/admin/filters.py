"""Filters of lists as form fields; invalid values never reach the database."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from datetime import date, datetime, time, timedelta
from typing import Any, ClassVar, TypeVar

from django import forms
from django.contrib import admin, messages
from django.db.models import QuerySet
from django.http import HttpRequest
from django.utils import timezone
from django.utils.choices import flatten_choices
from django.utils.text import capfirst
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _
from unfold.widgets import (
    UnfoldAdminSelectWidget,
    UnfoldAdminSingleDateWidget,
    UnfoldAdminTextInputWidget,
)

from apps.common import filtering
from apps.common.admin.display import labelled, translate
from apps.common.errors import Invalid
from apps.common.filtersets import Number, Parameter, RowFilters
from apps.common.ids import lowest_id_at

ValueT = TypeVar("ValueT")


class FormFilter(admin.ListFilter):
    """Parameters of a FilterSet drawn as form fields: mostly one, whose label is the title.

    `list_filters` makes one for each parameter of a list. A subclass may have another `widget` and
    a `hint`, or narrow in another way: if `narrowed` raises ValueError, its message is shown and
    the list is empty.
    """

    template = "admin/filters/form.html"
    filters: ClassVar[type[RowFilters]]
    parameters: ClassVar[tuple[str, ...]]
    hint: ClassVar[Any] = ""

    def __init__(
        self, request: HttpRequest, params: dict[str, list[str]], model: Any, model_admin: Any
    ) -> None:
        super().__init__(request, params, model, model_admin)
        for name in self.parameters:
            if name in params:
                self.used_parameters[name] = params.pop(name)[-1].strip()

    @property
    def parameter_name(self) -> str:
        """The name by which the theme knows a filter, as it knows those of Django."""
        return self.parameters[0]

    @property
    def remark(self) -> str:
        """A remark on the typed values, such as their time zone, shown behind the title."""
        return ""

    @property
    def options(self) -> Sequence[tuple[Any, Any]] | None:
        """The choices that people have; None where they type."""
        return getattr(self.filters.listed()[self.parameters[0]], "choices", None)

    @property
    def tabs(self) -> Sequence[tuple[Any, Any]] | None:
        """The choices that a list with tabs shows as such."""
        return self.options

    def has_output(self) -> bool:
        return True

    def expected_parameters(self) -> list[str | None]:
        return list(self.parameters)

    def choices(self, changelist: Any) -> Iterator[dict[str, Any]]:
        form = forms.Form(initial=self.used_parameters, prefix=None, auto_id="filter-%s")
        form.fields.update(self.fields())
        yield {"form": form, "remark": self.remark}

    def fields(self) -> dict[str, forms.Field]:
        """The form fields, by parameter."""
        known = self.filters.listed()
        # The title is the label of a field alone.
        are_some = len(self.parameters) > 1
        return {
            name: self._field(known[name], known[name].label if are_some else "")
            for name in self.parameters
        }

    def _field(self, each: Parameter, label: Any) -> forms.Field:
        if (options := self.options) is not None:
            choices = [("", _("All")), *options]
            widget = UnfoldAdminSelectWidget(choices=choices)
            return forms.ChoiceField(label=label, required=False, choices=choices, widget=widget)
        return forms.CharField(
            label=label, required=False, help_text=self.hint, widget=self.widget(each)
        )

    def widget(self, each: Parameter) -> forms.Widget:
        """The widget in which people type the value."""
        attrs = {"inputmode": "numeric"} if isinstance(each, Number) else {}
        return UnfoldAdminTextInputWidget(attrs=attrs)  # type: ignore[no-any-return]

    def narrowed(self, rows: QuerySet[Any], given: dict[str, str]) -> QuerySet[Any]:
        """The rows that fit the given parameters, none of which is empty."""
        wanted = self.filters.read_address(given, timezone.get_current_timezone())
        return self.filters.narrow(rows, wanted)

    def in_words(self) -> Iterator[tuple[str, str]]:
        """The parameters that are on, each with what the list says of it: `Status: failed`."""
        on = {name: str(text) for name, text in self.used_parameters.items() if text}
        for name, field in self.fields().items() if on else ():
            if name in on:
                choices = dict(flatten_choices(getattr(field, "choices", ())))
                heads = [str(each) for each in (self.title, field.label) if each]
                yield (
                    name,
                    labelled(capfirst(" ".join(heads)), choices.get(on[name], on[name][:80])),
                )

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        given = {name: str(text) for name, text in self.used_parameters.items() if text}
        if not given:
            return queryset
        try:
            return self.narrowed(queryset, given)
        except Invalid as error:
            messages.warning(request, translate(error.detail))
        except ValueError as error:
            messages.warning(request, str(error))
        return queryset.none()


class LedToFilter(FormFilter):
    """Pages lead to it; shown only if the address names one."""

    def has_output(self) -> bool:
        return any(map(self.used_parameters.get, self.parameters))


def list_filters(
    filters: type[RowFilters], **looks: type[FormFilter]
) -> tuple[type[FormFilter], ...]:
    """The filters of a list, one for each parameter that it takes; some with a look of their own,
    which may have further parameters."""
    found: dict[Any, type[FormFilter]] = {}
    for name, each in filters.listed().items():
        look = looks.get(name, FormFilter)
        parameters = getattr(look, "parameters", (name,))
        own = {"filters": filters, "parameters": parameters, "title": look.title or each.label}
        found[parameters] = type(look.__name__, (look,), own)
    return tuple(found.values())


class DayFilter(FormFilter):
    """From one day to another, both included, in the time zone of the page.

    Days become bounds of the id, which carries the time a row was made at: the list is then one
    range of its primary key, whatever else it is filtered by. A model whose ids carry no time
    subclasses `bounded`.
    """

    title = _("day")
    parameters = ("from_day", "to_day")

    @property
    def remark(self) -> str:
        return timezone.get_current_timezone_name()

    def fields(self) -> dict[str, forms.Field]:
        return {
            name: forms.CharField(label=label, required=False, widget=self._widget(label))
            for name, label in zip(self.parameters, (_("From"), _("To")), strict=True)
        }

    def _widget(self, label: Any) -> forms.Widget:
        attrs = {"placeholder": label, "aria-label": label, "type": "date"}
        return UnfoldAdminSingleDateWidget(attrs=attrs)  # type: ignore[no-any-return]

    def narrowed(self, rows: QuerySet[Any], given: dict[str, str]) -> QuerySet[Any]:
        days = {name: read_parameter(filtering.day, text) for name, text in given.items()}
        start, end = days.get("from_day"), days.get("to_day")
        if start and end and end < start:
            raise ValueError(gettext("The last day lies before the first; exchange them."))
        if start:
            rows = self.bounded(rows, "gte", _midnight(start))
        if end:
            rows = self.bounded(rows, "lt", _midnight(end + timedelta(days=1)))
        return rows

    def bounded(self, rows: QuerySet[Any], side: str, instant: datetime) -> QuerySet[Any]:
        """The rows on one `side` (gte or lt) of the instant."""
        return rows.filter(**{f"pk__{side}": lowest_id_at(instant)})


class InstantFilter(DayFilter):
    """From one instant to another, the later one excluded; shown only if the address names one.

    Reports use it to link a figure to its rows, whatever the time zone of the report.
    """

    title = _("time")
    parameters = ("since", "until")

    @property
    def remark(self) -> str:
        # Values typed here have an offset of their own.
        return ""

    def has_output(self) -> bool:
        return any(self.used_parameters.get(name) for name in self.parameters)

    def _widget(self, label: Any) -> forms.Widget:
        attrs = {"placeholder": label, "aria-label": label}
        return UnfoldAdminTextInputWidget(attrs=attrs)  # type: ignore[no-any-return]

    def narrowed(self, rows: QuerySet[Any], given: dict[str, str]) -> QuerySet[Any]:
        instants = {name: read_parameter(filtering.instant, text) for name, text in given.items()}
        for name, side in (("since", "gte"), ("until", "lt")):
            if name in instants:
                rows = self.bounded(rows, side, instants[name])
        return rows


def read_parameter(reader: Callable[[Any], ValueT], text: str) -> ValueT:
    """The value of a parameter; ValueError in the language of the page."""
    try:
        return reader(text)
    except ValueError as error:
        raise ValueError(translate(error.args[0])) from error


def _midnight(day: date) -> datetime:
    return timezone.make_aware(datetime.combine(day, time.min))
