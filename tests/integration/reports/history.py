"""Entries of the journal as they come to be, and what they add up to, counted one by one."""

from __future__ import annotations

import itertools
import random
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

from apps.common import ids
from apps.journal.models import JournalEntry
from apps.reports.models import Rollup, RollupBucket
from apps.reports.services.summary import Figures, Period, Summary
from taskplatform.demo.terminal import percentile

_sequence = itertools.count()

# (event, from, to) and what it counts as: written out here once more, so that a slip shows.
JOBS = {
    ("succeeded", "running", "succeeded"): "succeeded",
    ("failed", "running", "failed"): "failed",
    ("failed", "running", "scheduled"): "retried",
    ("lost", "running", "ready"): "retried",
    ("lost", "running", "failed"): "failed",
    ("timed_out", "running", "failed"): "timed_out",
    ("timed_out", "running", "scheduled"): "retried",
    ("expired", "ready", "failed"): "expired",
    ("released", "running", "ready"): "released",
    ("cancelled", "ready", "cancelled"): "cancelled",
    ("stage_done", "running", "ready"): "stage_done",
    ("stale", "running", "running"): None,
    ("retried", "failed", "ready"): None,
}
DISPATCHES = {
    ("handed_out", "", "open"): None,
    ("handed_out", "failed", "open"): "retried",
    ("succeeded", "open", "succeeded"): "succeeded",
    ("failed", "open", "failed"): "failed",
    ("expired", "open", "expired"): "expired",
    ("released", "open", "released"): "released",
    ("cancelled", "open", "cancelled"): "cancelled",
    ("late_result", "expired", "expired"): None,
}
KINDS = {"job": JOBS, "dispatch": DISPATCHES}
COUNTS = (
    "succeeded", "failed", "retried", "timed_out", "expired", "released", "cancelled", "stage_done",
)  # fmt: skip


def entry(at: datetime, source: str = "job", **fields: Any) -> JournalEntry:
    """An entry whose id was made at that instant; by default of a mail that succeeded."""
    event = ("succeeded", "running" if source == "job" else "open", "succeeded")
    kind = fields.pop("kind", event)
    fields = {"type_or_task": "mail", "wait_ms": 10, "run_ms": 100, **fields}
    number = ids.lowest_id_at(at) + next(_sequence) % (1 << 20)
    return JournalEntry(
        id=number,
        at=at,
        source=source,
        subject_id=1,
        event=kind[0],
        from_state=kind[1],
        to_state=kind[2],
        **fields,
    )


def write(*entries: JournalEntry) -> None:
    JournalEntry.objects.bulk_create(entries, batch_size=500)


