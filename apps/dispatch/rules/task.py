"""The combinations of a task's fields that make sense."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import UTC, datetime

from apps.common.errors import FieldError, Invalid
from apps.common.messages import Message
from apps.common.messages import Message as _
from apps.dispatch.rules import policy

MAX_TITLE = 200
# The numbers of a task, from the lowest to the highest that is allowed.
RANGES = {
    "dispatch_times": (1, 2_147_483_647),
    "priority": (-100, 100),
    "lease_seconds": (1, 2_592_000),
    "max_rounds": (1, 1000),
    "misfire_limit": (1, 1000),
}
# Near the ends of the calendar a time cannot be shown in every zone.
YEARS = (1970, 9998)
_EARLIEST, _TOO_LATE = (datetime(year, 1, 1, tzinfo=UTC) for year in (YEARS[0], YEARS[1] + 1))
_LABEL = re.compile(r"(once|rotate)[: ]?([0-9]{1,18})")


def read_label(text: str) -> tuple[str, int] | None:
    """The kind and number of a task that is called `once:12`; None for any other text."""
    label = _LABEL.fullmatch(text)
    return None if label is None else (label[1], int(label[2]))


def check_task(
    *,
    title: str,
    mode: str,
    start_at: datetime,
    end_at: datetime | None,
    dispatch_times: int | None,
    **numbers: int,
) -> None:
    """Invalid with every wrong field; the numbers are those of RANGES, which are inclusive."""
    errors = [
        *_title_faults(title),
        *_quota_faults(mode, dispatch_times),
        *(error for name, value in numbers.items() for error in _range_faults(name, value)),
        *_period_faults(start_at, end_at),
    ]
    if errors:
        raise Invalid(errors[0].message, errors=errors)


def _title_faults(title: str) -> Iterator[FieldError]:
    if not title.strip() or len(title) > MAX_TITLE:
        yield _wrong("title", _("A title has 1 to {limit} characters.", limit=MAX_TITLE))


def _quota_faults(mode: str, times: int | None) -> Iterator[FieldError]:
    if times is None:
        if mode != policy.MULTI:
            message = _(
                "Leaving dispatch_times empty (every member once) needs mode multi, not {mode}.",
                mode=Message(mode),
            )
            yield _wrong("dispatch_times", message)
        return
    yield from _range_faults("dispatch_times", times)
    if mode == policy.SINGLE and times != 1:
        message = _(
            "In mode single dispatch_times is 1, not {times}; use multi or blocking to hand a task "
            "out more often.",
            times=times,
        )
        yield _wrong("dispatch_times", message)


def _period_faults(start_at: datetime, end_at: datetime | None) -> Iterator[FieldError]:
    yield from start_faults(start_at)
    if end_at is None:
        return
    wrong = [*end_faults(end_at)]
    yield from wrong
    if not wrong and end_at <= start_at:
        message = _(
            "The task ends before it starts; choose an end_at after start_at, or leave it empty."
        )
        yield _wrong("end_at", message)


def start_faults(start_at: datetime) -> Iterator[FieldError]:
    """The faults of a start."""
    if not _EARLIEST <= start_at < _TOO_LATE:
        first, last = YEARS
        message = _("Choose a start in the years {first} to {last}.", first=first, last=last)
        yield _wrong("start_at", message)


def end_faults(end_at: datetime) -> Iterator[FieldError]:
    """The faults of an end, whatever the start is."""
    if not _EARLIEST <= end_at < _TOO_LATE:
        first, last = YEARS
        message = _(
            "Choose an end in the years {first} to {last}, or leave it empty for none.",
            first=first,
            last=last,
        )
        yield _wrong("end_at", message)


def _range_faults(field: str, value: int) -> Iterator[FieldError]:
    low, high = RANGES[field]
    if not low <= value <= high:
        message = _(
            "{value} is out of range: {field} is {low} to {high}.",
            value=value,
            field=field,
            low=low,
            high=high,
        )
        yield _wrong(field, message)


def _wrong(field: str, message: str) -> FieldError:
    return FieldError(field, "invalid", message)
