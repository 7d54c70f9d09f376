"""Steps for programs: jobs, which are a range of numbers, so that no index and no count is kept."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from itertools import accumulate
from typing import Any, NamedTuple

from apps.common import clock
from apps.common.db import fetch, fetch_each, force_index, placeholders, table
from apps.common.errors import Invalid, TooLarge
from apps.common.masking import kept
from apps.common.messages import Message as _
from apps.flows.models import FlowRun, FlowStep
from apps.flows.rules import shapes
from apps.flows.rules.definition import Step
from apps.flows.rules.ends import End, of_jobs
from apps.jobs.models import ArchivedJob, Job
from apps.jobs.rules import transitions as t
from apps.jobs.services import action_effects, control
from apps.jobs.services.submit import Submission, submit_part

# Jobs that one transaction cancels or retries.
BLOCK = 500
# The letters of the results that are read at once.
BLOCK_LETTERS = 2**22
# What a job takes beside its context, and what all jobs of a step may take, in bytes: a value that
# all of them are given is stored with each.
ROW_BYTES = 1_000
MAX_BYTES = 2**25
# After these no further step begins in the same transaction.
ENOUGH_BYTES = shapes.MAX_ITEMS * ROW_BYTES
_RANGE = "id BETWEEN %s AND %s AND part_of = %s"


def begin(
    run: FlowRun, row: FlowStep, step: Step, values: Mapping[str, Any]
) -> tuple[dict[str, Any], int]:
    """Make the jobs; returns the columns of the step, and about how many bytes the jobs take. A
    PlatformError when they cannot be made."""
    contexts = _contexts(step, values)
    if (size := _size_of(step, values)) > MAX_BYTES:
        message = _(
            "Its {count} jobs take {size} MB, and those of a step at most {limit}; give each only "
            "what it needs.",
            count=len(contexts),
            size=size >> 20,
            limit=MAX_BYTES >> 20,
        )
        raise TooLarge(message)
    if not contexts:
        return {"made": 0}, 0
    # The memo of the step would say whether a secret fits the schema that the type has now.
    jobs = [Submission(step.said["type"], kept(each), trace_id=run.trace_id) for each in contexts]
    made = submit_part(jobs, part_of=row.pk, by=run.subject)
    return {"first": made[0].id, "last": made[-1].id, "made": len(made)}, size


def _contexts(step: Step, values: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The context of each job: an item that is an object is laid over what all have, another one
    is its `item`."""
    shared = values.get("context") or {}
    if step.kind == shapes.JOB:
        return [shared]
    items = values["each"]
    if not isinstance(items, list):
        raise Invalid.field("each", _("each is no list, but {kind}.", kind=type(items).__name__))
    if len(items) > step.most:
        message = _(
            "each has {count} items, and the step takes {limit}.",
            count=len(items),
            limit=step.most,
        )
        raise Invalid.field("each", message)
    return [{**shared, **(each if isinstance(each, dict) else {"item": each})} for each in items]


def _size_of(step: Step, values: Mapping[str, Any]) -> int:
    """About how many bytes the jobs take, measured without the texts of their contexts."""
    each = values["each"] if step.kind == shapes.JOBS else [{}]
    shared = len(json.dumps(values.get("context") or {}))
    return len(each) * (ROW_BYTES + shared) + len(json.dumps(each))


def is_open(first: int | None, last: int | None, step: int) -> bool:
    """Whether a job of the step is open."""
    return first is not None and bool(open_among([(first, last or first, step)]))


def open_among(ranges: Sequence[tuple[int, int, int]]) -> set[int]:
    """The steps of which a job is open, among some with the first and the last of their jobs."""
    one = open_job("j", "%s", "%s", "%s")
    return {step for (step,) in fetch_each((one, each) for each in ranges)}


def open_job(alias: str, first: str, last: str, step: str) -> str:
    """The SELECT of the step, if one of its jobs is open: `alias` is the job, the others are values
    in SQL. From behind: jobs are taken in the order of numbers."""
    return (
        f"SELECT {alias}.part_of FROM {table(Job)} {alias}{force_index('PRIMARY')} "
        f"WHERE {alias}.id BETWEEN {first} AND {last} AND {alias}.part_of = {step} "
        f"AND {alias}.finished_at IS NULL ORDER BY {alias}.id DESC LIMIT 1"
    )


def counts_of(row: FlowStep) -> Counter[str]:
    """How many jobs of the step there are by status, in the archive too."""
    return counts_of_each([row]).get(row.pk, Counter())


def counts_of_each(rows: Sequence[FlowStep]) -> dict[int, Counter[str]]:
    """How many jobs there are by status, by the number of the step, of those that have any."""
    found: dict[int, Counter[str]] = {}
    parts = (
        (
            f"SELECT part_of, status, COUNT(*) FROM {table(model)}{force_index('PRIMARY')} "
            f"WHERE {_RANGE} GROUP BY part_of, status",
            [row.first, row.last, row.pk],
        )
        for row in rows
        if row.first is not None
        for model in (Job, ArchivedJob)
    )
    for step, status, count in fetch_each(parts):
        found.setdefault(step, Counter())[status] += count
    return found


