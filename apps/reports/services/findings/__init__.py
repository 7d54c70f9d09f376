"""What goes wrong slowly, found before it hurts: detectors, each with at most one fix."""

from __future__ import annotations

from datetime import datetime

from apps.reports.services.findings import database, sinks, tables, work
from apps.reports.services.findings.base import (
    FIXED,
    Detector,
    Facts,
    Finding,
    Fix,
    Looked,
    NotKnown,
    look,
)

__all__ = [
    "DETECTORS",
    "FIXED",
    "Detector",
    "Facts",
    "Finding",
    "Fix",
    "Looked",
    "NotKnown",
    "look",
    "look_all",
]

DETECTORS = (
    tables.OVERDUE_ROWS,
    tables.MISSING_PARTITIONS,
    tables.ROWS_BEHIND,
    sinks.HOLDING_BACK,
    sinks.LATE_SINKS,
    tables.LATE_MOVER,
    work.UNUSED_TYPES,
    database.CLOCKS,
    work.SAME_FAILURES,
    database.OPEN_TRANSACTIONS,
)


def look_all(now: datetime) -> list[Looked]:
    """What all of them find now."""
    facts = Facts(now)
    return [look(each, facts) for each in DETECTORS]
