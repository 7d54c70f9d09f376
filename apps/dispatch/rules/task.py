"""Which combinations of a task's fields make sense."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime

from apps.common.errors import FieldError, Invalid
from apps.dispatch.rules import policy

MOST_TITLE = 200
PRIORITIES = (-100, 100)
LEASE_SECONDS = (1, 2_592_000)
DISPATCH_TIMES = (1, 2_147_483_647)
ROUNDS = (1, 1000)
MISFIRES = (1, 1000)


def check_task(
    *,
    title: str,
    mode: str,
    dispatch_times: int | None,
    priority: int,
    lease_seconds: int,
    max_rounds: int,
    start_at: datetime,
    end_at: datetime | None,
) -> None:
    """Invalid with every wrong field; ranges are inclusive."""
    errors: list[FieldError] = []

    def demand(holds: bool, field: str, message: str) -> None:
        if not holds:
            errors.append(FieldError(field, "invalid", message))

    demand(
        bool(title.strip()) and len(title) <= MOST_TITLE,
        "title",
        f"A title has 1 to {MOST_TITLE} characters.",
    )
    if dispatch_times is None:
        demand(
            mode == policy.MULTI,
            "dispatch_times",
            f"Leaving dispatch_times empty (every member once) needs mode multi, not {mode}.",
        )
    else:
        _range(demand, "dispatch_times", dispatch_times, DISPATCH_TIMES)
        demand(
            mode != policy.SINGLE or dispatch_times == 1,
            "dispatch_times",
            f"In mode single dispatch_times is 1, not {dispatch_times}; "
            "use multi or blocking to hand a task out more often.",
        )
    _range(demand, "priority", priority, PRIORITIES)
    _range(demand, "lease_seconds", lease_seconds, LEASE_SECONDS)
    _range(demand, "max_rounds", max_rounds, ROUNDS)
    demand(
        end_at is None or end_at > start_at,
        "end_at",
        "The task ends before it starts; choose an end_at after start_at, or leave it empty.",
    )
    if errors:
        raise Invalid(errors[0].message, errors=errors)


def check_misfire_limit(limit: int) -> None:
    """Invalid when the number of missed occurrences to make up for is out of range."""
    low, high = MISFIRES
    if not low <= limit <= high:
        raise Invalid.field(
            "misfire_limit", f"{limit} is out of range: misfire_limit is {low} to {high}."
        )


def _range(
    demand: Callable[[bool, str, str], None], field: str, value: int, bounds: tuple[int, int]
) -> None:
    low, high = bounds
    demand(low <= value <= high, field, f"{value} is out of range: {field} is {low} to {high}.")
