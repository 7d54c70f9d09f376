"""The filters of a model, declared once: which parameters there are, what each means, who takes it.

Of a FilterSet of django-filter REST makes the query of its list (`filter_fields`), the admin the
filters of its list (`admin.filters`), and bulk runs their bodies and what they store.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Collection, Mapping
from datetime import timedelta, tzinfo
from typing import Any, ClassVar, NamedTuple, TypeVar, cast

from django import forms
from django.core.exceptions import ValidationError
from django.db.models import QuerySet
from django_filters import Filter, FilterSet
from django_filters.constants import EMPTY_VALUES

from apps.common import filtering, ids
from apps.common.errors import FieldError, Invalid
from apps.common.filtering import RowFilter
from apps.common.json.search import rows_meeting
from apps.common.messages import Message, joined
from apps.common.messages import Message as _

RowsT = TypeVar("RowsT", bound=QuerySet[Any])
# An id is made after the instant its row names, and waiting for locks may lie between the two.
_ID_SLACK = ids.lowest_id_at(ids.EPOCH + timedelta(minutes=10))


class Door(enum.Flag):
    """Where a parameter is taken: drawn by the list, in its address, by REST, by bulk runs."""

    LIST = enum.auto()
    ADDRESS = enum.auto()
    REST = enum.auto()
    BULK = enum.auto()


EVERY = Door.LIST | Door.REST | Door.BULK


class ReadField(forms.Field):
    """A form field of which a reader of `filtering` makes the value."""

    def __init__(self, *, read: Callable[[Any], Any], **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self._read = read

    def to_python(self, value: Any) -> Any:
        if value in self.empty_values:
            return None
        try:
            return self._read(value)
        except ValueError as error:
            raise ValidationError(error.args[0], code="invalid") from error


class Parameter(Filter):  # type: ignore[misc]
    """A value with which a column is compared: equal to it, to one of several, or by the lookup
    or method.

    `label` is for people, `help_text` for programs, `listed` the name in addresses of the list.
    """

    field_class = ReadField

    def __init__(
        self,
        field_name: str | None = None,
        lookup_expr: str | None = None,
        *,
        doors: Door = EVERY,
        listed: str = "",
        **kwargs: Any,
    ) -> None:
        super().__init__(field_name, lookup_expr, read=self.value_of, **kwargs)
        self.doors, self.listed = doors, listed

    def value_of(self, given: Any) -> Any:
        """The value that is meant; ValueError(Message) for none."""
        raise NotImplementedError(f"{type(self).__name__} must define value_of()")

    @property
    def typed_field(self) -> forms.Field:
        """The field that reads what people type."""
        return self.field  # type: ignore[no-any-return]

    def filter(self, rows: Any, value: Any) -> Any:
        if not isinstance(value, tuple):
            return super().filter(rows, value)
        if len(value) == 1:
            return super().filter(rows, value[0])
        return rows.filter(**{f"{self.field_name}__in": value}) if value else rows


class Key(Parameter):
    """A name as a KeyField has it."""

    def value_of(self, given: Any) -> Any:
        return filtering.key(given)


class Keys(Key):
    """Names, of which one is enough."""

    def value_of(self, given: Any) -> Any:
        return filtering.list_of(super().value_of)(given)


class Choice(Parameter):
    """A choice of one value; `choices` are pairs of a value and its label, or a function with
    them."""

    def __init__(self, choices: Any, *args: Any, **kwargs: Any) -> None:
        self._choices = choices
        super().__init__(*args, **kwargs)

    @property
    def choices(self) -> list[tuple[Any, Any]]:
        return [*(self._choices() if callable(self._choices) else self._choices)]

    def value_of(self, given: Any) -> Any:
        return filtering.one_of([str(value) for value, _label in self.choices])(given)


class Choices(Choice):
    """A choice of several values, of which one is enough."""

    def value_of(self, given: Any) -> Any:
        return filtering.list_of(super().value_of)(given)


class Number(Parameter):
    """The number of a row, or another one from `least`."""

    def __init__(self, *args: Any, least: int = 1, **kwargs: Any) -> None:
        self.least = least
        super().__init__(*args, **kwargs)

    def value_of(self, given: Any) -> Any:
        return filtering.number(given, self.least)


class Id(Number):
    """The number of a row that holds its time: for programs a decimal string."""


class Numbers(Number):
    """Numbers of rows."""

    def value_of(self, given: Any) -> Any:
        return filtering.list_of(super().value_of)(given)


class WholeNumber(Parameter):
    """A whole number from the lowest to the highest."""

    def __init__(self, *args: Any, lowest: int, highest: int, **kwargs: Any) -> None:
        self.lowest, self.highest = lowest, highest
        super().__init__(*args, **kwargs)

    def value_of(self, given: Any) -> Any:
        return filtering.whole(given, self.lowest, self.highest)


class Text(Parameter):
    """Text that is searched for."""

    max_length = filtering.MAX_TEXT

    def value_of(self, given: Any) -> Any:
        return filtering.text(given)


class Instant(Parameter):
    """The first instant that counts, or the first one that does not."""

    def value_of(self, given: Any) -> Any:
        return filtering.instant(given)


class MadeSince(Instant):
    """The rows that were made then or later, by the column that says when.

    The bound on the id is what keeps the scan short; no index has the instant.
    """

    def filter(self, rows: Any, value: Any) -> Any:
        floor = ids.lowest_id_at(value) - _ID_SLACK
        return rows.filter(**{"pk__gte": floor, f"{self.field_name}__gte": value})


class MadeBefore(Instant):
    """The rows that were made before, found in the same way."""

    def filter(self, rows: Any, value: Any) -> Any:
        ceiling = ids.lowest_id_at(value) + _ID_SLACK
        return rows.filter(**{"pk__lt": ceiling, f"{self.field_name}__lt": value})


class Payload(Parameter):
    """Conditions on values at paths of JSON columns; Invalid when they are about what is masked."""

    def __init__(self, columns: Collection[str], **kwargs: Any) -> None:
        self.columns = [*columns]
        super().__init__(**kwargs)

    def value_of(self, given: Any) -> Any:
        return filtering.where(self.columns)(given)

    @property
    def typed_field(self) -> forms.Field:
        return ReadField(read=filtering.typed_where(self.columns))

    def filter(self, rows: Any, value: Any) -> Any:
        return rows_meeting(rows, value)


class _Taken(NamedTuple):
    """The parameter that a name stands for, and the field that reads it."""

    name: str
    field: forms.Field


class RowFilters(FilterSet):  # type: ignore[misc]
    """A subclass declares the parameters, and names its model."""

    # Parameters of the base class that it does not have.
    left_out: ClassVar[frozenset[str]] = frozenset()
    # The parameters that the days of a list, and its instants, stand for.
    period: ClassVar[tuple[str, str] | None] = None
    # Together with the period: the parameters of which an index has the rows in the order of ids.
    in_order: ClassVar[tuple[frozenset[str], ...]] = ()

    @classmethod
    def get_filters(cls) -> dict[str, Any]:
        found = super().get_filters()
        return {name: each for name, each in found.items() if name not in cls.left_out}

    @classmethod
    def of(cls, doors: Door) -> dict[str, Any]:
        """The parameters that are taken at one of the doors, by name."""
        return {name: each for name, each in cls.base_filters.items() if doors & each.doors}

    @classmethod
    def listed(cls) -> dict[str, Any]:
        """The parameters that the list draws, by their names in its address."""
        return {each.listed or name: each for name, each in cls.of(Door.LIST).items()}

    @classmethod
    def read(cls, given: Mapping[str, Any]) -> RowFilter:
        """The filter of the parameters; empty ones say nothing. Invalid names each wrong one."""
        names = {name: _Taken(name, each.field) for name, each in cls.base_filters.items()}
        return cls._read(given, names)

    @classmethod
    def read_address(
        cls, given: Mapping[str, Any], zone: tzinfo, *, door: Door = Door.LIST
    ) -> RowFilter:
        """The filter of the address of a list, as `read`, as far as it is taken at the door; days
        are those of the zone, both included."""
        names: dict[str, _Taken] = {}
        for name, each in cls.of(Door.LIST | Door.ADDRESS).items():
            if each.doors & (door | Door.ADDRESS):
                names[each.listed or name] = _Taken(name, each.typed_field)
        for position, name in enumerate(cls.period or ()):
            midnight = ReadField(read=filtering.midnight(zone, position))
            names[("from_day", "to_day")[position]] = _Taken(name, midnight)
            names[("since", "until")[position]] = _Taken(name, cls.base_filters[name].field)
        return cls._read(given, names)

    @classmethod
    def narrow(cls, rows: RowsT, wanted: RowFilter) -> RowsT:
        """The rows that meet the filter; Invalid when the filter is about masked values."""
        for name, each in cls.base_filters.items():
            if name in wanted.given:
                rows = each.filter(rows, wanted.given[name])
        return rows

    def filter_queryset(self, queryset: RowsT) -> RowsT:
        """`narrow` by the values that the form of the FilterSet has read."""
        return self.narrow(queryset, self._made_of(self.form.cleaned_data))

    @classmethod
    def indexed(cls, wanted: RowFilter) -> frozenset[str]:
        """The parameters, besides the period, whose rows an index has in the order of ids."""
        return next((each for each in cls.in_order if each <= wanted.given.keys()), frozenset())

    @classmethod
    def _read(cls, given: Mapping[str, Any], names: Mapping[str, _Taken]) -> RowFilter:
        found: dict[str, Any] = {}
        errors = []
        for parameter, value in given.items():
            if value in EMPTY_VALUES:
                continue
            if parameter not in names:
                errors.append(FieldError(parameter, "unknown_field", _unknown(parameter, names)))
                continue
            name, field = names[parameter]
            try:
                one = field.clean(value)
                # A day and an instant may both begin the period: the narrower one counts.
                found[name] = _narrower(name)(one, found[name]) if name in found else one
            except ValidationError as error:
                # A Message, where str() would make plain text of it.
                errors.append(FieldError(parameter, "invalid", cast(str, error.message)))
        if errors:
            raise Invalid(joined(error.message for error in errors), errors=errors)
        return cls._made_of(found)

    @classmethod
    def _made_of(cls, values: Mapping[str, Any]) -> RowFilter:
        """The filter of those that are set, in the order of their declaration."""
        set_ones = {name for name, value in values.items() if value not in EMPTY_VALUES}
        return RowFilter({name: values[name] for name in cls.base_filters if name in set_ones})


def _unknown(parameter: str, names: Collection[str]) -> Message:
    known = ", ".join(names)
    return _("There is no filter {name}; known are: {known}.", name=parameter[:40], known=known)


def _narrower(name: str) -> Callable[..., Any]:
    return max if name.endswith("_after") else min
