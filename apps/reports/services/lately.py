"""The last hour by minutes up to now, the same hour of yesterday, and the last days in steps.

All figures of a page are of one window: the rollups of the closed minutes, and after them the ends
that no rollup has yet. The rollups change once a minute and are read once for
everybody who sees the same.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from apps.common import ids
from apps.common.ttl_cache import TTLCache
from apps.journal.services.minutes import instant_of, second_of
from apps.reports.rules.coverage import DAY, FOUR_HOURS, HOUR, MINUTE, QUARTER, BucketRun, floor
from apps.reports.rules.outcomes import (
    COUNTS,
    DISPATCH,
    FAILURES,
    JOB,
    OVER,
    SUCCEEDED,
    success_rate,
)
from apps.reports.rules.sketch import bin_of, pack, percentiles
from apps.reports.rules.tally import ALL, EXECUTOR, TYPE
from apps.reports.services.coverage import Stored
from apps.reports.services.last_minutes import Unsummed
from apps.reports.services.rows import (
    RUN,
    WAIT,
    Counted,
    Selection,
    all_of_each,
    rows_in,
    sums_in,
)

MINUTES = HOUR // MINUTE
# The periods of the chart in hours, each with the seconds of a step.
STEPS = {1: MINUTE, 24: QUARTER, 168: FOUR_HOURS}
_PLACES = {name: place for place, name in enumerate(COUNTS)}
# The levels of buckets from a step down to minutes, which cover what has not filled a step yet.
_FINER = {MINUTE: [MINUTE], QUARTER: [QUARTER, MINUTE], FOUR_HOURS: [FOUR_HOURS, HOUR, MINUTE]}


@dataclass
class Step:
    """The ends in a minute or a longer step; the sketches are packed."""

    ended: int = 0
    failed: int = 0
    succeeded: int = 0
    waits: list[bytes] = field(default_factory=list)
    runs: list[bytes] = field(default_factory=list)

    def add(self, source: str, row: Counted) -> None:
        self.ended += sum(row[_PLACES[name]] for name in OVER[source])
        self.failed += sum(row[_PLACES[name]] for name in FAILURES)
        self.succeeded += row[_PLACES[SUCCEEDED]]
        if len(row) > RUN:
            self.waits.append(row[WAIT])
            self.runs.append(row[RUN])


@dataclass(frozen=True)
class Window:
    """The steps of a period, the newest last, which goes up to `until`."""

    start: int
    step: int
    until: datetime
    steps: Sequence[Step]

    @property
    def ended(self) -> int:
        return sum(each.ended for each in self.steps)

    @property
    def failed(self) -> int:
        return sum(each.failed for each in self.steps)

    @property
    def success_rate(self) -> float | None:
        return _rate(self.steps)

    def p95(self, name: str) -> int | None:
        """The p95 of `waits` or `runs` in milliseconds; None without any."""
        packed = [one for each in self.steps for one in getattr(each, name)]
        return percentiles(packed, (0.95,))[0]

    def line_of_p95(self, name: str) -> list[float | None]:
        return [percentiles(getattr(each, name), (0.95,))[0] for each in self.steps]

    def line_of_success(self) -> list[float | None]:
        return [_rate([each]) for each in self.steps]

    def begins(self) -> list[datetime]:
        """When each step begins."""
        return [instant_of(self.start + self.step * place) for place in range(len(self.steps))]


def _rate(steps: Iterable[Step]) -> float | None:
    some = list(steps)
    succeeded, failed = sum(s.succeeded for s in some), sum(s.failed for s in some)
    return success_rate(succeeded=succeeded, failed=failed, timed_out=0, expired=0)


# The counted rows by the end of the totals, the source and values, the start and the hours.
hours: TTLCache[list[tuple[str, int, Counted]]] = TTLCache(60.0)
yesterdays: TTLCache[Window] = TTLCache(600.0)


def selection(source: str, values: Collection[str] | None) -> Selection:
    """Everything of a source, or of jobs these types, of dispatches these executors."""
    if values is None:
        return Selection(source, ALL)
    return Selection(source, TYPE if source == JOB else EXECUTOR, tuple(sorted(values)))


def window(
    now: datetime,
    stored: Stored,
    newest: Unsummed,
    chosen: Selection,
    *,
    hours_back: int = 1,
) -> Window:
    """The last hours up to now; up to the end of the totals where too much has ended since."""
    step = STEPS[hours_back]
    until = now if newest.is_whole else (stored.closed_until or now)
    start = floor(second_of(until), step) + step - hours_back * HOUR
    count = hours_back * HOUR // step
    end = stored.end or 0
    # What everybody sees of both sources is on one page.
    sources = (JOB, DISPATCH) if chosen.dimension == ALL else (chosen.source,)
    key = (end, chosen._replace(source="/".join(sources)), start, hours_back)
    found = [Step() for _ in range(count)]
    for source, at, row in hours.get(key, lambda: _read(sources, chosen, start, end, step)):
        if source == chosen.source:
            found[(at - start) // step].add(source, row)
    if newest.is_whole:
        _add_newest(found, start, step, newest, chosen)
    return Window(start, step, until, found)


def _read(
    sources: Sequence[str], chosen: Selection, start: int, end: int, step: int
) -> list[tuple[str, int, Counted]]:
    """The closed buckets of the steps, each after its source; only minutes with their sketches."""
    runs, at = [], start
    for level in _FINER[step]:
        edge = floor(end, level)
        if at < edge:
            runs.append(BucketRun(level, at, edge))
            at = edge
    if not runs:
        return []
    if step == MINUTE and chosen.dimension == ALL:
        return [*all_of_each(sources, runs)]
    if step == MINUTE:
        return [(chosen.source, at, row) for at, _value, row in rows_in(chosen, runs)]
    return [
        (source, at, tuple(row))
        for source in sources
        for at, row in sums_in(chosen._replace(source=source), runs, by="start").items()
    ]


def _add_newest(
    steps: list[Step], start: int, step: int, newest: Unsummed, chosen: Selection
) -> None:
    waits: dict[int, Counter[int]] = {}
    runs: dict[int, Counter[int]] = {}
    for each in newest.ends:
        value = each.type_or_task if chosen.source == JOB else each.executor
        is_chosen = chosen.values is None or value in chosen.values
        place = (second_of(ids.made_at(each.number)) - start) // step
        if each.source != chosen.source or not is_chosen or not 0 <= place < len(steps):
            continue
        at = steps[place]
        at.ended += each.outcome in OVER[chosen.source]
        at.failed += each.outcome in FAILURES
        at.succeeded += each.outcome == SUCCEEDED
        for found, ms in ((waits, each.wait_ms), (runs, each.run_ms)):
            if ms is not None:
                found.setdefault(place, Counter())[bin_of(ms)] += 1
    for place, sketch in waits.items():
        steps[place].waits.append(pack(sketch))
    for place, sketch in runs.items():
        steps[place].runs.append(pack(sketch))


def yesterday(now: datetime, stored: Stored, chosen: Selection) -> Window:
    """The hour that ended a day ago, cut at a quarter."""
    start = floor(second_of(now), QUARTER) - DAY - HOUR

    def read() -> Window:
        if QUARTER in stored.kept_from and stored.kept_from[QUARTER] <= start:
            # Of a day ago there are no minutes that quarters lack.
            covered = [BucketRun(QUARTER, start, start + HOUR)]
        else:
            covered, _left = stored.cover([(start, start + HOUR)])
        whole = Step()
        for _at, _value, row in rows_in(chosen, covered):
            whole.add(chosen.source, row)
        return Window(start, HOUR, instant_of(start + HOUR), [whole])

    return yesterdays.get((start, chosen), read)
