"""What an entry of the journal counts as, in this one place.

Counted are ends: of a dispatch, of an attempt at a job, and of a job that ends without one. Each
end counts once, so those that a job's retries end do not lower its success rate. A failed dispatch
that its executor gets again has failed all the same; its return counts beside, as retried.
"""

from __future__ import annotations

SUCCEEDED = "succeeded"
FAILED = "failed"  # for good
RETRIED = "retried"  # job: an attempt that another follows; dispatch: a hand-out that repeats one
TIMED_OUT = "timed_out"  # for good, past the hard end of the last attempt
EXPIRED = "expired"  # dispatch: silent past the deadline; job: too old to be begun
RELEASED = "released"  # given back
CANCELLED = "cancelled"
STAGE_DONE = "stage_done"  # an attempt that brought a job to its next stage
TOTAL = "total"

# The columns of every row of totals.
COUNTS = (
    TOTAL,
    SUCCEEDED,
    FAILED,
    RETRIED,
    TIMED_OUT,
    EXPIRED,
    RELEASED,
    CANCELLED,
    STAGE_DONE,
)
DISPATCH, JOB = "dispatch", "job"
SOURCES = (DISPATCH, JOB)

_WAITING = ("ready", "scheduled")

# (event, state before, state after): what it counts as. Any other entry ends nothing.
DISPATCH_ENDS = {
    (end, "open", end): end for end in (SUCCEEDED, FAILED, EXPIRED, RELEASED, CANCELLED)
}
JOB_ENDS = {
    ("succeeded", "running", "succeeded"): SUCCEEDED,
    ("failed", "running", "failed"): FAILED,
    ("timed_out", "running", "failed"): TIMED_OUT,
    ("lost", "running", "failed"): FAILED,
    **{
        (event, "running", state): counts_as
        for event, counts_as in (
            ("failed", RETRIED),
            ("timed_out", RETRIED),
            ("lost", RETRIED),
            ("stage_done", STAGE_DONE),
            ("released", RELEASED),
        )
        for state in _WAITING
    },
    # A wish to cancel that the end of the attempt fulfils, and cancels by force.
    **{
        (event, "running", "cancelled"): CANCELLED
        for event in ("failed", "timed_out", "lost", "stage_done", "released", "cancelled")
    },
    # Jobs that wait end without an attempt.
    **{
        (event, state, after): counts_as
        for event, after, counts_as in (
            ("gave_up", "failed", FAILED),
            ("edited", "failed", FAILED),
            ("expired", "failed", EXPIRED),
            ("cancelled", "cancelled", CANCELLED),
            ("marked_done", "succeeded", SUCCEEDED),
        )
        for state in _WAITING
    },
    ("marked_done", "failed", "succeeded"): SUCCEEDED,
}
ENDS = {
    **{(DISPATCH, *entry): counts_as for entry, counts_as in DISPATCH_ENDS.items()},
    **{(JOB, *entry): counts_as for entry, counts_as in JOB_ENDS.items()},
}
# An entry of each hand-out, whatever was before.
HANDED_OUT = "handed_out"
# These end nothing and count beside: hand-outs of what the same executor had without success, told
# by how the round before ended.
RETRIES = {(DISPATCH, HANDED_OUT, before, "open") for before in (FAILED, EXPIRED)}


def success_rate(*, succeeded: int, failed: int, timed_out: int, expired: int) -> float | None:
    """The share of what ended well among what ended by itself; None when nothing did."""
    ended = succeeded + failed + timed_out + expired
    return succeeded / ended if ended else None
