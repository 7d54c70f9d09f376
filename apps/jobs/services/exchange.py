"""Exchange: settle what has ended and hold what is next in one transaction.

A worker that holds few jobs at once does both all the time; one commit less is half of its time.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from django.db import transaction

from apps.common.errors import PlatformError
from apps.jobs.rules.caller import IN_HOUSE, Caller
from apps.jobs.rules.outcome import HeldJob, Outcome
from apps.jobs.rules.transitions import READY
from apps.jobs.services.claim import Claim
from apps.jobs.services.hold import claims
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
    **wanted: Any,
) -> tuple[Answers, list[HeldJob]]:
    """`settle` the outcomes and hold what the `claims` find; the answers of both.

    When these find nothing or lose a lock, the outcomes are settled by themselves. When it raises,
    they may have been: repeating a report is safe. A `request` keeps what is held.
    """
    answers: Answers = []
    jobs: list[HeldJob] = []
    left = outcomes
    for claim in claims(**wanted):
        with claim:
            if left or request:
                answers += _in_one(claim, left, caller, request)
                left = ()
            else:
                claim.take()
        if left:
            # Most likely the lock of a job that it tried to hold.
            answers, left = settle(outcomes=left, caller=caller), ()
        jobs = claim.held
    if left:
        answers = settle(outcomes=left, caller=caller)
        if _makes_work(outcomes, answers):
            _, jobs = exchange(outcomes=(), request=request, **wanted)
    return answers, jobs


def _in_one(
    claim: Claim, outcomes: Sequence[Outcome], caller: Caller, request: Request | None
) -> Answers:
    """Settle, take and keep in one transaction."""
    with transaction.atomic():
        guarded = guarded_types(outcomes)
        limited = claim.limited_types({each.type for each in outcomes})
        # All of them before any job, as everybody locks them.
        states = lock_states({*guarded, *limited}) if guarded or limited else {}
        guards = {name: states[name] for name in guarded}
        settled = settle_locked(outcomes, guards, caller)
        claim.take_locked(claim.found, states, settled.ended)
        if request:
            request.keep(claim.held)
    wake_for(settled.answers)
    return settled.answers


def _makes_work(outcomes: Sequence[Outcome], answers: Answers) -> bool:
    """Whether a hold finds what it did not before: a job that is ready again, or a free place."""
    if READY in answers:
        return True
    types = type_snapshots()
    return any(each.type in types and types[each.type].is_limited for each in outcomes)
