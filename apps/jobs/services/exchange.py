"""Exchange: settle what has ended and hold what is next in one transaction.

A worker that holds few jobs at once does both all the time; one commit less is half of its time.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from django.db import DatabaseError, transaction

from apps.common.db import is_retryable
from apps.common.errors import PlatformError
from apps.jobs.rules.caller import IN_HOUSE, Caller
from apps.jobs.rules.outcome import HeldJob, Outcome
from apps.jobs.rules.transitions import READY
from apps.jobs.services.claim import Claim
from apps.jobs.services.hold import hold
from apps.jobs.services.protection import lock_states
from apps.jobs.services.request import Request
from apps.jobs.services.settle import guarded_types, settle, settle_locked, wake_for
from apps.jobs.services.type_snapshots import type_snapshots

Answers = list[str | PlatformError]


def exchange(
    *,
    outcomes: Sequence[Outcome],
    caller: Caller = IN_HOUSE,
    request: Request | None = None,
    **holding: Any,
) -> tuple[Answers, list[HeldJob]]:
    """`settle` the outcomes and `hold`; the answers of both.

    When the hold finds nothing or fails, the outcomes are settled by themselves. When it raises,
    they may have been: repeating a report is safe. A `request` takes part in the hold.
    """
    both = _Exchange(outcomes, caller, request)
    jobs = hold(**holding, take=both.take)
    if both.answers is not None:
        return both.answers, jobs
    answers = settle(outcomes=outcomes, caller=caller)
    if not jobs and _makes_work(outcomes, answers):
        jobs = hold(**holding, take=request.take if request else Claim.take)
    return answers, jobs


def _makes_work(outcomes: Sequence[Outcome], answers: Answers) -> bool:
    """Whether a hold finds what it did not before: a job that is ready again, or a free place."""
    if READY in answers:
        return True
    types = type_snapshots()
    return any(each.type in types and types[each.type].is_limited for each in outcomes)


class _Exchange:
    """Takes what a hold has found, and with the first of it settles the outcomes."""

    def __init__(
        self, outcomes: Sequence[Outcome], caller: Caller, request: Request | None
    ) -> None:
        self.answers: Answers | None = None
        self._outcomes = outcomes
        self._caller = caller
        self._request = request

    def take(self, claim: Claim, found: dict[str, list[int]]) -> list[HeldJob]:
        request = self._request
        if self.answers is not None or not found:
            return request.take(claim, found) if request else claim.take(found)
        try:
            with transaction.atomic():
                if request:
                    claim.fitting = request.fitting
                answers, held = self._both(claim, found)
                if request:
                    request.keep(held)
        except DatabaseError as error:
            if not is_retryable(error):
                raise
            # Most likely the lock of a job that it tries to hold.
            self.answers = settle(outcomes=self._outcomes, caller=self._caller)
            raise
        self.answers = answers
        wake_for(answers)
        return held

    def _both(self, claim: Claim, found: dict[str, list[int]]) -> tuple[Answers, list[HeldJob]]:
        guarded = guarded_types(self._outcomes)
        limited = claim.limited(found, {each.type for each in self._outcomes})
        # All of them before any job, as everybody locks them.
        states = lock_states({*guarded, *limited}) if guarded or limited else {}
        guards = {name: states[name] for name in guarded}
        settled = settle_locked(self._outcomes, guards, self._caller)
        return settled.answers, claim.take_locked(found, states, settled.ended)
