"""Going through the rows that a filter means: down the primary key, or by an index if few match."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from django.db.models import QuerySet

# Rows that one step looks at, and takes at most.
LOOKED = 20_000
TAKEN = 500


class Step(NamedTuple):
    """The numbers found, descending, and where to go on; None at the end."""

    found: list[int]
    below: int | None


def step(rows: QuerySet[Any], *, below: int) -> Step:
    """The next of the rows with lower numbers than `below`, newest first.

    At most TAKEN, among the next LOOKED rows of the table.
    """
    edge = edge_below(rows, below, LOOKED)
    among = rows.filter(pk__lt=below) if edge is None else rows.filter(pk__lt=below, pk__gte=edge)
    found = list(among.order_by("-pk").values_list("pk", flat=True)[: TAKEN + 1])
    if len(found) > TAKEN:
        return Step(found[:TAKEN], found[TAKEN - 1])
    return Step(found, edge)


def edge_below(rows: QuerySet[Any], below: int, most: int) -> int | None:
    """The number so many rows of the table below; None when there are fewer."""
    table = rows.model._default_manager.filter(pk__lt=below).order_by("-pk")
    found = list(table.values_list("pk", flat=True)[most - 1 : most])
    return found[0] if found else None


def step_among(rows: QuerySet[Any], numbers: Sequence[int], *, below: int) -> Step:
    """The next step when only rows with these `numbers`, descending, can match."""
    chunk = [number for number in numbers if number < below][:TAKEN]
    found = rows.filter(pk__in=chunk).order_by("-pk").values_list("pk", flat=True)
    is_end = not chunk or chunk[-1] == numbers[-1]
    return Step(list(found), None if is_end else chunk[-1])
