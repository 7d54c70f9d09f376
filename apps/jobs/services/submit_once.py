"""A submission over HTTP, which its client repeats when the answer was lost."""

from __future__ import annotations

from collections.abc import Sequence

from django.db import IntegrityError

from apps.common.errors import PlatformError
from apps.jobs.models import Bounds
from apps.jobs.services.request import Request
from apps.jobs.services.submit import Submission, Submitted, submit_everywhere, submit_many


def submit_once(
    jobs: Sequence[Submission],
    *,
    request: Request,
    by: str,
    bounds: Bounds,
    everywhere: bool = False,
) -> list[Submitted]:
    """As `submit_many`, or `submit_everywhere` of one; a repeat gets the first answer, whatever has
    become of the jobs.

    ReplayConflict when a request with this id asked for something else.
    """
    for is_last in (False, True):
        try:
            if everywhere:
                return submit_everywhere(jobs[0], by=by, bounds=bounds, request=request)
            return submit_many(jobs, by=by, bounds=bounds, request=request)
        except (IntegrityError, PlatformError) as refused:
            # Hardly any is a repeat, so only one that is refused, perhaps for what has changed
            # since, asks for the first answer.
            if earlier := request.earlier():
                return earlier.submitted
            # Of an id that another one had, the time is over: it is free now.
            if is_last or isinstance(refused, PlatformError) or not request.is_repeatable:
                raise
    raise AssertionError("unreachable")
