"""Texts that earlier versions stored, each with the message that pages show in its place."""

from __future__ import annotations

from apps.jobs.rules import failures, reasons

FORMER = {
    "its worker was lost": reasons.WORKER_LOST,
    "its worker was lost before it started": reasons.NOT_STARTED,
    "attempt {number} of {max} was the last": reasons.LAST_ATTEMPT,
    "{used} of {max} attempts are used": reasons.ATTEMPTS_USED,
    "reported {end} after its lease was lost": reasons.REPORTED_LATE,
    "The worker was lost before the result was stored.": failures.RESULT_LOST,
}
