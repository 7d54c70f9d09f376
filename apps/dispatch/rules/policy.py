"""The effect of the end of a dispatch on the stock, and who can receive the occurrence again.

| a dispatch ends as | stock | the same executor again? |
|---|---|---|
| succeeded; failed with `finish`; expired with `keep` | kept | no; in blocking mode yes |
| failed or expired with `give_back`; released | returned | after lease_seconds |
| failed with `retry_same` | kept for the next round | at once, up to max_rounds in all |
| cancelled by an operator | returned | no |
| ended otherwise, and an operator asks again | goes over to the new round | at once |
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

OPEN = "open"
SUCCEEDED = "succeeded"
FAILED = "failed"
EXPIRED = "expired"
RELEASED = "released"
CANCELLED = "cancelled"

SINGLE = "single"
MULTI = "multi"
BLOCKING = "blocking"

FINISH = "finish"
GIVE_BACK = "give_back"
RETRY_SAME = "retry_same"
KEEP = "keep"

OK = "ok"
ALREADY_TAKEN = "already_taken"
COOLING_DOWN = "cooling_down"
IN_FLIGHT = "in_flight"


@dataclass(frozen=True, kw_only=True)
class Policy:
    """The part of a task that decides about repeats; `dispatch_times` None = unlimited."""

    mode: str
    dispatch_times: int | None
    lease_seconds: int
    on_failure: str
    on_expiry: str
    max_rounds: int


@dataclass(frozen=True, kw_only=True)
class PastDispatch:
    """The latest dispatch of an executor and occurrence; `rounds` counts all of them.

    `earlier_counts`: one before it still holds its stock.
    """

    number: int
    rounds: int
    state: str
    holds_stock: bool
    finished_at: datetime | None
    earlier_counts: bool = False


@dataclass(frozen=True)
class Verdict:
    """Whether the executor can receive the occurrence now. `until`: from when, if waiting helps.

    `carried` is the number of the failed dispatch whose stock the next round takes over.
    """

    code: str
    until: datetime | None = None
    carried: int | None = None

    @property
    def allows(self) -> bool:
        return self.code == OK


def verdict(
    policy: Policy, last: PastDispatch | None, now: datetime, *, is_asked: bool = False
) -> Verdict:
    """The verdict over an executor's latest dispatch of an occurrence, None when there is none.

    Nothing follows a cancelled one, and a counted one only as the retry that takes its stock over
    or in blocking mode, which the task may have left since. When an operator asks the executor
    again (`is_asked`), neither a success nor a wait for the lease stands against it, and what
    `last` holds of the stock goes over.
    """
    if last is None:
        return Verdict(OK)
    if last.state == CANCELLED:
        return Verdict(ALREADY_TAKEN)
    if last.state == OPEN or last.finished_at is None:
        return Verdict(IN_FLIGHT)
    if is_asked and last.holds_stock:
        return Verdict(OK, carried=last.number)
    if last.holds_stock:
        wants_retry = last.state == FAILED and policy.on_failure == RETRY_SAME
        if wants_retry and last.rounds < policy.max_rounds:
            return Verdict(OK, carried=last.number)
    if (last.holds_stock or last.earlier_counts) and policy.mode != BLOCKING:
        return Verdict(ALREADY_TAKEN)
    if is_asked or last.holds_stock:
        return Verdict(OK)
    until = last.finished_at + timedelta(seconds=policy.lease_seconds)
    return Verdict(OK) if now >= until else Verdict(COOLING_DOWN, until)


def keeps_stock(policy: Policy, state: str) -> bool:
    """Whether a dispatch in this final state still counts against dispatch_times."""
    if state == FAILED:
        return policy.on_failure != GIVE_BACK
    if state == EXPIRED:
        return policy.on_expiry == KEEP
    return state == SUCCEEDED