def drawn(count: int, start: datetime, end: datetime, *, seed: int = 1) -> list[JournalEntry]:
    """Entries of all kinds at random instants, in bursts, some of them minutes apart."""
    chance = random.Random(seed)
    seconds = (end - start).total_seconds()
    bursts = [chance.random() for _ in range(max(1, count // 8))]
    made = []
    for _ in range(count):
        share = min(0.999999, max(0.0, chance.choice(bursts) + chance.gauss(0, 0.002)))
        at = start + timedelta(seconds=share * seconds)
        source = chance.choice(("job", "job", "dispatch"))
        kind = chance.choice(list(KINDS[source]))
        job = source == "job"
        attempt = job and kind[1] == "running" and kind[0] != "stale"
        timed = attempt or (not job and kind[1] == "open")
        made.append(
            entry(
                at,
                source,
                kind=kind,
                type_or_task=chance.choice(
                    ("mail", "sms", "fax") if job else ("once:1", "rotate:2")
                ),
                executor="" if job else chance.choice(("uid_a", "uid_b")),
                host=chance.choice(("h1", "h2")) if attempt else "",
                worker=chance.choice(("h1:1", "h2:2", "h2:3")) if attempt else "",
                wait_ms=int(chance.lognormvariate(5, 3)) if timed else None,
                run_ms=int(chance.lognormvariate(7, 2)) if timed else None,
            )
        )
    return [*made, entry(start, "plan", kind=("task_created", "", ""))]


class Naive:
    """Figures counted from raw entries, one by one."""

    def __init__(self) -> None:
        self.entries = list(JournalEntry.objects.order_by("id"))

    def check(
        self,
        found: Summary,
        source: str,
        by: str,
        period: Period,
        *,
        only: tuple[str, str] | None = None,
    ) -> None:
        """The summary is what the entries of its period add up to."""
        inside = [
            each
            for each in self.entries
            if each.source == source
            and found.start <= ids.made_at(each.id) < found.as_of
            and (only is None or value_of(each, only[0]) == only[1])
        ]
        _same(found.total, inside)
        if by in ("minute", "hour", "day"):
            self._check_time(found, inside, by, period.zone)
            return
        groups = _grouped(inside, lambda each: value_of(each, by))
        groups.pop("", None)
        groups = {name: them for name, them in groups.items() if any(map(counts_as, them))}
        assert {row.group for row in found.rows} == set(groups)
        for row in found.rows:
            _same(row, groups[row.group])
        assert [row.total for row in found.rows] == sorted(
            (row.total for row in found.rows), reverse=True
        )

    def _check_time(
        self, found: Summary, inside: Sequence[JournalEntry], by: str, zone: ZoneInfo
    ) -> None:
        def label(each: JournalEntry) -> str:
            return label_of(ids.made_at(each.id), by, zone)

        groups = _grouped(inside, label)
        assert set(groups) <= {row.group for row in found.rows}
        assert len({row.group for row in found.rows}) == len(found.rows)
        for row in found.rows:
            assert row.start is not None
            assert row.group == label_of(row.start, by, zone)
            _same(row, groups.get(row.group, []))


def label_of(at: datetime, by: str, zone: ZoneInfo) -> str:
    local = at.astimezone(zone)
    if by == "day":
        return f"{local:%Y-%m-%d}"
    offset = f"{local:%z}"
    minute = f"{local:%M}" if by == "minute" else "00"
    return f"{local:%Y-%m-%dT%H}:{minute}{offset[:3]}:{offset[3:]}"


def value_of(each: JournalEntry, by: str) -> str:
    return str(getattr(each, "type_or_task" if by in ("type", "task") else by))


def counts_as(each: JournalEntry) -> str | None:
    return KINDS[each.source][each.event, each.from_state, each.to_state]


def _grouped(
    entries: Iterable[JournalEntry], key: Callable[[JournalEntry], str]
) -> dict[str, list[JournalEntry]]:
    groups: dict[str, list[JournalEntry]] = {}
    for each in entries:
        groups.setdefault(key(each), []).append(each)
    return groups


def _same(figures: Figures, entries: Sequence[JournalEntry]) -> None:
    counts = Counter(name for each in entries if (name := counts_as(each)))
    ends = [e for e in entries if counts_as(e) and e.event != "handed_out"]
    assert {name: getattr(figures, name) for name in COUNTS} == {n: counts[n] for n in COUNTS}
    assert figures.total == len(ends)
    for name in ("wait", "run"):
        values = [v for e in ends if (v := getattr(e, f"{name}_ms")) is not None]
        for share in (50, 95, 99):
            answered = getattr(getattr(figures, name), f"p{share}")
            if not values:
                assert answered is None
                continue
            exact = percentile(values, share)
            assert abs(answered - exact) <= 0.02 * exact


def stored() -> list[tuple[Any, ...]]:
    """All that is stored, in order, to be held against another time."""
    totals = Rollup.objects.order_by("level", "source", "dimension", "start", "value")
    rows = [
        tuple(bytes(v) if isinstance(v, memoryview) else v for v in row)
        for row in totals.values_list(
            "level", "source", "dimension", "start", "value", "total", *COUNTS, "wait", "run"
        )
    ]
    return [
        *rows,
        *RollupBucket.objects.order_by("level", "start").values_list(
            "level", "start", "entries", "handed_out"
        ),
    ]


def utc(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=UTC)
