"""The outcome that a journal entry counts as.

The reports count ends: of dispatches, of attempts at jobs, of jobs that end without an attempt, of
runs of flows and of their steps. Each end counts once, as one outcome. An attempt that is retried
does not lower the success rate. A failed dispatch that its executor gets again counts as failed,
and in addition as retried.
"""

from __future__ import annotations

SUCCEEDED = "succeeded"
FAILED = "failed"  # final
RETRIED = "retried"  # job: another attempt follows; dispatch: handed out again
TIMED_OUT = "timed_out"  # final, past the deadline of the last attempt
EXPIRED = "expired"  # dispatch: no callback by the deadline; job: too old to start
RELEASED = "released"  # given back
CANCELLED = "cancelled"
STAGE_DONE = "stage_done"  # an attempt that completed a stage
TOTAL = "total"

# The columns of every rollup.
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
# The outcomes that end a job or a dispatch; after the others a job goes on.
FINAL = (SUCCEEDED, FAILED, TIMED_OUT, EXPIRED, CANCELLED)
FAILURES = (FAILED, TIMED_OUT, EXPIRED)
DISPATCH, JOB, FLOW, STEP = "dispatch", "job", "flow", "step"
SOURCES = (DISPATCH, JOB, FLOW, STEP)
# The outcomes after which it is over: who gives a dispatch back is done with it.
OVER = {JOB: FINAL, DISPATCH: (*FINAL, RELEASED), FLOW: FINAL, STEP: FINAL}

# Where a job is put back, and where it is that nobody has held.
_AGAIN = ("ready", "scheduled")
_WAITING = (*_AGAIN, "blocked")

# (event, state before, state after): outcome. No other entry is an end.
DISPATCH_ENDS = {
    **{(end, "open", end): end for end in (SUCCEEDED, FAILED, EXPIRED, RELEASED, CANCELLED)},
    ("handed_over", "open", RELEASED): RELEASED,
}
JOB_ENDS = {
    ("succeeded", "running", "succeeded"): SUCCEEDED,
    ("failed", "running", "failed"): FAILED,
    ("timed_out", "running", "failed"): TIMED_OUT,
    ("lost", "running", "failed"): FAILED,
    **{
        (event, "running", state): counts_as
        for event, counts_as, states in (
            ("failed", RETRIED, _AGAIN),
            ("timed_out", RETRIED, _AGAIN),
            ("lost", RETRIED, _AGAIN),
            ("released", RELEASED, _AGAIN),
            # It may name another key, in which no place is free.
            ("stage_done", STAGE_DONE, _WAITING),
            ("yielded", RELEASED, _WAITING),
            ("interrupted", RELEASED, _WAITING),
        )
        for state in states
    },
    # Cancelled by request at the end of the attempt, or by force.
    **{
        (event, "running", "cancelled"): CANCELLED
        for event in (
            "failed",
            "timed_out",
            "lost",
            "stage_done",
            "released",
            "yielded",
            "interrupted",
            "cancelled",
        )
    },
    # Waiting jobs that end without an attempt.
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
# A run that is tried again ends again.
FLOW_ENDS = {
    ("ended", "running", "succeeded"): SUCCEEDED,
    ("ended", "running", "failed"): FAILED,
    ("ended", "cancelling", "cancelled"): CANCELLED,
}
# The journal has steps with their runs.
STEP_ENDED = "step_ended"
STEP_ENDS = {
    **{(STEP_ENDED, "active", end): end for end in (SUCCEEDED, FAILED, CANCELLED)},
    (STEP_ENDED, "blocked", "failed"): FAILED,
}
ENDS = {
    **{(DISPATCH, *entry): counts_as for entry, counts_as in DISPATCH_ENDS.items()},
    **{(JOB, *entry): counts_as for entry, counts_as in JOB_ENDS.items()},
    **{(FLOW, *entry): counts_as for entry, counts_as in (FLOW_ENDS | STEP_ENDS).items()},
}


def source_of(source: str, event: str) -> str:
    """Return what such an entry of the journal counts for: the steps of runs by themselves."""
    return STEP if event == STEP_ENDED else source


# The event of every hand-out.
HANDED_OUT = "handed_out"
# Repeated hand-outs to the same executor after a round without success; they are not ends.
RETRIES = {(DISPATCH, HANDED_OUT, before, "open") for before in (FAILED, EXPIRED)}
# The outcomes that each source can have, in the order of COUNTS.
OUTCOMES = {
    source: tuple(
        name
        for name in COUNTS
        if name
        in {end for (of, event, *_states), end in ENDS.items() if source_of(of, event) == source}
        or (name == RETRIED and source in {of for of, *_entry in RETRIES})
    )
    for source in SOURCES
}


def success_rate(*, succeeded: int, failed: int, timed_out: int, expired: int) -> float | None:
    """The share of successes among the ends that nobody forced; None without any."""
    ended = succeeded + failed + timed_out + expired
    return succeeded / ended if ended else None
