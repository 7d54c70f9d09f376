"""Filters of the lists of jobs and workers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from django import forms
from django.db.models import Q, QuerySet
from django.utils import timezone
from django.utils.text import capfirst
from django.utils.translation import gettext, pgettext_lazy
from django.utils.translation import gettext_lazy as _
from unfold.widgets import UnfoldAdminSelectWidget

from apps.common import clock
from apps.common.admin.display import shown_text, translate
from apps.common.admin.filters import ChoiceFilter, DayFilter, FormFilter, KeyFilter
from apps.common.admin.payload_filter import PayloadFilter
from apps.common.errors import Invalid
from apps.common.readers import read_key
from apps.jobs.admin.job_columns import MAX_ERROR
from apps.jobs.conf import conf
from apps.jobs.models import ArchivedJob, Job, JobScope, JobType, Worker
from apps.jobs.rules.job_filter import PAYLOAD, JobFilter, admin_names, read
from apps.jobs.rules.type_snapshot import TypeSnapshot
from apps.jobs.services.find import archived_types, narrowed
from apps.jobs.services.register import LIVING
from apps.jobs.services.type_snapshots import all_types
from apps.journal.admin.filters import HostFilter, WorkerFilter
from apps.journal.admin.words import reason_of

_OPEN = (Job.Status.SCHEDULED, Job.Status.READY, Job.Status.RUNNING)


def wanted_of(given: Mapping[str, str]) -> JobFilter:
    """The filter that the parameters of a list of jobs mean."""
    return read(given, admin_names(timezone.get_current_timezone()))


def type_names(person: Any = None) -> list[str]:
    """All types by name, or those that the person sees. A type with jobs is never deleted."""
    types = JobType.objects.all() if person is None else JobType.objects.visible_to(person)
    return list(types.order_by("name").values_list("name", flat=True))


def seen_by(person: Any, types: Sequence[TypeSnapshot]) -> list[TypeSnapshot]:
    """Those of the types that the person sees."""
    names = JobScope.names_of(person)
    return [each for each in types if names is None or each.name in names]


def types_of_limits(person: Any) -> list[TypeSnapshot] | None:
    """The types that the person is limited to; None for all."""
    names = JobScope.names_of(person)
    return None if names is None else [each for each in all_types() if each.name in names]


def words_of_error(key: str, person: Any) -> str | None:
    """The error as a job says it that has it and that the person sees: the key is a hash."""
    for jobs in (Job.objects, ArchivedJob.objects):
        alike = jobs.visible_to(person).filter(error_key=key)
        for memo in alike.values_list("memo", flat=True)[:1]:
            return shown_text(reason_of(memo), limit=MAX_ERROR)
    return None


class ByJobFilter(FormFilter):
    """Narrows as the JobFilter of its parameters does."""

    def narrowed(self, rows: QuerySet[Any], given: dict[str, str]) -> QuerySet[Any]:
        try:
            return narrowed(rows, wanted_of(given))  # type: ignore[arg-type]
        except Invalid as error:
            raise ValueError(translate(error.detail)) from error


class TypeFilter(ByJobFilter):
    title = _("type")
    parameter = "type"

    def names(self, person: Any = None) -> list[str]:
        """All types by name, or those that the person sees."""
        return type_names(person)

    def fields(self) -> dict[str, forms.Field]:
        choices = [("", _("All")), *((name, name) for name in self.names(self.request.user))]
        chosen = self.used_parameters.get("type")
        if chosen and chosen not in dict(choices):
            choices.append((str(chosen), str(chosen)))
        widget = UnfoldAdminSelectWidget(choices=choices)
        return {"type": forms.ChoiceField(label="", required=False, choices=choices, widget=widget)}

    def in_words(self) -> Iterator[tuple[str, str]]:
        # Without reading the types once more.
        if name := self.used_parameters.get("type"):
            yield "type", f"{capfirst(str(self.title))}: {str(name)[:80]}"

    def narrowed(self, rows: QuerySet[Any], given: dict[str, str]) -> QuerySet[Any]:
        if given["type"] not in self.names():
            raise ValueError(gettext("There is no job type %s.") % repr(given["type"][:80]))
        return super().narrowed(rows, given)


class ArchivedTypeFilter(TypeFilter):
    """Also by types that are deleted, and whose jobs are still in the archive."""

    def names(self, person: Any = None) -> list[str]:
        gone = {*archived_types()} - {*type_names()}
        limits = None if person is None else JobScope.names_of(person)
        seen = gone if limits is None else gone.intersection(limits)
        return sorted({*type_names(person), *seen})


class StatusFilter(ByJobFilter, ChoiceFilter):
    title = _("status")
    parameter = "status"
    options = Job.Status.choices

    @property
    def tabs(self) -> Any:
        """What goes on, what went wrong, and the rest."""
        rest = (Job.Status.FAILED, Job.Status.SUCCEEDED, Job.Status.CANCELLED)
        return [(each.value, each.label) for each in (*_OPEN, *rest)]


class ArchivedStatusFilter(StatusFilter):
    @property
    def tabs(self) -> Any:
        """Those of jobs that have ended."""
        return [each for each in super().tabs if each[0] not in _OPEN]


class LaneFilter(ByJobFilter, ChoiceFilter):
    title = _("speed class")
    parameter = "lane"
    options = JobType.Lane.choices


class JobKeyFilter(ByJobFilter, KeyFilter):
    title = _("key")
    parameter = "key"


class UserFilter(ByJobFilter, KeyFilter):
    title = _("user")
    parameter = "user"


class JobHostFilter(ByJobFilter, HostFilter):
    """The host of the last attempt."""


class JobWorkerFilter(ByJobFilter, WorkerFilter):
    """The worker of the last attempt."""


class ErrorFilter(ByJobFilter, KeyFilter):
    title = _("error key")
    parameter = "error_key"

    def in_words(self) -> Iterator[tuple[str, str]]:
        key = read_key(str(self.used_parameters.get("error_key", "")))
        words = words_of_error(key, self.request.user) if key else None
        if words is None:
            yield from super().in_words()
        else:
            yield "error_key", f"{gettext('Error')}: {words}"


class CreatedFilter(DayFilter):
    title = _("created")


class ClientFilter(ByJobFilter, KeyFilter):
    title = _("API key")
    parameter = "client"


class JobPayload(PayloadFilter):
    columns = PAYLOAD


class WorkerKindFilter(ChoiceFilter):
    title = _("kind")
    parameter = "kind"
    options = Worker.Kind.choices


class WorkerStateFilter(ChoiceFilter):
    """By the state as the list shows it."""

    title = _("state")
    parameter = "state"
    options = (
        *Worker.State.choices,
        ("quiet", pgettext_lazy("worker", "quiet")),
        ("away", pgettext_lazy("worker", "away")),
        ("lost", pgettext_lazy("worker", "lost")),
    )

    def narrowed(self, rows: QuerySet[Any], given: dict[str, str]) -> QuerySet[Any]:
        state = given["state"]
        if state == Worker.State.GONE:
            return super().narrowed(rows, given)
        is_silent = Q(last_heartbeat_at__lte=clock.now() - conf.JOB_WORKER_SILENCE)
        is_lost = is_silent & Q(promises_beats=True)
        if state == "lost":
            return rows.filter(is_lost, state__in=LIVING)
        if state == Worker.State.DRAINING:
            return rows.filter(~is_lost, state=state)
        present = rows.filter(~is_lost, state=Worker.State.ACTIVE)
        if state == "quiet":
            return present.filter(is_quiet=True)
        return present.filter(is_silent if state == "away" else ~is_silent, is_quiet=False)
