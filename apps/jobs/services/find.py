"""Finding jobs: by number, whichever table they are in, and by a filter."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

from django.db import connection
from django.db.models import QuerySet

from apps.common import clock, ids
from apps.common.db import fetch, fetch_each, force_index, table
from apps.common.errors import NotFound
from apps.common.filtering import RowFilter
from apps.common.messages import Message as _
from apps.common.readers import is_key, read_number
from apps.jobs.conf import conf
from apps.jobs.models import AnyJob, ArchivedJob, Bounds, Job, JobType
from apps.jobs.models.job_columns import JobQuerySet
from apps.jobs.rules import transitions
from apps.jobs.rules.submission import MAX_KEY
from apps.jobs.services.job_filters import JobFilters

EVERYTHING = Bounds()
_BY_KEY: dict[type[AnyJob], str] = {Job: "job_type_key", ArchivedJob: "archived_type_key"}


def find(number: int, *, bounds: Bounds = EVERYTHING) -> AnyJob | None:
    """The job of that number; None when unknown or outside the bounds."""
    return find_each([number], bounds=bounds).get(number)


def find_job(number: int, *, bounds: Bounds = EVERYTHING) -> AnyJob:
    """The job as `find` finds it; NotFound for none."""
    job = find(number, bounds=bounds)
    if job is None:
        raise NotFound(_("There is no job {number}.", number=number))
    return job


def find_each(
    numbers: Collection[int], *, bounds: Bounds = EVERYTHING, only: Sequence[str] = ()
) -> dict[int, AnyJob]:
    """The jobs that exist, by number; `only` names the columns to read.

    The first table is read again at the end: a job may go to the archive, or come back by a retry,
    between the first two reads. The way there and back takes longer than an hour.
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
    """The API key and type of each job that exists, also in the archive."""
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
def query(wanted: RowFilter, *, bounds: Bounds = EVERYTHING) -> JobQuerySet:
    """The live jobs that the filter means, within the bounds."""
    return JobFilters.narrow(Job.objects.within(bounds), wanted)


def keys_if_few(
    rows: QuerySet[Any], wanted: RowFilter, *, most: int, model: type[AnyJob] = Job
) -> Sequence[int] | None:
    """The numbers of all rows that can be meant, if an index finds them and they are at most so
    many; else None. What has no index is not compared."""
    if numbers := wanted.get("ids"):
        return numbers  # type: ignore[no-any-return]
    if text := wanted.get("text"):
        return _exactly(rows, text, most, model)
    found = _narrow_by_index(rows, wanted, model)
    return None if found is None else _numbers_if_few(found, most)


def are_few(rows: QuerySet[Any], wanted: RowFilter, *, most: int) -> bool:
    """Whether `keys_if_few` finds the live jobs by an index; their numbers are not read."""
    found = None if wanted.get("ids") or wanted.get("text") else _narrow_by_index(rows, wanted, Job)
    return found is not None and found.order_by().values("pk")[: most + 1].count() <= most


def _narrow_by_index(
    rows: QuerySet[Any], wanted: RowFilter, model: type[AnyJob]
) -> QuerySet[Any] | None:
    """The rows with those of the values that one index has."""
    for range_ in ("part_of", "together"):
        if wanted.get(range_):
            return JobFilters.narrow(rows, wanted.only([range_]))
    of_types = JobFilters.narrow(rows, wanted.only(["type"]))
    if wanted.get("error_key"):
        return JobFilters.narrow(of_types, wanted.only(["error_key"]))
    if key := wanted.get("key"):
        return rows.filter(type__in=wanted.get("type") or _types_of(model), key=key)
    if model is Job and wanted.get("status") and _has_index_of(wanted.get("status")):
        return JobFilters.narrow(of_types, wanted.only(["status"]))
    return of_types if wanted.get("type") else None


def _has_index_of(statuses: Collection[str]) -> bool:
    """Whether an index finds the live jobs in these states. On SQLite indexes of the others would
    only cost."""
    return connection.vendor == "mysql" or {*transitions.OPEN, transitions.FAILED} >= {*statuses}


def _exactly(
    rows: QuerySet[Any], text: str, most: int, model: type[AnyJob]
) -> Sequence[int] | None:
    """The job with this number, or the jobs with this key; None when there is neither."""
    number = read_number(text)
    if number is not None and rows.filter(pk=number).exists():
        return [number]
    if not is_key(text, MAX_KEY):
        return None
    return _numbers_if_few(rows.filter(type__in=_types_of(model), key=text), most) or None


def _numbers_if_few(rows: QuerySet[Any], most: int) -> Sequence[int] | None:
    numbers = list(rows.order_by().values_list("pk", flat=True)[: most + 1])
    return numbers if len(numbers) <= most else None


def _types_of(model: type[AnyJob]) -> list[str]:
    """The types that the jobs of the table can have."""
    if model is ArchivedJob:
        return archived_types()
    return list(JobType.objects.order_by("name").values_list("name", flat=True))
