"""Filters in queries and bodies of the API, made of the FilterSet of a model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, ClassVar

from drf_spectacular.utils import extend_schema_field

from apps.common import filtering, filtersets
from apps.common.api.serializer_fields import (
    Choice,
    DecimalId,
    Instant,
    Integer,
    Name,
    Names,
    Text,
    Texts,
)
from apps.common.api.serializers import StrictSerializer
from apps.common.errors import FieldError, Invalid
from apps.common.filtering import MAX_IDS, MAX_NAME, RowFilter
from apps.common.filtersets import Door, RowFilters
from apps.common.json.path import MAX_CONDITION, MAX_CONDITIONS

_MOST = 2**63 - 1


@extend_schema_field(
    {"oneOf": [{"type": "string"}, {"type": "array", "items": {"type": "string"}}]}
)
class OneOrMore(Names):
    """A name, or a list of some of which one is enough."""

    def to_internal_value(self, data: Any) -> list[str]:
        return super().to_internal_value([data] if isinstance(data, str) else data)


class Where(Texts):
    """Conditions on JSON columns, which `json_path` reads."""

    def __init__(self, columns: Sequence[str]) -> None:
        hint = (
            f"`path:value` in {' or '.join(columns)}, such as {columns[0]}.items[0].sku:S7; all "
            "must hold. Values that are masked cannot be searched for."
        )
        super().__init__(
            max_items=MAX_CONDITIONS, max_length=MAX_CONDITION, required=False, help_text=hint
        )


class Bound(Instant):
    """A time that begins or ends a period; one before or after all rows means all of them, as an
    empty time of other languages does."""

    def moment(self, at: datetime) -> datetime:
        return filtering.instant(at)


class FilterFields(StrictSerializer):
    """A serializer with those parameters of a FilterSet that are taken at its door."""

    filters: ClassVar[type[RowFilters]]
    door: ClassVar[Door]

    def get_fields(self) -> dict[str, Any]:
        """These and the declared ones."""
        taken = self.filters.of(self.door)
        fields = {name: self._field(each) for name, each in taken.items()}
        return {**fields, **super().get_fields()}

    def _field(self, each: Any) -> Any:
        options: dict[str, Any] = {"required": False, "help_text": each.extra.get("help_text")}
        is_body = self.door is Door.BULK
        match each:
            case filtersets.Payload():
                return Where(each.columns)
            case filtersets.Keys() | filtersets.Numbers() if is_body:
                return OneOrMore(max_items=MAX_IDS, **options)
            case filtersets.Choices() if is_body:
                return OneOrMore(max_items=len(each.choices), **options)
            case filtersets.Choice():
                return Choice(choices=each.choices, **options)
            case filtersets.Key():
                column: Any = self.filters._meta.model._meta.get_field(each.field_name)
                return Name(max_length=MAX_NAME if is_body else column.max_length, **options)
            case filtersets.Id():
                return DecimalId(**options)
            case filtersets.Number():
                return Integer(min_value=1, max_value=_MOST, **options)
            case filtersets.WholeNumber():
                return Integer(min_value=each.lowest, max_value=each.highest, **options)
            case filtersets.Instant():
                return Bound(**options)
        return Text(max_length=each.max_length, **options)


class FilterBody(FilterFields):
    """The filter of a bulk run, as JSON."""

    door = Door.BULK

    run = Name(
        max_length=19, required=False, help_text="Rows that the bulk run with this id has changed."
    )


class FilterQuery(FilterFields):
    """The filter of a list; a name is no longer than its column, and given once.

    With `archived=true` it is that of the `archive`, which has fewer.
    """

    door = Door.REST
    archive: ClassVar[type[RowFilters] | None] = None

    @classmethod
    def wanted(cls, query: Mapping[str, Any]) -> RowFilter:
        """The filter in the checked parameters, among which are those of the page."""
        taken = cls.filters.of(cls.door)
        given = {name: value for name, value in query.items() if name in taken}
        if cls.archive is not None and query.get("archived"):
            errors = [
                FieldError(
                    name,
                    "invalid",
                    f"The archive is not filtered by {name}; leave it or archived out.",
                )
                for name in sorted(given.keys() - cls.archive.of(cls.door))
            ]
            if errors:
                raise Invalid(f"{errors[0].field}: {errors[0].message}", errors=errors)
        return cls.filters.read(given)
