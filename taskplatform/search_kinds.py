"""The kinds of rows that the search box finds, and how each is found: by number, key or text."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from django.db.models import Model, Q, QuerySet
from django.utils.translation import gettext

from apps.access.models import ApiClient
from apps.common.admin.display import plain_time
from apps.common.db import fetch_each, table
from apps.common.readers import read_key, read_number
from apps.dispatch.models import (
    ArchivedDispatch,
    ArchivedTask,
    Dispatch,
    Executor,
    OnceTask,
    RotateTask,
    Template,
)
from apps.flows.models import Flow, FlowRun
from apps.jobs.models import ArchivedJob, Job, JobType, Worker
from apps.jobs.services.find import with_key
from apps.journal.models import JournalEntry, Source
from apps.schedules.models import Schedule

# The rows among these that have the value.
Query = Callable[[QuerySet[Any], Any], QuerySet[Any]]

MAX_SHOWN = 10
# The number of newest rows that are searched without an index.
MAX_JOBS = 10_000
MAX_TASKS = 10_000
MAX_ENTRIES = 20_000
_UIDS = ("", "uid_", "gid_")


@dataclass(frozen=True)
class Kind:
    """How rows of one model are found: by number, key or text; None: not at all.

    Each function filters the visible rows. `by_title`: the words of a text are looked for in the
    titles of the newest rows. `describe` returns the title and the details of a hit.
    """

    model: type[Model]
    describe: Callable[[Any], tuple[object, Sequence[object]]]
    by_number: Query | None = None
    by_key: Query | None = None
    by_text: Query | None = None
    by_title: bool = False
    has_list: bool = True
    related: tuple[str, ...] = ()


def with_pk(rows: QuerySet[Any], number: int) -> QuerySet[Any]:
    return rows.filter(pk=number)


def _beginning(column: str, *prefixes: str) -> Query:
    """Names that begin with the key, the exact one first: a range of their index.

    `{` is the character after `z`, the last one that keys contain.
    """

    def query(rows: QuerySet[Any], key: str) -> QuerySet[Any]:
        wanted = Q()
        for prefix in prefixes or ("",):
            start = key if prefix and key.startswith(prefix) else f"{prefix}{key}"
            wanted |= Q(**{f"{column}__gte": start, f"{column}__lt": start + "{"})
        return rows.filter(wanted).order_by(column)

    return query


def _jobs_by_number(rows: QuerySet[Any], number: int) -> QuerySet[Any]:
    keyed = with_key(str(number), limit=MAX_SHOWN + 1, model=rows.model)
    return _light(rows.filter(pk__in=[number, *keyed]).order_by("-pk"))


def _jobs_by_key(rows: QuerySet[Any], key: str) -> QuerySet[Any]:
    """The jobs with the key, else the newest ones of that user or trace."""
    if keyed := with_key(key, limit=MAX_SHOWN + 1, model=rows.model):
        return _light(rows.filter(pk__in=keyed).order_by("-pk"))
    mine = Q(user_id=key) | Q(trace_id=key)
    return _light(newest(rows, MAX_JOBS).filter(mine).order_by("-pk"))


def _flows_by_key(rows: Any, key: str) -> QuerySet[Any]:
    return _beginning("name")(rows.newest(), key).defer("definition")


def _runs(rows: QuerySet[Any], term: int | str) -> QuerySet[Any]:
    """The run with the number, and those of the key."""
    wanted = Q(key=str(term)) | Q(pk=term if isinstance(term, int) else 0)
    return rows.filter(wanted).only("flow", "key", "status").order_by("-pk")


def _light(jobs: QuerySet[Any]) -> QuerySet[Any]:
    return jobs.only("type", "key", "status", "user_id")


def titled(rows: QuerySet[Any], text: str, *, edge: int) -> QuerySet[Any]:
    """The rows from a number on with all the words in their titles, as in their list."""
    wanted = Q(pk__gte=edge)
    for word in text.split():
        wanted &= Q(title__icontains=word)
    return rows.filter(wanted).order_by("-pk")


def edges(models: Sequence[type[Model]]) -> dict[type[Model], int]:
    """The number of the oldest of the newest rows whose titles are searched, of each model that
    has more; in one statement."""
    selects = (
        f"SELECT {place} AS place, id FROM {table(model)} ORDER BY id DESC LIMIT 1 "
        f"OFFSET {MAX_TASKS - 1:d}"
        for place, model in enumerate(models)
    )
    return {models[place]: edge for place, edge in fetch_each((each, ()) for each in selects)}


def _entries_by_text(rows: QuerySet[Any], text: str) -> QuerySet[Any]:
    """The entries about the subject with that number, even if it is deleted; else those of that
    trace."""
    if (number := read_number(text)) is not None:
        return rows.filter(source__in=Source.values, subject_id=number).order_by("-pk")
    if (key := read_key(text)) is None:
        return rows.none()
    return newest(rows, MAX_ENTRIES).filter(trace_id=key).order_by("-pk")


def newest(rows: QuerySet[Any], limit: int) -> QuerySet[Any]:
    """The rows among the newest `limit` of the table."""
    everything = rows.model._default_manager.order_by("-pk").values_list("pk", flat=True)
    edge = list(everything[limit - 1 : limit])
    return rows.filter(pk__gte=edge[0]) if edge else rows


def _of_entry(entry: JournalEntry) -> tuple[object, Sequence[object]]:
    subject = f"{entry.get_source_display()} {entry.subject_id}"
    return subject, [plain_time(entry.at), entry.type_or_task, entry.executor]


def _of_task(task: Any) -> tuple[object, Sequence[object]]:
    return task.title, [
        gettext("number %s") % task.pk,
        task.executor.shown,
        task.get_status_display(),
    ]


KINDS: tuple[Kind, ...] = (
    *(
        Kind(
            model,
            lambda row: (row.pk, [row.title, row.executor.shown, row.get_state_display()]),
            by_number=with_pk,
            related=("executor",),
        )
        for model in (Dispatch, ArchivedDispatch)
    ),
    *(
        Kind(
            model,
            lambda row: (row.pk, [row.type, row.key, row.user_id, row.get_status_display()]),
            by_number=_jobs_by_number,
            by_key=_jobs_by_key,
        )
        for model in (Job, ArchivedJob)
    ),
    *(
        Kind(model, _of_task, by_number=with_pk, by_title=True, related=("executor",))
        for model in (OnceTask, RotateTask)
    ),
    Kind(
        Schedule,
        lambda row: (row.title, [row.subject, row.job_type, row.get_status_display()]),
        by_number=with_pk,
        by_title=True,
    ),
    Kind(
        FlowRun,
        lambda row: (row.pk, [row.flow, row.key, row.get_status_display()]),
        by_number=_runs,
        by_key=_runs,
    ),
    Kind(
        Flow,
        lambda row: (row.title or row.name, [row.title and row.name, f"v{row.version}"]),
        by_key=_flows_by_key,
    ),
    Kind(
        ArchivedTask,
        lambda row: (row.title, [row.task, row.executor.shown, row.get_source_display()]),
        by_number=lambda rows, number: rows.filter(task=number),
        related=("executor",),
    ),
    Kind(
        Executor,
        lambda row: (row.title or row.name, [row.title and row.name, row.get_kind_display()]),
        by_key=_beginning("name", *_UIDS),
        by_title=True,
    ),
    Kind(JobType, lambda row: (row.name, [row.shown_title]), by_key=_beginning("name")),
    Kind(
        Template,
        lambda row: (row.name, [f"v{row.version}", row.get_status_display()]),
        by_key=_beginning("name"),
    ),
    Kind(
        Worker,
        lambda row: (row.name, [row.get_state_display()]),
        by_key=_beginning("name"),
        has_list=False,
    ),
    Kind(
        ApiClient,
        lambda row: (row.client_id, [row.name]),
        by_key=lambda rows, key: rows.filter(client_id=key),
    ),
    Kind(
        JournalEntry,
        _of_entry,
        by_number=with_pk,
        by_text=_entries_by_text,
        has_list=False,
    ),
)
