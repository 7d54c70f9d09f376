"""The plan of a run before its start: the rows it would change. Nothing is written."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import Any

from django.db.models import QuerySet

from apps.bulk.services.selection import Selection
from apps.bulk.services.steps import LOOKED, edge_below
from apps.bulk.services.targets import Target, run_facts
from apps.common import clock
from apps.common.time_limit import FEWER, in_time
from apps.common.verbs import Verb
from apps.jobs.models import Bounds

# The number of newest rows shown, and of oldest ones.
SAMPLES = 10
MAX_STEPS = 5
MAX_SECONDS = 0.8
_BEYOND = 2**63 - 1
Row = tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class Sample:
    """A row with the change that the verb makes to it, or why it is left out."""

    number: int
    label: str
    change: str
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """How many rows match, and how many of them the verb changes.

    Unless `is_exact`, these are figures of the newest `looked` rows of the table only. `left_out`
    and `notes` are sentences with counts, the highest first.
    """

    matches: int
    eligible: int
    is_exact: bool
    looked: int
    left_out: tuple[tuple[str, int], ...]
    notes: tuple[tuple[str, int], ...]
    samples: tuple[Sample, ...]
    rate: int

    @property
    def may_change(self) -> bool:
        """Whether a run could change a row: among the older ones, too."""
        return bool(self.eligible) or not self.is_exact

    @property
    def seconds(self) -> int:
        """How long the run takes at its rate."""
        return -(-self.eligible // self.rate)


def plan(
    selection: Selection,
    verb: str,
    params: Mapping[str, Any],
    *,
    bounds: Bounds,
    rate: int,
) -> Plan:
    """Count and show what the verb would do; within a second, however many rows there are.

    Without params a verb that needs some is judged by the states alone.
    """
    target = selection.target
    does = target.verbs[verb]
    columns = does.columns
    now = clock.now()
    found, looked, is_exact = _matching(selection, bounds, columns)
    reasons: Counter[str] = Counter()
    notes: Counter[str] = Counter()
    # Rows with equal facts are judged once.
    for facts, count in Counter(row[1:] for row in found).items():
        named = dict(zip(columns, facts, strict=True))
        why = does.why_not(named, params, now)
        if why is not None:
            reasons[why] += count
        elif (note := does.note(named)) is not None:
            notes[note] += count
    shown = found if len(found) <= 2 * SAMPLES else [*found[:SAMPLES], *found[-SAMPLES:]]
    return Plan(
        matches=len(found),
        eligible=len(found) - reasons.total(),
        is_exact=is_exact,
        looked=looked,
        left_out=tuple(reasons.most_common()),
        notes=tuple(notes.most_common()),
        samples=tuple(_samples(target, does, params, shown, len(found), now)),
        rate=rate,
    )


def known_matches(selection: Selection, bounds: Bounds) -> int | None:
    """The number of matching rows; None where it cannot be counted within a second."""
    found, _looked, is_exact = _matching(selection, bounds, ())
    return len(found) if is_exact else None


def _samples(
    target: Target,
    verb: Verb,
    params: Mapping[str, Any],
    shown: Sequence[Row],
    count: int,
    now: datetime,
) -> Iterator[Sample]:
    labels = target.labels([row[0] for row in shown])
    is_known = all(name in params for name in verb.needed(params))
    for place, (number, *values) in enumerate(shown):
        # The newest come first, and after them the oldest.
        older = len(shown) - 1 - place if place >= SAMPLES else count - 1 - place
        facts = dict(zip(verb.columns, values, strict=True)) | run_facts(older, count, now)
        why = verb.why_not(facts, params, now)
        change = verb.sample(facts, params) if why is None and is_known else ""
        yield Sample(number, labels.get(number, ""), change, why or "")


def _matching(
    selection: Selection, bounds: Bounds, names: tuple[str, ...]
) -> tuple[list[Row], int, bool]:
    """The matching rows, newest first: number and columns; how many rows were looked at, and
    whether these are all that match."""
    rows, wanted = selection.rows(bounds), selection.wanted
    if wanted.where:
        # Rows are compared one by one, and how long each takes is up to those who wrote it.
        numbers = selection.keys_if_few(bounds)
        if numbers is not None:
            return _looked(partial(_look_among, rows, names, numbers), 0, FEWER[0])
        return _looked(partial(_look, rows, names), _BEYOND, LOOKED)
    among = rows if selection.are_few(bounds) else _among(selection, bounds, rows)
    if among is not None:
        return sorted(among.order_by().values_list("pk", *names), reverse=True), 0, True
    # Errors are masked before they are compared.
    most = FEWER[0] if wanted.get("text") else LOOKED
    return _looked(partial(_look, rows, names), _BEYOND, most)


def _looked(
    look: Callable[[int, int], tuple[list[Row], int | None, int]], begin: int, most: int
) -> tuple[list[Row], int, bool]:
    """As `_matching`: what the looks find that there is time for, each at so many rows."""
    found: list[Row] = []
    until = time.monotonic() + MAX_SECONDS
    place: int | None = begin
    looked = 0
    while place is not None and looked < MAX_STEPS * LOOKED and time.monotonic() < until:
        more, place, count = in_time(most, partial(look, place))
        found += more
        looked += count
    return found, looked, place is None


def _look(
    rows: QuerySet[Any], names: tuple[str, ...], below: int, most: int
) -> tuple[list[Row], int | None, int]:
    """The matching ones of so many rows, and the number to go on below."""
    edge = edge_below(rows, below, most)
    part = rows.filter(pk__lt=below)
    part = part if edge is None else part.filter(pk__gte=edge)
    return list(part.order_by("-pk").values_list("pk", *names)), edge, most


def _look_among(
    rows: QuerySet[Any], names: tuple[str, ...], numbers: Sequence[int], first: int, most: int
) -> tuple[list[Row], int | None, int]:
    """The matching ones of so many of the rows with these numbers, and the place to go on at."""
    some = numbers[first : first + most]
    part = rows.filter(pk__in=some).order_by("-pk").values_list("pk", *names)
    rest = first + most if first + most < len(numbers) else None
    return list(part), rest, len(some)


def _among(selection: Selection, bounds: Bounds, rows: QuerySet[Any]) -> Any:
    """The rows whose numbers an index finds; None when there is none, or they are many."""
    numbers = selection.keys_if_few(bounds)
    return None if numbers is None or len(numbers) > LOOKED else rows.filter(pk__in=numbers)
