"""What the pages of all jobs have in common, whether they are live or in the archive."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from django.db.models import Q, QuerySet
from django.db.models.functions import Left
from django.http import HttpRequest
from django.utils.translation import gettext_lazy as _
from django.utils.translation import ngettext_lazy

from apps.common import clock
from apps.common.admin import ServiceModelAdmin, reason_action
from apps.common.admin.base import Panel
from apps.common.admin.changelist import tidy_search
from apps.common.admin.filters import read_key, read_number
from apps.common.admin.keyset import KeysetAdmin
from apps.common.admin.timeline import Moment
from apps.common.admin.two_tables import TwoTablesAdmin
from apps.jobs.admin import job_fields, job_panels
from apps.jobs.admin.job_forms import HostForm
from apps.jobs.models import AnyJob
from apps.jobs.rules import transitions
from apps.jobs.services import control


def may(arrow: str) -> Any:
    """Whether a job is in a state that the arrow leaves from."""
    return lambda job: transitions.is_legal(arrow, job.status)


class AnyJobAdmin(TwoTablesAdmin, ServiceModelAdmin, KeysetAdmin):
    other_model: ClassVar[type[AnyJob]]
    # Contexts and results may be large.
    list_defer = ("context", "checkpoint", "result", "memo")
    # Django shows the search box when there are any.
    search_fields = ("pk",)
    search_help_text = _("Number, key or user in full, or part of the last error")

    def types(self) -> list[str]:
        """The types that its jobs can have."""
        raise NotImplementedError(f"{type(self).__name__} must define types()")

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        """Never on this page; waiting jobs have a page for edits."""
        return False

    def row_label(self, row: AnyJob) -> str:
        return " · ".join(filter(None, [str(row.pk), row.type, row.key]))

    # --- the list ---------------------------------------------------------------------------------
    def found_by_index(
        self, rows: QuerySet[Any], given: Mapping[str, str], term: str
    ) -> Sequence[int] | None:
        if term:
            return self._found_exactly(rows, term)
        types = [given["type"]] if given.get("type") else None
        if given.get("error_key"):
            alike = rows.filter(error_key=given["error_key"])
            return self.few(alike.filter(type=types[0]) if types else alike)
        if given.get("key"):
            return self.few(rows.filter(type__in=types or self.types(), key=given["key"]))
        return self.found_by_type(rows.filter(type=types[0]) if types else rows, given)

    def found_by_type(self, rows: QuerySet[Any], given: Mapping[str, str]) -> Sequence[int] | None:
        """As `found_by_index` for what neither key nor error narrows; `rows` are of the type."""
        return self.few(rows) if given.get("type") else None

    def _found_exactly(self, rows: QuerySet[Any], term: str) -> Sequence[int] | None:
        number, key = read_number(term), read_key(term)
        if number is not None and rows.filter(pk=number).exists():
            return [number]
        if key is None:
            return None
        return self.few(rows.filter(type__in=self.types(), key=key)) or None

    def get_search_results(
        self, request: HttpRequest, queryset: QuerySet[Any], search_term: str
    ) -> tuple[QuerySet[Any], bool]:
        term = tidy_search(search_term).strip()
        if not term:
            return queryset, False
        wanted = Q(memo__icontains=term)
        if read_key(term) is not None:
            wanted |= Q(key=term) | Q(user_id=term)
        if (number := read_number(term)) is not None:
            wanted |= Q(pk=number)
        return queryset.filter(wanted), False

    def prepare_page(self, request: HttpRequest, rows: Sequence[Any]) -> None:
        now = clock.now()
        failed = [row.pk for row in rows if row.status == transitions.FAILED]
        cut = Left("memo", 2 * job_fields.MAX_ERROR)
        told = self.model._default_manager.filter(pk__in=failed).values_list("pk", cut)
        errors = dict(told) if failed else {}
        for row in rows:
            row.now, row.error = now, errors.get(row.pk, "")

    # --- the page ---------------------------------------------------------------------------------
    def get_fieldsets(self, request: HttpRequest, obj: Any = None) -> Any:
        shows_payload = self.has_payload_permission(request, obj)
        return job_fields.fieldsets(obj, shows_payload=shows_payload)

    def top_panels(self, request: HttpRequest, row: AnyJob) -> list[Panel]:
        return job_panels.above(row)

    def timeline(self, request: HttpRequest, row: AnyJob) -> Sequence[Moment]:
        return job_panels.moments(row, shows_payload=self.has_payload_permission(request))

    # --- actions ----------------------------------------------------------------------------------
    @reason_action(
        description=_("Retry"),
        permission="operate",
        question=_("The jobs run again at once, from the last checkpoint and with all attempts."),
        done=ngettext_lazy("%d job retried.", "%d jobs retried."),
        icon="replay",
        offered=may("retry"),
    )
    def retry(self, row: AnyJob, *, reason: str, actor: str) -> object:
        return control.retry(job=row, actor=actor, reason=reason)

    @reason_action(
        description=_("Retry on host…"),
        permission="operate",
        question=_("The job runs again with all attempts, on this host only."),
        done=ngettext_lazy("%d job retried.", "%d jobs retried."),
        icon="dns",
        offered=may("retry"),
        form=HostForm,
    )
    def retry_on_host(self, row: AnyJob, *, host: str, reason: str, actor: str) -> object:
        return control.retry(job=row, actor=actor, reason=reason, host=host)
