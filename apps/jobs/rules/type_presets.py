"""Usual settings of job types to begin with; what a type began with is not stored."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from apps.jobs.rules.type_snapshot import FAST, SLOW

SHORT, CALL, LONG, NIGHT = "short", "call", "long", "night"
_MINUTE, _HOUR = 60, 3600


def _preset(
    lane: str, finish: int, tries: int, waits: tuple[float, float, float]
) -> dict[str, Any]:
    """The deadline of a try in seconds; the first wait, its multiplier and the longest wait."""
    first, multiplier, longest = waits
    return {
        "lane": lane,
        "max_processing_seconds": finish,
        "max_attempts": tries,
        "retry_delay_seconds": first,
        "retry_multiplier": multiplier,
        "retry_max_seconds": longest,
        "breaker_enabled": False,
    }


# All of them have the same settings, so that the next choice leaves nothing of the one before.
PRESETS: Mapping[str, Mapping[str, Any]] = {
    SHORT: _preset(FAST, 10, 5, (1.0, 1.0, 60.0)),
    # A system on the network is asked less often while it does not answer.
    CALL: _preset(FAST, 30, 3, (30.0, 2.0, 600.0)) | {"breaker_enabled": True},
    LONG: _preset(SLOW, 2 * _HOUR, 2, (10.0 * _MINUTE, 1.0, 3600.0)),
    NIGHT: _preset(SLOW, 6 * _HOUR, 1, (10.0, 2.0, 3600.0)),
}


def preset_of(settings: Any) -> str:
    """The preset that a type with these settings, as attributes, has; "" for values of its own."""
    for name, preset in PRESETS.items():
        if all(getattr(settings, field) == value for field, value in preset.items()):
            return name
    return ""
