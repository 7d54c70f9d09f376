"""Errors that only jobs raises."""

from __future__ import annotations

from apps.common.errors import Conflict, PlatformError


class LeaseLost(PlatformError):
    """Another worker has the job now; nothing was changed, and the work may be done again."""

    code = "lease_lost"
    status = 409
    title = "The lease of this job is over"


class Archived(Conflict):
    """The job ended long ago; only a retry brings it back."""

    code = "archived"
    title = "The job is in the archive"
