"""The settings of a type as rules and services read them, and the ranges of their values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import cached_property
from typing import Any

from apps.common.json.schema import Checker
from apps.jobs.rules.backoff import Backoff
from apps.jobs.rules.breaker import BreakerPolicy
from apps.jobs.rules.key_limit import KeyLimit, limit_id

FAST, SLOW = "fast", "slow"
ALLOW, ALWAYS, NEVER = "allow", "always", "never"
NO_ORIGIN, PREFER_ORIGIN = "none", "prefer"
# The only stage of a type whose jobs may have any, in any order.
FREE_STAGES = "*"
BATCH, EACH = "batch", "each"

DAY = 86_400
YEAR = 366 * DAY
# Inclusive ranges of the numbers of a type; seconds where the name says so.
RANGES: Mapping[str, tuple[float, float]] = {
    "weight": (1, 1000),
    "batch_limit": (1, 1000),
    "lease_seconds": (1, DAY),
    "max_processing_seconds": (1, 30 * DAY),
    "max_attempts": (1, 10_000),
    "retry_delay_seconds": (0, YEAR),
    "retry_multiplier": (0, 1000),
    "retry_max_seconds": (0, YEAR),
    "retry_jitter": (0, 1),
    "expires_after_seconds": (1, 10 * YEAR),
    "default_priority": (-100, 100),
    "max_running": (0, 1_000_000),
    "rate_per_minute": (0, 10_000_000),
    "limit_running": (1, 1000),
    "limit_per_minute": (1, 600_000),
    "limit_burst": (1, 10_000),
    "origin_grace_seconds": (0, 30 * DAY),
    "retention_days": (1, 36_500),
    "breaker_failure_rate": (0.01, 1),
    "breaker_window_seconds": (1, DAY),
    "breaker_min_calls": (1, 1_000_000),
    "breaker_open_seconds": (1, DAY),
}


@dataclass(frozen=True, kw_only=True)
class TypeSnapshot:
    """The settings of one job type at one moment; every edit has a `version` of its own."""

    pk: int
    name: str
    version: int
    handler: str
    lane: str
    stages: tuple[str, ...]
    params_schema: Mapping[str, Any]
    weight: int
    batch_limit: int
    lease: timedelta
    max_processing: timedelta
    max_attempts: int
    backoff: Backoff
    expires_after: timedelta | None
    default_priority: int
    max_running: int | None
    rate_per_minute: int | None
    key_limit: KeyLimit | None
    origin: str
    origin_grace: timedelta
    allowed_hosts: tuple[str, ...]
    pool: bool
    unique: str
    settle: str
    paused: bool
    pause_reason: str
    paused_until: datetime | None
    paused_at: datetime | None
    paused_by: str
    breaker: BreakerPolicy
    # Else it is paused until somebody mends what SQL has stored, and not until it is resumed.
    is_readable: bool = True

    @cached_property
    def checker(self) -> Checker | None:
        """Checks contexts; None when the type accepts any."""
        return Checker(self.params_schema) if self.params_schema else None

    @property
    def has_free_stages(self) -> bool:
        """Whether its jobs may have any stage, in any order."""
        return self.stages == (FREE_STAGES,)

    @property
    def is_limited(self) -> bool:
        """Whether holds of this type are counted, one after the other."""
        return (
            self.max_running is not None or self.rate_per_minute is not None or self.breaker.enabled
        )

    @property
    def is_limited_by_number_only(self) -> bool:
        """Whether only a maximum running limits it."""
        return (
            self.max_running is not None
            and self.rate_per_minute is None
            and not self.breaker.enabled
        )

    def limit_id(self, *, key: str, user_id: str, context: Mapping[str, Any]) -> int | None:
        """The number of the key that a job counts for; None without a limit, NoValue without a
        value that could be one."""
        if self.key_limit is None:
            return None
        return limit_id(self.name, self.key_limit.value(key=key, user_id=user_id, context=context))

    def is_paused(self, now: datetime) -> bool:
        return self.paused and (self.paused_until is None or now < self.paused_until)

    def serves(self, host: str) -> bool:
        """Whether workers on this host may hold its jobs."""
        return not self.allowed_hosts or host in self.allowed_hosts

    def expires_at(self, expected_at: datetime) -> datetime | None:
        """When a job scheduled for that instant expires."""
        return None if self.expires_after is None else expected_at + self.expires_after

    def is_expired(self, expected_at: datetime, now: datetime) -> bool:
        return self.expires_after is not None and now >= expected_at + self.expires_after
