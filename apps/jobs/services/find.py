"""Finding jobs: by number, whichever table they are in, and by a filter."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import timedelta
from typing import Any

from django.db import connection
from django.db.models import Q, QuerySet

from apps.common import clock, ids
from apps.common.db import fetch, fetch_each, force_index, table
from apps.common.errors import NotFound
from apps.common.json_search import holding
from apps.common.masking.search import says
from apps.common.messages import Message as _
from apps.common.readers import is_key, read_number
from apps.jobs.conf import conf
from apps.jobs.models import AnyJob, ArchivedJob, Bounds, Job, JobType
from apps.jobs.models.job_columns import JobQuerySet
from apps.jobs.rules import transitions
from apps.jobs.rules.job_filter import JobFilter
from apps.jobs.rules.submission import MAX_KEY, MAX_USER

EVERYTHING = Bounds()
# An id is made after the instant its row names, and waiting for locks may lie between the two.
_ID_SLACK = ids.lowest_id_at(ids.EPOCH + timedelta(minutes=10))
# The columns that a filter compares as they are.
_EQUAL = ("key", "user_id", "host", "worker", "client", "stage", "error_key")
_BOUNDS = {
    "priority_from": "priority__gte",
    "priority_to": "priority__lte",
    "run_after": "run_at__gte",
    "run_before": "run_at__lt",
    "finished_after": "finished_at__gte",
    "finished_before": "finished_at__lt",
}
_BY_KEY: dict[type[AnyJob], str] = {Job: "job_type_key", ArchivedJob: "archived_type_key"}


def find(number: int, *, bounds: Bounds = EVERYTHING) -> AnyJob | None:
    """The job of that number; None when unknown or outside the bounds."""
    return find_each([number], bounds=bounds).get(number)


def find_job(number: int, *, bounds: Bounds = EVERYTHING) -> AnyJob:
    """As `find`; NotFound for none."""
    job = find(number, bounds=bounds)
    if job is None:
        raise NotFound(_("There is no job {number}.", number=number))
    return job


def find_each(
    numbers: Collection[int], *, bounds: Bounds = EVERYTHING, only: Sequence[str] = ()
) -> dict[int, AnyJob]:
    """Those of the jobs that there are, by number; `only` names the columns to read.

    The first table is asked again at the end: a job goes to the archive, or comes back by a retry,
    maybe between the first two looks. The way there and back takes longer than an hour.
    """
    found: dict[int, AnyJob] = {}
    missing = {number for number in numbers if 0 < number < 2**63}
    for model in _order(missing):
        if not missing:
            break
        rows = model._default_manager.filter(bounds.condition(), pk__in=missing)
        found |= {row.pk: row for row in (rows.only(*only) if only else rows)}
        missing -= found.keys()
    return found


def _order(numbers: Collection[int]) -> Sequence[type[AnyJob]]:
    """The tables in the order to ask them: first where most jobs of this age are."""
    old = ids.lowest_id_at(clock.now() - conf.JOB_ARCHIVE_AFTER)
    are_old = max(numbers, default=old) < old
    return (ArchivedJob, Job, ArchivedJob) if are_old else (Job, ArchivedJob, Job)


def holders_of(numbers: Collection[int]) -> dict[int, tuple[str, str]]:
    """API key and type of those of the jobs that there are, in the archive too."""
    found = find_each(numbers, only=("client", "type")) if numbers else {}
    return {number: (job.client, job.type) for number, job in found.items()}


def with_key(key: str, *, limit: int, model: type[AnyJob] = Job) -> list[int]:
    """The numbers of the newest jobs of the table with this key: one short index range per type."""
    column, index = connection.ops.quote_name("key"), _BY_KEY[model]
    one = (
        f"SELECT id FROM {table(model)}{force_index(index)} WHERE type = %s AND {column} = %s "
        f"ORDER BY id DESC LIMIT {int(limit)}"
    )
    # A type with jobs outside of the archive is never deleted.
    known = JobType.objects.values_list("name", flat=True)
    names = archived_types() if model is ArchivedJob else known
    found = [number for (number,) in fetch_each((one, (name, key)) for name in names)]
    return sorted(found, reverse=True)[:limit]


def archived_types() -> list[str]:
    """The types of archived jobs, also deleted ones: MariaDB and MySQL read one entry of the index
    for each."""
    return sorted(name for (name,) in fetch(f"SELECT DISTINCT type FROM {table(ArchivedJob)}"))


# --- by a filter ----------------------------------------------------------------------------------
def query(wanted: JobFilter, *, bounds: Bounds = EVERYTHING) -> JobQuerySet:
    """The live jobs that the filter means, within the bounds."""
    return narrowed(Job.objects.within(bounds), wanted)


def narrowed(rows: JobQuerySet, wanted: JobFilter) -> JobQuerySet:
    """Those of the rows, live or in the archive, that the filter means; Invalid when it is about
    what is masked."""
    given = wanted.given
    rows = rows.filter(**{name: given[name] for name in _EQUAL if name in given})
    rows = rows.filter(**{_BOUNDS[name]: given[name] for name in _BOUNDS if name in given})
    if wanted.ids:
        rows = rows.filter(pk__in=wanted.ids)
    if wanted.types:
        rows = rows.filter(**_one_or_each("type", wanted.types))
    if wanted.statuses:
        rows = rows.filter(**_one_or_each("status", wanted.statuses))
    if wanted.lane:
        types = JobType.objects.filter(lane=wanted.lane).values_list("name", flat=True)
        rows = rows.filter(type__in=list(types))
    if wanted.memo:
        rows = rows.filter(says("memo", wanted.memo))
    if wanted.text:
        rows = rows.filter(_is_or_says(wanted.text))
    return holding(created_within(rows, wanted), wanted.where)


def created_within(rows: JobQuerySet, wanted: JobFilter) -> JobQuerySet:
    """Those of the rows that were created in the period of the filter."""
    # The bound on the id is what keeps the scan short; no index has the instant.
    after, before = wanted.created_after, wanted.created_before
    if after is not None:
        rows = rows.filter(pk__gte=ids.lowest_id_at(after) - _ID_SLACK, created_at__gte=after)
    if before is not None:
        rows = rows.filter(pk__lt=ids.lowest_id_at(before) + _ID_SLACK, created_at__lt=before)
    return rows


def few(
    rows: QuerySet[Any], wanted: JobFilter, *, most: int, model: type[AnyJob] = Job
) -> Sequence[int] | None:
    """The numbers of all rows that can be meant, if an index finds them and they are at most so
    many; else None. What has no index is not compared."""
    if wanted.ids:
        return wanted.ids
    if wanted.text:
        return _exactly(rows, wanted.text, most, model)
    found = _indexed(rows, wanted, model)
    return None if found is None else _at_most(found, most)


def are_few(rows: QuerySet[Any], wanted: JobFilter, *, most: int) -> bool:
    """Whether `few` finds the live jobs by columns of an index, without reading their numbers."""
    found = None if wanted.ids or wanted.text else _indexed(rows, wanted, Job)
    return found is not None and found.order_by().values("pk")[: most + 1].count() <= most


def _indexed(rows: QuerySet[Any], wanted: JobFilter, model: type[AnyJob]) -> QuerySet[Any] | None:
    """The rows with those of the values that one index has."""
    of_types = rows.filter(**_one_or_each("type", wanted.types)) if wanted.types else rows
    if wanted.error_key:
        return of_types.filter(error_key=wanted.error_key)
    if wanted.key:
        return rows.filter(type__in=wanted.types or _types_of(model), key=wanted.key)
    if model is Job and wanted.statuses and _has_index_of(wanted.statuses):
        return of_types.filter(**_one_or_each("status", wanted.statuses))
    return of_types if wanted.types else None


def _has_index_of(statuses: Collection[str]) -> bool:
    """Whether an index finds the live jobs in these states. On SQLite indexes of the others would
    only cost."""
    return connection.vendor == "mysql" or {*transitions.OPEN, transitions.FAILED} >= {*statuses}


def _one_or_each(column: str, values: Sequence[str]) -> dict[str, Any]:
    return {column: values[0]} if len(values) == 1 else {f"{column}__in": values}


def _is_or_says(text: str) -> Q:
    wanted = says("memo", text)
    if is_key(text, MAX_KEY) or is_key(text, MAX_USER):
        wanted |= Q(key=text) | Q(user_id=text)
    if (number := read_number(text)) is not None:
        wanted |= Q(pk=number)
    return wanted


def _exactly(
    rows: QuerySet[Any], text: str, most: int, model: type[AnyJob]
) -> Sequence[int] | None:
    """The job with this number, or the jobs with this key; None when there is neither."""
    number = read_number(text)
    if number is not None and rows.filter(pk=number).exists():
        return [number]
    if not is_key(text, MAX_KEY):
        return None
    return _at_most(rows.filter(type__in=_types_of(model), key=text), most) or None


def _at_most(rows: QuerySet[Any], most: int) -> Sequence[int] | None:
    numbers = list(rows.order_by().values_list("pk", flat=True)[: most + 1])
    return numbers if len(numbers) <= most else None


def _types_of(model: type[AnyJob]) -> list[str]:
    """The types that the jobs of the table can have."""
    if model is ArchivedJob:
        return archived_types()
    return list(JobType.objects.order_by("name").values_list("name", flat=True))
