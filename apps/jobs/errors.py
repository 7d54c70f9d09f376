"""Errors that only jobs raises."""

from __future__ import annotations

from apps.common.errors import Conflict, NotFound, PlatformError
from apps.common.messages import Message as _


class LeaseLost(PlatformError):
    """Another worker has the job now; nothing was changed, and the work may be done again."""

    code = "lease_lost"
    status = 409
    title = "The lease of this job is over"


class Archived(Conflict):
    """The job ended long ago; only a retry brings it back."""

    code = "archived"
    title = "The job is in the archive"


def not_held(number: int) -> NotFound:
    """The same words whether the job is another key's, of another type, or unknown: none of that
    is the caller's to know."""
    return NotFound(_("This key holds no job {number}.", number=number))
