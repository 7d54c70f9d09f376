"""A figure, the baseline beside it, whether the goal is met, and the parts of a benchmark."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal, NamedTuple

from taskplatform.client.tables import table
from taskplatform.demo.terminal import percentile


class RunOptions(NamedTuple):
    """How a part is measured: `folder` is for its files, `quick` means fewer rows and rounds."""

    folder: Path
    quick: bool
    log: Callable[[str], None]


class Part(NamedTuple):
    """Figures that are measured together: on servers (MariaDB and Redis), on SQLite, or on both."""

    name: str
    measure: Callable[[RunOptions], Iterator[Figure]]
    on: Literal["servers", "sqlite", "both"] = "servers"


@dataclass(frozen=True)
class Figure:
    """`ratio` is value / baseline. The goal limits the ratio, or the value without a baseline."""

    figure: str
    value: float
    unit: str
    baseline: float | None
    ratio: float | None
    goal: str
    met: bool

    def as_json(self) -> dict[str, Any]:
        return asdict(self)


def figure(
    name: str,
    value: float,
    unit: str,
    *,
    baseline: float | None = None,
    at_least: float | None = None,
    at_most: float | None = None,
) -> Figure:
    """The figure with exactly one of the two goals."""
    ratio = None if baseline is None else value / baseline
    measured = value if ratio is None else ratio
    if at_least is not None:
        return Figure(name, value, unit, baseline, ratio, f">= {at_least:g}", measured >= at_least)
    if at_most is not None:
        return Figure(name, value, unit, baseline, ratio, f"<= {at_most:g}", measured <= at_most)
    raise ValueError(f"{name} has no goal")


def lines(figures: Iterable[Figure]) -> Iterator[str]:
    """A table with a line for each figure."""
    headings = ("figure", "value", "baseline", "ratio", "goal", "")
    rows = [
        (
            each.figure,
            f"{each.value:,.4g} {each.unit}",
            "-" if each.baseline is None else f"{each.baseline:,.4g}",
            "-" if each.ratio is None else f"{each.ratio:.2f}",
            each.goal,
            "met" if each.met else "short",
        )
        for each in figures
    ]
    return table(headings, rows)


def median(values: Sequence[float]) -> float:
    """Always one of the values."""
    return percentile(values, 50)