def look(row: FlowStep, step: Step) -> End | None:
    """How the step has ended; None while a job of it is open."""
    # The only job of a step says by itself whether it is open.
    if row.made != 1 and is_open(row.first, row.last, row.pk):
        return None
    if not step.keeps_results:
        return of_jobs(step, counts_of(row), row.made, [])
    page = _with_results(row, 0, shapes.MAX_KEPT)
    counts = Counter(status for _id, status, _result in page)
    if row.made == 1 and not counts.keys() <= {*t.FINAL}:
        return None
    return of_jobs(step, counts, row.made, [result for _id, _status, result in page])


def goes_on(row: FlowStep, step: Step) -> bool:
    """Whether a step that has failed has an open job, or enough good ones, by what an operator has
    done to its jobs."""
    if is_open(row.first, row.last, row.pk):
        return True
    return counts_of(row)[t.SUCCEEDED] >= step.enough(row.made)


class Ended(NamedTuple):
    """A job of a step."""

    id: int
    status: str
    result: Any


def page_of(
    row: FlowStep, *, after: int = 0, limit: int = BLOCK, letters: int = BLOCK_LETTERS
) -> tuple[list[Ended], bool]:
    """The jobs of the step with numbers beyond, in their order, each with its result, and whether
    others follow: at most `limit`, and behind the first no more than have so many letters."""
    sizes = _in_range(row, "COALESCE(LENGTH(result), 0)", after, limit + 1)
    sums = accumulate(size for _number, size in sizes)
    fit = sum(total <= letters for total in sums)
    number = min(limit, max(1, fit))
    return _with_results(row, after, number) if sizes else [], number < len(sizes)


def _with_results(row: FlowStep, after: int, limit: int) -> list[Ended]:
    rows = _in_range(row, "status, result", after, limit)
    return [Ended(pk, status, _json(result)) for pk, status, result in rows]


def _in_range(row: FlowStep, columns: str, after: int, limit: int) -> list[tuple[Any, ...]]:
    """The first jobs of the step with numbers beyond: the number and these columns."""
    if row.first is None:
        return []
    values = [max(row.first, after + 1), row.last, row.pk, limit]
    found = fetch_each(
        (
            f"SELECT id, {columns} FROM {table(model)} WHERE {_RANGE} ORDER BY id LIMIT %s",
            values,
        )
        for model in (Job, ArchivedJob)
    )
    # A job on its way to the archive is in one of both.
    by_id = {each[0]: each for each in found}
    return [by_id[pk] for pk in sorted(by_id)][:limit]


def _json(text: Any) -> Any:
    return json.loads(text) if isinstance(text, str) else text


def cancel_open(row: FlowStep, *, actor: str, reason: str, force: bool) -> bool:
    """Cancel a block of the open jobs of the step; whether there may be more to cancel at once.

    Running ones are only asked to stop, unless `force`.
    """
    asked = "" if force else " AND NOT (status = 'running' AND cancel_requested)"
    numbers = _numbers(row, f"finished_at IS NULL{asked}", [])
    jobs = list(Job.objects.select_for_update().filter(pk__in=numbers).order_by("pk"))
    now = clock.now()
    still = [job for job in jobs if job.status not in t.FINAL]
    control.take_each(
        still, lambda job: action_effects.cancel(job, now, force=force), actor=actor, reason=reason
    )
    return len(numbers) == BLOCK


def retry_ended(
    row: FlowStep, statuses: Collection[str], *, after: int, actor: str, reason: str
) -> int | None:
    """Retry the next block of the jobs in these final states beyond a number; the last of the
    numbers, None when there is none. What has a twin now stays as it is."""
    condition = f"id > %s AND status IN ({placeholders(len(statuses))})"
    numbers = _numbers(row, condition, [after, *statuses])
    if numbers:
        jobs = list(Job.objects.select_for_update().filter(pk__in=numbers).order_by("pk"))
        now = clock.now()
        control.take_each(
            [job for job in jobs if job.status in statuses],
            lambda job: action_effects.retry(job, now, twins={}),
            actor=actor,
            reason=reason,
        )
        return max(numbers)
    return None


def archived(row: FlowStep, statuses: Collection[str], *, after: int) -> Sequence[int]:
    """The next block of the jobs of the step in these states beyond a number that are in the
    archive."""
    condition = f"id > %s AND status IN ({placeholders(len(statuses))})"
    return _numbers(row, condition, [after, *statuses], ArchivedJob)


def _numbers(row: FlowStep, condition: str, values: Sequence[Any], model: Any = Job) -> list[int]:
    if row.first is None:
        return []
    rows = fetch(
        f"SELECT id FROM {table(model)} WHERE {_RANGE} AND {condition} ORDER BY id LIMIT %s",
        [row.first, row.last, row.pk, *values, BLOCK],
    )
    return [number for (number,) in rows]
