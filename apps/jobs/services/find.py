"""The one place to find a job by its number, whichever table it is in."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from django.db import connection

from apps.common import clock, ids
from apps.common.db import fetch, fetch_each, force_index, table
from apps.common.errors import NotFound
from apps.common.messages import Message as _
from apps.jobs.conf import conf
from apps.jobs.models import AnyJob, ArchivedJob, Bounds, Job, JobType

EVERYTHING = Bounds()
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
