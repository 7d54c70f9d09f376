"""Errors that only dispatch raises."""

from __future__ import annotations

from apps.common.errors import Conflict, PlatformError


class Closed(PlatformError):
    """The dispatch has already ended in another way."""

    code = "closed"
    status = 409
    title = "Already closed"


class Archived(Conflict):
    """The task was over long ago; restoring brings it back."""

    code = "archived"
    title = "The task is in the archive"
