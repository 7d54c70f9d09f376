"""Errors that only dispatch raises."""

from __future__ import annotations

from apps.common.errors import PlatformError


class Closed(PlatformError):
    """The dispatch has already ended in another way."""

    code = "closed"
    status = 409
    title = "Already closed"
