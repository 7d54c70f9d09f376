"""Times as arguments of commands."""

from __future__ import annotations

from argparse import ArgumentTypeError
from datetime import UTC, datetime


def instant_argument(text: str) -> datetime:
    """`2026-11-20` or `2026-11-20T09:30:00+08:00`, UTC without an offset."""
    try:
        at = datetime.fromisoformat(text)
    except ValueError:
        raise ArgumentTypeError(
            f"{text!r} is no time; write 2026-11-20 or 2026-11-20T09:30:00+08:00"
        ) from None
    return at if at.tzinfo else at.replace(tzinfo=UTC)
