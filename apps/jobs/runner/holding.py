"""A job that this process holds, and what the heartbeat has learned of it."""

from __future__ import annotations

from dataclasses import dataclass

from apps.jobs.services.hold import HeldJob


@dataclass(slots=True, eq=False)
class Holding:
    """`hard_end` is on the monotonic clock; `started` 0 until its handler runs."""

    job: HeldJob
    hard_end: float
    started: float = 0.0
    lost: bool = False
    cancel_requested: bool = False
