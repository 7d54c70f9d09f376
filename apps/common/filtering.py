"""Filters of rows as values: read from an address or from JSON, written as JSON, shown in words.

Each app defines its own: a frozen dataclass with this base, and tables of the names of its fields.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, fields
from datetime import UTC, date, datetime, time, timedelta, tzinfo
from typing import Any, ClassVar, NamedTuple, Self, TypeVar

from apps.common import json_path
from apps.common.errors import FieldError, Invalid
from apps.common.json_path import Condition
from apps.common.messages import Message, joined, wire_time
from apps.common.messages import Message as _
from apps.common.readers import is_key, read_instant, read_number

MAX_IDS = 1_000
MAX_TEXT = 200
MAX_NAME = 160
# No row is older or younger, and databases and ids take any instant between.
_EARLIEST, _LATEST = datetime(1970, 1, 1, tzinfo=UTC), datetime(2200, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, kw_only=True)
class RowFilter:
    """Rows that meet every field that is set; of a field with several values one is enough, but
    all of the conditions on payloads must hold.

    `NAMES` are those of the fields in JSON, `TITLES` those for people. The first instant of a
    period belongs to it, the last one does not.
    """

    NAMES: ClassVar[Mapping[str, Field]]
    TITLES: ClassVar[Mapping[str, Message]]

    @property
    def given(self) -> dict[str, Any]:
        """The fields that are set."""
        values = {each.name: getattr(self, each.name) for each in fields(self)}
        return {name: value for name, value in values.items() if value not in (None, "", ())}

    def only(self, names: Collection[str]) -> Self:
        """The filter of these fields alone."""
        return type(self)(**{name: v for name, v in self.given.items() if name in names})

    def without(self, *names: str) -> Self:
        """The filter of all other fields."""
        return self.only(self.given.keys() - {*names})

    def wire(self) -> dict[str, Any]:
        """The same as JSON, which `read` with NAMES turns back."""
        names = {field.name: name for name, field in self.NAMES.items()}
        return {names[name]: _written(value) for name, value in self.given.items()}

    def parts(self) -> Iterator[Part]:
        """Each field that is set."""
        for name, value in self.given.items():
            yield Part(name, self.TITLES[name], value if isinstance(value, tuple) else (value,))


class Part(NamedTuple):
    """A field of a filter that is set: what it is about, and its values."""

    name: str
    title: Message
    values: tuple[Any, ...]


FilterT = TypeVar("FilterT", bound=RowFilter)


class Field(NamedTuple):
    """Where a parameter goes, and how its value is read; ValueError(Message) for a wrong one."""

    name: str
    read: Callable[[Any], Any]


def read(kind: type[FilterT], given: Mapping[str, Any], names: Mapping[str, Field]) -> FilterT:
    """The filter of the parameters; empty ones say nothing. Invalid names each wrong one."""
    found: dict[str, Any] = {}
    errors = []
    for name, value in given.items():
        if value in (None, "", []):
            continue
        field = names.get(name)
        if field is None:
            known = ", ".join(names)
            text = _("There is no filter {name}; known are: {known}.", name=name[:40], known=known)
            errors.append(FieldError(name, "unknown_field", text))
            continue
        try:
            one = field.read(value)
            # A day and an instant may both begin the period: the narrower one counts.
            narrower = _narrower(field.name) if field.name in found else None
            found[field.name] = narrower(one, found[field.name]) if narrower else one
        except ValueError as error:
            # The argument is a Message; str(error) would be plain text.
            errors.append(FieldError(name, "invalid", error.args[0]))
    if errors:
        raise Invalid(joined(error.message for error in errors), errors=errors)
    return kind(**found)


def _narrower(name: str) -> Callable[..., Any]:
    return max if name.endswith("_after") else min


# --- readers of values ----------------------------------------------------------------------------
def key(value: Any) -> str:
    """What a KeyField can hold."""
    if isinstance(value, str) and is_key(value, MAX_NAME):
        return value
    raise ValueError(
        _(
            "{text} is not a name; names have letters, digits and _ . : @ / + - only.",
            text=str(value)[:80],
        )
    )


def one_of(options: Collection[str]) -> Callable[[Any], str]:
    """A reader of one of the words."""

    def choice(value: Any) -> str:
        if isinstance(value, str) and value in options:
            return value
        known = ", ".join(options)
        text = str(value)[:80]
        raise ValueError(_("{text} is none of the choices: {known}.", text=text, known=known))

    return choice


def each(one: Callable[[Any], Any], most: int = MAX_IDS) -> Callable[[Any], tuple[Any, ...]]:
    """A reader of one value or a list of some."""

    def some(value: Any) -> tuple[Any, ...]:
        values = value if isinstance(value, list | tuple) else [value]
        if len(values) > most:
            raise ValueError(_("More than {limit} values; give fewer.", limit=most))
        return tuple(dict.fromkeys(map(one, values)))

    return some


def number(value: Any, least: int = 1) -> int:
    """The number of a row, or any other from `least`."""
    found = read_number(str(value))
    if found is not None and found >= least:
        return found
    raise ValueError(_("{text} is not a number; write digits only.", text=str(value)[:80]))


def numbers(value: Any) -> tuple[int, ...]:
    """Numbers as a list, or as text with commas."""
    texts = value.split(",") if isinstance(value, str) else value
    return each(number)(texts)


def text(value: Any) -> str:
    """Text that is searched for."""
    if isinstance(value, str) and len(value) <= MAX_TEXT and "\0" not in value:
        return value.strip()
    raise ValueError(_("This text is too long; write at most {limit} letters.", limit=MAX_TEXT))


def where(columns: Collection[str]) -> Callable[[Any], tuple[Condition, ...]]:
    """A reader of one condition on JSON columns, or a list of some."""
    return each(lambda value: json_path.read(value, columns), json_path.MAX_CONDITIONS)


def typed_where(columns: Collection[str]) -> Callable[[str], tuple[Condition, ...]]:
    """The same for conditions in one text, with blanks between them."""
    some = where(columns)
    return lambda text: some(json_path.parted(text, columns))


def instant(value: Any) -> datetime:
    """An instant with an offset; one before or after all rows as the first or last that counts."""
    try:
        at = value if isinstance(value, datetime) else read_instant(str(value))
    except Invalid as error:
        raise ValueError(error.detail) from error
    return min(max(at, _EARLIEST), _LATEST)


def day(value: Any) -> date:
    """A day of the calendar."""
    try:
        found = date.fromisoformat(str(value))
        if not 1970 <= found.year <= 2200:
            raise ValueError(value)
    except ValueError as error:
        raise ValueError(
            _("{text} is not a day; write for example 2026-03-31.", text=str(value)[:40])
        ) from error
    return found


def midnight(zone: tzinfo, later: int) -> Callable[[Any], datetime]:
    """A reader of a day as the midnight at its start, so many days later."""
    return lambda value: datetime.combine(day(value) + timedelta(days=later), time.min, zone)


def _written(value: Any) -> Any:
    if isinstance(value, datetime):
        return wire_time(value)
    if isinstance(value, tuple):
        # Numbers of rows are decimal strings on the wire.
        return [str(each) for each in value]
    return value
