"""Filters of rows as values, and the readers of what they compare with; which parameters the rows
of a model have is for its FilterSet to say (filtersets)."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta, tzinfo
from typing import Any

from apps.common.errors import Invalid
from apps.common.json import path as json_path
from apps.common.json.path import Condition
from apps.common.messages import Message as _
from apps.common.messages import wire_time
from apps.common.readers import is_key, read_day, read_instant, read_integer, read_number

MAX_IDS = 1_000
MAX_TEXT = 200
MAX_NAME = 160
# Readers of JSON may round greater numbers.
_MOST_EXACT = 2**53
# No row is older or younger, and databases and ids take any instant between.
_EARLIEST, _LATEST = datetime(1970, 1, 1, tzinfo=UTC), datetime(2200, 1, 1, tzinfo=UTC)


@dataclass(frozen=True)
class RowFilter:
    """Rows that meet every parameter that is given; of one with several values one is enough, but
    all of the conditions on payloads must hold.

    `given` has no empty values. The first instant of a period belongs to it, the last one does not.
    """

    given: Mapping[str, Any]

    def get(self, name: str) -> Any:
        """The value of the parameter; None when it is not given."""
        return self.given.get(name)

    @property
    def where(self) -> tuple[Condition, ...]:
        """The conditions on payloads."""
        found: tuple[Condition, ...] = self.given.get("where", ())
        return found

    def only(self, names: Collection[str]) -> RowFilter:
        """The filter of these parameters alone."""
        return RowFilter({name: v for name, v in self.given.items() if name in names})

    def without(self, *names: str) -> RowFilter:
        """The filter of all other parameters."""
        return self.only(self.given.keys() - {*names})

    def wire(self) -> dict[str, Any]:
        """The filter as JSON, which a FilterSet reads."""
        return {name: _written(value) for name, value in self.given.items()}


# --- readers of values ----------------------------------------------------------------------------
def key(value: Any) -> str:
    """A value that a KeyField can hold."""
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


def list_of(one: Callable[[Any], Any], most: int = MAX_IDS) -> Callable[[Any], tuple[Any, ...]]:
    """A reader of a list of values, of one, or of some in one text with commas between them."""

    def read(value: Any) -> tuple[Any, ...]:
        values = value.split(",") if isinstance(value, str) else value
        values = values if isinstance(values, list | tuple) else [values]
        if len(values) > most:
            raise ValueError(_("More than {limit} values; give fewer.", limit=most))
        return tuple(dict.fromkeys(map(one, values)))

    return read


def number(value: Any, least: int = 1) -> int:
    """The number of a row, or any other from `least`."""
    found = read_number(str(value))
    if found is not None and found >= least:
        return found
    raise ValueError(_("{text} is not a number; write digits only.", text=str(value)[:80]))


def whole(value: Any, lowest: int, highest: int) -> int:
    """A whole number from the lowest to the highest."""
    found = read_integer(str(value))
    if found is not None and lowest <= found <= highest:
        return found
    raise ValueError(
        _(
            "{text} does not fit; write a whole number from {lowest} to {highest}.",
            text=str(value)[:80],
            lowest=lowest,
            highest=highest,
        )
    )


def text(value: Any) -> str:
    """Text that is searched for."""
    if isinstance(value, str) and len(value) <= MAX_TEXT and "\0" not in value:
        return value.strip()
    raise ValueError(_("This text is too long; write at most {limit} letters.", limit=MAX_TEXT))


def where(columns: Collection[str]) -> Callable[[Any], tuple[Condition, ...]]:
    """A reader of one condition on JSON columns, or a list of some."""
    read = list_of(lambda value: json_path.read(value, columns), json_path.MAX_CONDITIONS)
    # A condition may have commas.
    return lambda value: read([value] if isinstance(value, str) else value)


def typed_where(columns: Collection[str]) -> Callable[[str], tuple[Condition, ...]]:
    """A reader of conditions in one text, with blanks between them."""
    read = where(columns)
    return lambda text: read(json_path.split_conditions(text, columns))


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
        return read_day(str(value))
    except Invalid as error:
        raise ValueError(error.detail) from error


def midnight(zone: tzinfo, later: int) -> Callable[[Any], datetime]:
    """A reader of a day as the midnight at its start, so many days later."""
    return lambda value: datetime.combine(day(value) + timedelta(days=later), time.min, zone)


def _written(value: Any) -> Any:
    if isinstance(value, datetime):
        return wire_time(value)
    if isinstance(value, tuple):
        # Numbers of rows are decimal strings on the wire.
        return [str(each) for each in value]
    return str(value) if isinstance(value, int) and value > _MOST_EXACT else value
