"""The search box: by id, number, key, name, title or the text of an error.

It searches the rows that the admin of each model shows to the person. Each statement is an index
look-up or reads a limited number of the newest rows; the number of statements depends on the term
only.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any
from urllib.parse import urlencode

from django.contrib import admin
from django.db.models import Model, Q, QuerySet
from django.http import HttpRequest
from django.utils.timezone import get_current_timezone
from django.utils.translation import gettext

from apps.access.models import ApiClient
from apps.common.admin import PlatformModelAdmin
from apps.common.admin.changelist import tidy_search
from apps.common.admin.display import plain_time, shown_text
from apps.common.errors import Invalid
from apps.common.json.search import require_unmasked
from apps.common.lookups import folding
from apps.common.masking import redact
from apps.common.masking.search import says
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
from apps.dispatch.rules.task import read_label
from apps.flows.models import Flow, FlowRun
from apps.jobs.models import ArchivedJob, Job, JobType, Worker
from apps.jobs.services.find import with_key
from apps.jobs.services.job_filters import JobFilters
from apps.journal.models import JournalEntry, Source
from apps.schedules.models import Schedule
from taskplatform.menu import Tab

# The rows among these that have the value.
Query = Callable[[QuerySet[Any], Any], QuerySet[Any]]

MAX_SHOWN = 10
# The number of newest rows that are searched without an index.
MAX_JOBS = 10_000
MAX_TASKS = 10_000
MAX_ENTRIES = 20_000
MIN_TEXT = 3
# Two Chinese characters are a word.
MIN_WIDE_TEXT = 2
_UIDS = ("", "uid_", "gid_")
_PAYLOADS = ("context.", "result.")


@dataclass(frozen=True, slots=True)
class Term:
    """The typed text, and what it can be: a number, a key, the label of a task."""

    text: str
    number: int | None = None
    key: str | None = None
    task: tuple[str, int] | None = None

    @classmethod
    def read(cls, typed: str) -> Term:
        text = tidy_search(typed).strip()
        return cls(text, read_number(text), read_key(text) or None, read_label(text))

    @property
    def is_text(self) -> bool:
        """Whether the term is long enough to search texts for."""
        return len(self.text) >= (MIN_TEXT if self.text.isascii() else MIN_WIDE_TEXT)


@dataclass(frozen=True, slots=True)
class Hit:
    """A page that was found; `detail` distinguishes it from similar ones, `acts` are the words and
    addresses of what can be done at once."""

    url: str
    title: str
    detail: str = ""
    acts: Sequence[tuple[str, str]] = ()
    row: Any = None


@dataclass(frozen=True, slots=True)
class HitGroup:
    """The first hits of one kind; `more_url` is the list of all of them, if there is one."""

    title: str
    hits: Sequence[Hit]
    has_more: bool = False
    more_url: str = ""
    model: type[Model] | None = None


@dataclass(frozen=True)
class Kind:
    """How rows of one model are found: by number, key or text; None: not at all.

    Each function filters the visible rows. `describe` returns the title and the details of a hit.
    """

    model: type[Model]
    describe: Callable[[Any], tuple[object, Sequence[object]]]
    by_number: Query | None = None
    by_key: Query | None = None
    by_text: Query | None = None
    has_list: bool = True
    related: tuple[str, ...] = ()


def find(request: HttpRequest, term: Term) -> list[HitGroup]:
    """The groups with hits, in the order of KINDS, and errors with the text."""
    found = find_rows(request, term, KINDS)
    if term.is_text and (term.number is None or not found):
        found += filter(None, [_errors(request, term)])
    return found


def find_rows(request: HttpRequest, term: Term, kinds: Iterable[Kind]) -> list[HitGroup]:
    """The groups of these kinds with hits, in their order."""
    if not term.text:
        return []
    kinds = [*kinds]
    found = [*filter(None, (_group(request, k, term, *_exactly(k, term)) for k in kinds))]
    # A number occurs in many texts, so texts are searched only if no row has it.
    if term.is_text and (term.number is None or not found):
        known = {hit.url for group in found for hit in group.hits}
        for group in (_group(request, k, term, k.by_text, term.text) for k in kinds):
            hits = [] if group is None else [each for each in group.hits if each.url not in known]
            if group is not None and hits:
                found.append(replace(group, hits=hits))
    return found


def _errors(request: HttpRequest, term: Term) -> HitGroup | None:
    """The errors with the text, or with that key, among the newest entries."""
    # Imported late, because the admin classes register with the site that searches.
    from taskplatform.search_errors import errors_in

    model_admin = _searched(request, JournalEntry)
    if model_admin is None:
        return None
    wanted = says("error", term.text)
    if term.key is not None:
        wanted |= Q(error_key=term.key)
    entries = _newest(model_admin.get_queryset(request), MAX_ENTRIES).filter(wanted)
    found = errors_in(request, entries, limit=MAX_SHOWN + 1)
    hits = [Hit(each.url, each.title, each.detail, each.acts) for each in found[:MAX_SHOWN]]
    return HitGroup(gettext("Errors"), hits, len(found) > MAX_SHOWN) if hits else None


def _exactly(kind: Kind, term: Term) -> tuple[Query | None, Any]:
    """The query that finds rows of the kind by the term, None for none, and its value."""
    if term.task is not None and getattr(kind.model, "source", "") == term.task[0]:
        return _with_pk, term.task[1]
    if kind.by_number is not None and term.number is not None:
        return kind.by_number, term.number
    return (None if term.key is None else kind.by_key), term.key


def _group(
    request: HttpRequest, kind: Kind, term: Term, query: Query | None, value: Any
) -> HitGroup | None:
    model_admin = None if query is None else _searched(request, kind.model)
    if query is None or model_admin is None:
        return None
    visible = model_admin.get_queryset(request)
    if kind.related:
        # MariaDB would start a join at the shorter table and sort all rows of the longer one.
        visible = visible.prefetch_related(*kind.related)
    found = list(query(visible, value)[: MAX_SHOWN + 1])
    if not found:
        return None
    has_more = len(found) > MAX_SHOWN
    return HitGroup(
        str(kind.model._meta.verbose_name_plural),
        [_hit(model_admin, kind, row) for row in found[:MAX_SHOWN]],
        has_more,
        f"{model_admin.changelist_url()}?{urlencode({'q': term.text})}"
        if has_more and kind.has_list
        else "",
        kind.model,
    )


def _searched(request: HttpRequest, model: type[Model]) -> PlatformModelAdmin | None:
    """The admin of the model, when this person may see its rows."""
    model_admin = admin.site._registry.get(model)
    if not isinstance(model_admin, PlatformModelAdmin):
        return None
    return model_admin if model_admin.has_view_or_change_permission(request) else None


def _hit(model_admin: PlatformModelAdmin, kind: Kind, row: Any) -> Hit:
    title, details = kind.describe(row)
    return Hit(
        model_admin.row_url(row.pk),
        shown_text(str(title), limit=120),
        " · ".join(shown_text(redact(str(each)), limit=200) for each in details if each),
        row=row,
    )


# --- how each kind is found ---------------------------------------------------------------------
def _with_pk(rows: QuerySet[Any], number: int) -> QuerySet[Any]:
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
    return _light(_newest(rows, MAX_JOBS).filter(mine).order_by("-pk"))


def _flows_by_key(rows: Any, key: str) -> QuerySet[Any]:
    return _beginning("name")(rows.newest(), key).defer("definition")


def _runs(rows: QuerySet[Any], term: int | str) -> QuerySet[Any]:
    """The run with the number, and those of the key."""
    wanted = Q(key=str(term)) | Q(pk=term if isinstance(term, int) else 0)
    return rows.filter(wanted).only("flow", "key", "status").order_by("-pk")


def _light(jobs: QuerySet[Any]) -> QuerySet[Any]:
    return jobs.only("type", "key", "status", "user_id")


def _tasks_by_text(rows: QuerySet[Any], text: str) -> QuerySet[Any]:
    """The tasks, people and groups with all the words in their titles, as in their list."""
    wanted = Q()
    for word in text.split():
        wanted &= Q(title__icontains=word)
    return _newest(rows, MAX_TASKS).filter(wanted).order_by("-pk")


def _entries_by_text(rows: QuerySet[Any], text: str) -> QuerySet[Any]:
    """The entries about the subject with that number, even if it is deleted; else those of that
    trace."""
    if (number := read_number(text)) is not None:
        return rows.filter(source__in=Source.values, subject_id=number).order_by("-pk")
    if (key := read_key(text)) is None:
        return rows.none()
    return _newest(rows, MAX_ENTRIES).filter(trace_id=key).order_by("-pk")


def _newest(rows: QuerySet[Any], limit: int) -> QuerySet[Any]:
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
            by_number=_with_pk,
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
        Kind(model, _of_task, by_number=_with_pk, by_text=_tasks_by_text, related=("executor",))
        for model in (OnceTask, RotateTask)
    ),
    Kind(
        Schedule,
        lambda row: (row.title, [row.subject, row.job_type, row.get_status_display()]),
        by_number=_with_pk,
        by_text=_tasks_by_text,
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
        by_text=_tasks_by_text,
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
        by_number=_with_pk,
        by_text=_entries_by_text,
        has_list=False,
    ),
)


def payloads_with(request: HttpRequest, term: Term) -> tuple[int, str] | None:
    """The number of the newest jobs with the value at the path, `context.city:Rome`, and their
    list; None for another text, for no such job, and for people who may not see payloads."""
    model_admin = _searched(request, Job)
    if model_admin is None or not model_admin.has_payload_permission(request):
        return None
    if ":" not in term.text or not term.text.startswith(_PAYLOADS):
        return None
    try:
        wanted = JobFilters.read_address({"where": term.text}, get_current_timezone())
        require_unmasked(wanted.where)
    except Invalid:
        return None
    rows = JobFilters.narrow(_newest(model_admin.get_queryset(request), MAX_JOBS), wanted)
    count = rows.order_by().values("pk")[:MAX_JOBS].count()
    url = f"{model_admin.changelist_url()}?{urlencode({'where': term.text})}"
    return (count, url) if count else None


def pages_named(pages: Iterable[Tab], term: Term) -> HitGroup | None:
    """The menu entries with a word that begins with the term; Chinese does not part its words."""
    begins = r"\b" if term.text.isascii() else ""
    named = re.compile(begins + folding(term.text))
    hits = [
        Hit(page.link, page.words)
        for page in pages
        if term.text and named.search(f"{page.words} {page.was}")
    ]
    return HitGroup(gettext("Entries of the menu"), hits) if hits else None
