"""Filters of the lists of jobs and workers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from django.db.models import QuerySet
from django.utils.text import capfirst
from django.utils.translation import gettext, pgettext_lazy
from django.utils.translation import gettext_lazy as _

from apps.common import clock
from apps.common.admin.display import labelled, shown_text
from apps.common.admin.filters import (
    DayFilter,
    FormFilter,
    InstantFilter,
    LedToFilter,
    list_filters,
)
from apps.common.admin.parts import PartFilter
from apps.common.admin.payload_filter import PayloadFilter
from apps.common.filtersets import Choice, Key, RowFilters
from apps.common.readers import read_key
from apps.jobs.admin.job_columns import MAX_ERROR
from apps.jobs.models import ArchivedJob, Job, JobScope, JobType, Worker
from apps.jobs.rules import transitions
from apps.jobs.rules.type_snapshot import TypeSnapshot
from apps.jobs.services import living
from apps.jobs.services.find import archived_types
from apps.jobs.services.job_filters import ArchivedJobFilters, JobFilters
from apps.jobs.services.parts import parts
from apps.jobs.services.type_snapshots import all_types, type_snapshots
from apps.journal.admin.words import reason_of
from apps.journal.models import JournalEntry, Source

_OPEN = tuple(map(Job.Status, transitions.OPEN))


def type_names(person: Any = None) -> list[str]:
    """All types by name, or those that the person sees. A type with jobs is never deleted."""
    types = JobType.objects.all() if person is None else JobType.objects.visible_to(person)
    return list(types.order_by("name").values_list("name", flat=True))


def seen_by(person: Any, types: Sequence[TypeSnapshot]) -> list[TypeSnapshot]:
    """The types that the person sees."""
    names = JobScope.names_of(person)
    return [each for each in types if names is None or each.name in names]


def types_of_limits(person: Any) -> list[TypeSnapshot] | None:
    """The types that the person is limited to; None for all."""
    names = JobScope.names_of(person)
    return None if names is None else [each for each in all_types() if each.name in names]


def words_of_error(key: str, person: Any) -> str | None:
    """The words of the error, from a job with it that the person sees: the key is a hash. A retry
    takes the error off its job, so that only the journal still has the words."""
    for jobs in (Job.objects, ArchivedJob.objects):
        alike = jobs.visible_to(person).filter(error_key=key)
        for number, memo in alike.values_list("pk", "memo")[:1]:
            words = shown_text(reason_of(memo or _past_error(number, key)), limit=MAX_ERROR)
            return words or None
    return None


def _past_error(number: int, key: str) -> str:
    """The line of the error with which the job has ended before; "" where no entry is left."""
    entries = JournalEntry.objects.timeline(Source.JOB, number).filter(error_key=key)
    last = entries.order_by("-id").first()
    return "" if last is None else last.error_line


class TypeFilter(FormFilter):
    def names(self, person: Any) -> list[str]:
        """The types that the person sees, by name."""
        return type_names(person)

    @property
    def options(self) -> list[tuple[str, str]]:
        chosen = str(self.used_parameters.get("type", ""))
        names = dict.fromkeys(filter(None, [*self.names(self.request.user), chosen]))
        return [(name, name) for name in names]

    def in_words(self) -> Iterator[tuple[str, str]]:
        # Without reading the types once more.
        if name := self.used_parameters.get("type"):
            yield "type", labelled(capfirst(str(self.title)), str(name)[:80])

    def narrowed(self, rows: QuerySet[Any], given: dict[str, str]) -> QuerySet[Any]:
        # To people with limits another type is as unknown as one that does not exist.
        if given["type"] not in self.names(self.request.user):
            raise ValueError(gettext("There is no job type %s.") % repr(given["type"][:80]))
        return super().narrowed(rows, given)


class ArchivedTypeFilter(TypeFilter):
    """The filter by type, also by deleted types whose jobs are still in the archive."""

    def names(self, person: Any) -> list[str]:
        gone = {*archived_types()} - {*type_names()}
        limits = JobScope.names_of(person)
        seen = gone if limits is None else gone.intersection(limits)
        return sorted({*type_names(person), *seen})


class StatusFilter(FormFilter):
    @property
    def tabs(self) -> Any:
        """The open states, then the failed one, then the rest; without limits by key none is
        blocked."""
        rest = (Job.Status.FAILED, Job.Status.SUCCEEDED, Job.Status.CANCELLED)
        types = seen_by(self.request.user, [*type_snapshots().values()])
        has_limits = any(type_.key_limit is not None for type_ in types)
        open_ones = [each for each in _OPEN if has_limits or each != Job.Status.BLOCKED]
        return [(each.value, each.label) for each in (*open_ones, *rest)]


class ArchivedStatusFilter(StatusFilter):
    @property
    def tabs(self) -> Any:
        """The tabs of jobs that have ended."""
        return [each for each in super().tabs if each[0] not in _OPEN]


class ErrorFilter(FormFilter):
    def in_words(self) -> Iterator[tuple[str, str]]:
        key = read_key(str(self.used_parameters.get("error_key", "")))
        words = words_of_error(key, self.request.user) if key else None
        if words is None:
            yield from super().in_words()
        else:
            yield "error_key", labelled(gettext("Error"), words)


class PartOfFilter(PartFilter):
    parts = parts


class CreatedFilter(DayFilter):
    title = _("created")


FILTERS = (
    *list_filters(
        JobFilters,
        part_of=PartOfFilter,
        together=LedToFilter,
        type=TypeFilter,
        status=StatusFilter,
        error_key=ErrorFilter,
        where=PayloadFilter,
    ),
    CreatedFilter,
    InstantFilter,
)
ARCHIVED_FILTERS = (
    *list_filters(
        ArchivedJobFilters,
        part_of=PartOfFilter,
        together=LedToFilter,
        type=ArchivedTypeFilter,
        status=ArchivedStatusFilter,
        error_key=ErrorFilter,
        where=PayloadFilter,
    ),
    CreatedFilter,
    InstantFilter,
)


def _in_state(rows: Any, _name: str, state: str) -> Any:
    """The workers in the state that their list shows."""
    is_offline = living.offline(clock.now())
    if state == Worker.State.GONE:
        return rows.filter(is_offline)
    if state == Worker.State.DRAINING:
        return rows.filter(~is_offline, state=state)
    return rows.filter(~is_offline, state=Worker.State.ACTIVE, is_quiet=state == "quiet")


class WorkerFilters(RowFilters):
    """Workers are few: they need no index."""

    state = Choice(
        (*Worker.State.choices, ("quiet", pgettext_lazy("worker", "quiet"))),
        label=_("state"),
        method=_in_state,
    )
    kind = Choice(Worker.Kind.choices, label=_("kind"))
    host = Key(label=_("host"))
    client = Key(label=_("API key"))


class TypeFilters(RowFilters):
    lane = Choice(JobType.Lane.choices, label=_("speed class"))
    paused = Choice((("True", _("yes")), ("False", _("no"))), label=_("paused"))
