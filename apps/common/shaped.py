"""JSON columns of one shape. Whoever writes rows by SQL can store another one: it is read as empty,
shown and kept as it is stored, and its row is known to be in need of mending. It breaks nothing
else.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from copy import deepcopy
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from django.db import models
from django.db.models.fields.json import KeyTransform
from django.db.models.functions import Lower

from apps.common.masking import redact
from apps.common.messages import Message
from apps.common.messages import Message as _

if TYPE_CHECKING:
    JSONField = models.JSONField[Any, Any]
else:
    # Django's fields are generic for type checkers only.
    JSONField = models.JSONField

MAX_QUOTED = 60
RowsT = TypeVar("RowsT", bound="models.QuerySet[Any]")


class Misshapen:
    """A value of another shape than its column has: it is empty. `stored` is what the row keeps
    all the same."""

    stored: Any
    is_for: Message

    @property
    def why(self) -> Message:
        """What is wrong with it; secrets are masked."""
        quoted = json.dumps(redact(self.stored), ensure_ascii=False)[:MAX_QUOTED]
        return _("{stored} is stored, which is not {shape}.", stored=quoted, shape=self.is_for)


class _NoObject(Misshapen, dict[str, Any]):
    pass


class _NoList(Misshapen, list[Any]):
    pass


class Shape(NamedTuple):
    """`of` is what each item is, `check` says whether such a value is right, and `empty` is what
    stands for one that is not."""

    kind: type[dict[str, Any]] | type[list[Any]]
    of: type
    name: Message
    check: Callable[[Any], bool] | None = None
    empty: Mapping[str, Any] = MappingProxyType({})

    def fits(self, found: Any) -> bool:
        if not isinstance(found, self.kind):
            return False
        if self.check is not None:
            return self.check(found)
        items = found.values() if isinstance(found, dict) else found
        return self.of is object or all(type(each) is self.of for each in items)


OBJECT = Shape(dict, object, _("an object"))
COUNTS = Shape(dict, int, _("an object of whole numbers"))
TEXTS = Shape(list, str, _("a list of texts"))
NUMBERS = Shape(list, int, _("a list of whole numbers"))


class ShapedField(JSONField):
    """JSON of that shape, or Misshapen; NULL where the column may be."""

    def __init__(self, *args: Any, shape: Shape = OBJECT, **options: Any) -> None:
        super().__init__(*args, **options)
        self.shape = shape

    def deconstruct(self) -> Any:
        # The database has nothing of it.
        name, _path, args, options = super().deconstruct()
        return name, "django.db.models.JSONField", args, options

    def from_db_value(self, value: Any, expression: Any, connection: Any) -> Any:
        found = super().from_db_value(value, expression, connection)
        return found if isinstance(expression, KeyTransform) else self.shaped(found)

    def shaped(self, found: Any) -> Any:
        """The value as the rows of the model have it."""
        if self.shape.fits(found) or (found is None and self.null):
            return found
        made = _NoObject(deepcopy(dict(self.shape.empty))) if self.shape.kind is dict else _NoList()
        made.stored, made.is_for = found, self.shape.name
        return made

    def get_db_prep_value(self, value: Any, connection: Any, prepared: bool = False) -> Any:
        return super().get_db_prep_value(stored(value), connection, prepared)

    def value_to_string(self, obj: models.Model) -> Any:
        return stored(self.value_from_object(obj))


class Kind(models.Func):
    """The kind of the JSON value in a column, in the database's own words."""

    function = "JSON_TYPE"
    output_field = models.CharField()


def is_object(column: str) -> str:
    """The SQL that is true where the column has an object."""
    return f"LOWER(JSON_TYPE({column})) = 'object'"


def without_object(rows: RowsT, column: str) -> RowsT:
    """The rows that have something else than an object in the column."""
    return rows.annotate(kind=Lower(Kind(column))).exclude(kind="object")


def stored(value: Any) -> Any:
    """The value as its row keeps it."""
    return value.stored if isinstance(value, Misshapen) else value


def misshapen(row: models.Model) -> Iterator[tuple[models.Field[Any, Any], Misshapen]]:
    """The columns of the row, as far as they have been read, that are of another shape."""
    for field in row._meta.concrete_fields:
        value = row.__dict__.get(field.attname)
        if isinstance(value, Misshapen):
            yield field, value
