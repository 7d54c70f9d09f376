"""Figures as pages, CSV and API show them, to be compared with the entries of the journal."""

from __future__ import annotations

import csv
import io
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from apps.journal.models import JournalEntry
from taskplatform.demo.terminal import percentile
from tests.integration.reports.history import COUNTS, counts_as

SHARES = {"p50": 50, "p95": 95, "p99": 99}
_TIMES = tuple(f"{of}_{share}" for of in ("wait", "run") for share in SHARES)
_UNITS = {"ms": 1, "s": 1000, "min": 60_000, "h": 3_600_000}

# Every grouping of each source that all the figures are compared by.
REPORTS = (
    ("job", "type"),
    ("job", "host"),
    ("job", "worker"),
    ("job", "hour"),
    ("job", "day"),
    ("dispatch", "task"),
    ("dispatch", "executor"),
    ("dispatch", "hour"),
)


@dataclass(frozen=True)
class Row:
    """A row of figures; what is not shown is absent from `counts` and `times` (ms or None)."""

    counts: Mapping[str, int]
    rate: float | None
    times: Mapping[str, int | None]


def of_csv(text: str) -> dict[str, Row]:
    """By group, the total as "total"."""
    head, *rows = csv.reader(io.StringIO(text))
    found = {}
    for name, *values in rows:
        given = dict(zip(head[1:], values, strict=True))
        found[name] = Row(
            counts={each: int(given[each]) for each in ("total", *COUNTS) if each in given},
            rate=float(given["success_rate"]) if given["success_rate"] else None,
            times={
                each: int(given[f"{each}_ms"]) if given[f"{each}_ms"] else None for each in _TIMES
            },
        )
    return found


def of_api(answer: Mapping[str, Any]) -> dict[str, Row]:
    """By group, the total as "total"."""
    rows = [*answer["rows"], {**answer["total"], "group": "total"}]
    return {
        row["group"]: Row(
            counts={each: row[each] for each in ("total", *COUNTS)},
            rate=row["success_rate"],
            times={f"{of}_{share}": row[of][share] for of in ("wait", "run") for share in SHARES},
        )
        for row in rows
    }


def of_table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> dict[str, Row]:
    """By the words of the first cell; the headings are those of English pages."""
    names = [text.strip().lower().replace(" ", "_") for text in head[1:]]
    names = ["total" if name in ("ended", "tries_ended") else name for name in names]
    found = {}
    for name, *values in rows:
        given = dict(zip(names, values, strict=True))
        found[name.strip()] = Row(
            counts={
                each: int(given[each].replace(",", ""))
                for each in ("total", *COUNTS)
                if each in given
            },
            rate=share_of(given["success_rate"]),
            times={each: milliseconds_of(given[each]) for each in _TIMES},
        )
    return found


def share_of(text: str) -> float | None:
    """`98.7 %` as a share of 1."""
    return None if text == "–" else float(text.removesuffix(" %")) / 100


def milliseconds_of(text: str) -> int | None:
    """`3.4 s` or `1 min 5 s` in milliseconds."""
    if text == "–":
        return None
    parts = text.split()
    numbers = (float(number.replace(",", "")) for number in parts[::2])
    return round(sum(n * _UNITS[unit] for n, unit in zip(numbers, parts[1::2], strict=True)))


def check(
    shown: Mapping[str, Row],
    entries: Sequence[JournalEntry],
    group_of: Callable[[JournalEntry], str],
    *,
    rounded: bool = False,
) -> None:
    """The figures of each group, and the total if it is shown, are what the entries add up to.

    Pages show times and rates `rounded` to what a person reads.
    """
    groups: dict[str, list[JournalEntry]] = {}
    for each in entries:
        if counts_as(each):
            groups.setdefault(group_of(each), []).append(each)
    groups.pop("", None)
    assert set(groups) <= set(shown)
    for name, figures in shown.items():
        is_total = name in ("total", "All") and name not in groups
        _check_one(name, figures, entries if is_total else groups.get(name, []), rounded=rounded)


def _check_one(name: str, shown: Row, entries: Sequence[JournalEntry], *, rounded: bool) -> None:
    counts = Counter(counted for each in entries if (counted := counts_as(each)))
    ends = [each for each in entries if counts_as(each) and each.event != "handed_out"]
    exact = {"total": len(ends), **{each: counts[each] for each in COUNTS}}
    assert shown.counts == {each: exact[each] for each in shown.counts}, name
    assert not any(exact[each] for each in exact if each not in shown.counts), name
    decided = sum(counts[each] for each in ("succeeded", "failed", "timed_out", "expired"))
    if not decided:
        assert shown.rate is None, name
    else:
        assert shown.rate is not None, name
        assert abs(shown.rate - counts["succeeded"] / decided) <= (0.0005 if rounded else 0.00005)
    for of in ("wait", "run"):
        values = [v for each in ends if (v := getattr(each, f"{of}_ms")) is not None]
        for share, percent in SHARES.items():
            exact_time = percentile(values, percent) if values else None
            _check_time(shown.times[f"{of}_{share}"], exact_time, rounded=rounded)


def _check_time(shown: int | None, exact: int | None, *, rounded: bool) -> None:
    if shown is None or exact is None:
        assert shown is exact
        return
    # At least two digits are shown, so rounding adds 5 % at most to the 2 % of the sketches.
    assert abs(shown - exact) <= (0.07 if rounded else 0.02) * exact + 0.5
