"""Follow-ups: jobs that an attempt submits with its end, in the transaction that settles it.

Their rows name the job as `parent`; the journal entry of its end has their numbers, so no index is
needed for the way there, in the archive neither.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import islice

from apps.common.db import fetch, placeholders, table
from apps.common.errors import Invalid, PlatformError, refusal
from apps.common.json_rules import check_size
from apps.common.messages import Message as _
from apps.jobs.models import AnyJob, Bounds, Job
from apps.jobs.rules.caller import IN_HOUSE, Caller
from apps.jobs.rules.outcome import Outcome
from apps.jobs.rules.submission import MAX_DEPTH, MAX_FOLLOW_UPS, Submission
from apps.jobs.rules.transitions import END_SUCCEEDED, SUCCEEDED, LockedJob
from apps.jobs.services.find import find_each
from apps.jobs.services.submit import Parent, submit_under
from apps.jobs.services.submit_check import PLATFORM, faults_of
from apps.journal import services as journal
from apps.journal.models import JournalEntry, Source

# In the data of the entry of an end.
SUBMITTED = "submitted"
# So many of the latest ends are looked at for follow-ups.
MAX_ENDS = 20


def refusals(reports: Sequence[Outcome], caller: Caller) -> dict[int, PlatformError]:
    """The reasons why follow-ups of these reports cannot be made, by job; none for good reports."""
    found: dict[int, PlatformError] = {}
    depths = _depths([each.id for each in reports])
    fit = []
    for each in reports:
        if error := _general_fault(each, depths.get(each.id, 0)):
            found[each.id] = error
        else:
            fit.append(each)
    faults = iter(faults_of([job for each in fit for job in each.submit], _bounds_of(caller)))
    for each in fit:
        wrong = [
            replace(fault, field=f"submit[{position}].{fault.field}")
            for position, faults in enumerate(islice(faults, len(each.submit)))
            for fault in faults
        ]
        if wrong:
            found[each.id] = refusal(wrong)
    return found


def _general_fault(report: Outcome, depth: int) -> PlatformError | None:
    """The fault of the follow-ups of a report as a whole, or of one that is too large."""
    if report.end != END_SUCCEEDED:
        return Invalid(_("Only a job that has succeeded submits others with its end."))
    if len(report.submit) > MAX_FOLLOW_UPS:
        return Invalid(
            _(
                "It submits {count} jobs with its end, and {max} is the most; submit one that "
                "submits the others.",
                count=len(report.submit),
                max=MAX_FOLLOW_UPS,
            )
        )
    if depth >= MAX_DEPTH:
        return Invalid(
            _(
                "{depth} jobs have led to it, each submitting the next, and no more may follow; "
                "let a schedule begin anew what goes on for ever.",
                depth=depth,
            )
        )
    try:
        for position, job in enumerate(report.submit):
            check_size(job.context, field=f"submit[{position}].context")
    except PlatformError as error:
        return error
    return None


def submit(ends: Sequence[tuple[tuple[LockedJob, Outcome], journal.Entry]]) -> None:
    """Make the follow-ups of these ends, all of one caller's, and note them in the entries."""
    leading = [(job, outcome.submit, entry) for (job, outcome), entry in ends if outcome.submit]
    depths = _depths([job.id for job, _jobs, _entry in leading])
    under: list[tuple[Parent, Submission]] = []
    for job, jobs, _entry in leading:
        parent = Parent(job.id, depths[job.id] + 1)
        under += [(parent, replace(j, trace_id=j.trace_id or job.trace_id)) for j in jobs]
    clients = {job.client for job, *_ in leading}
    [client] = clients
    made = iter(submit_under(under, by=f"key:{client}" if client else ""))
    for _job, jobs, entry in leading:
        numbers = [str(each.id) for each in islice(made, len(jobs))]
        entry.data = {**(entry.data or {}), SUBMITTED: numbers}


def follow_ups(job: AnyJob, *, bounds: Bounds) -> list[AnyJob]:
    """The jobs that it submitted with its ends, in this order, as far as they are within the
    bounds and are kept."""
    if job.status != SUCCEEDED and job.holds == job.attempts:
        return []
    ends = JournalEntry.objects.timeline(Source.JOB, job.pk).filter(event=END_SUCCEEDED)
    latest = ends.order_by("-id").values_list("data", flat=True)[:MAX_ENDS]
    numbers = [int(each) for data in latest for each in (data or {}).get(SUBMITTED, ())]
    found = find_each(numbers, bounds=bounds, only=("type", "key", "status")) if numbers else {}
    return [found[number] for number in sorted(found)]


def _depths(ids: Sequence[int]) -> dict[int, int]:
    rows = fetch(f"SELECT id, depth FROM {table(Job)} WHERE id IN ({placeholders(len(ids))})", ids)
    return {number: depth or 0 for number, depth in rows}


def _bounds_of(caller: Caller) -> Bounds:
    return PLATFORM if caller == IN_HOUSE else Bounds(types=caller.types)
