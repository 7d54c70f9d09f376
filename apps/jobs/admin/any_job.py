"""The common base of the pages of jobs, live and in the archive."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from django.db.models import QuerySet
from django.db.models.functions import Left
from django.http import HttpRequest
from django.urls import reverse
from django.utils.functional import Promise
from django.utils.safestring import SafeString
from django.utils.timezone import get_current_timezone
from django.utils.translation import gettext_lazy as _
from django.utils.translation import ngettext_lazy

from apps.common import clock
from apps.common.admin.actions import CustomUrls, ReasonAction
from apps.common.admin.buttons import Button, row_button
from apps.common.admin.changelist import tidy_search
from apps.common.admin.keyset import KeysetAdmin
from apps.common.admin.pages import Panel
from apps.common.admin.parts import read_wholes
from apps.common.admin.result_words import result_words
from apps.common.admin.row_page import RowPageAdmin
from apps.common.admin.service import ServiceModelAdmin
from apps.common.admin.timeline import Moment
from apps.common.admin.two_tables import TwoTablesAdmin
from apps.common.admin.who import known
from apps.common.filtering import RowFilter
from apps.common.texts import begin_of
from apps.jobs.admin import job_columns, job_fields, job_log, job_panels
from apps.jobs.admin.job_edit import may_retry_with
from apps.jobs.admin.job_forms import HostForm
from apps.jobs.models import AnyJob, bounds_of
from apps.jobs.rules import transitions, verbs
from apps.jobs.services import control, find, type_snapshots
from apps.jobs.services.job_filters import JobFilters
from apps.jobs.services.parts import parts

RETRY_WITH, AGAIN = _("Retry with another context…"), _("Submit again…")


def _button(url: str, text: str | Promise, icon: str) -> Button:
    return Button(url=url, text=text, icon=icon)


def may(arrow: str) -> Any:
    """Whether a job is in a state that the arrow leaves from."""
    return lambda job: transitions.is_legal(arrow, job.status)


def _read_filter(given: Mapping[str, str]) -> RowFilter:
    return JobFilters.read_address(given, get_current_timezone())


class AnyJobAdmin(RowPageAdmin, TwoTablesAdmin, ServiceModelAdmin, KeysetAdmin):
    other_model: ClassVar[type[AnyJob]]
    # Contexts and results may be large.
    list_defer = ("context", "checkpoint", "result", "memo")
    # Django shows the search box when there are any.
    search_fields = ("pk",)
    list_tabs = "status"
    search_help_text = _(
        "Number, key or user in full, part of the last error, or context.path:value"
    )

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        """Never on this page; waiting jobs have a page for edits."""
        return False

    def get_custom_urls(self) -> CustomUrls:
        log = ("<int:pk>/log/", self.url_name("log"), job_log.log_view)
        return (log, *super().get_custom_urls())

    def row_label(self, row: AnyJob) -> str:
        return " · ".join(filter(None, [str(row.pk), row.type, row.key]))

    # --- the list ---------------------------------------------------------------------------------
    def found_by_index(
        self, rows: QuerySet[Any], given: Mapping[str, str], term: str
    ) -> Sequence[int] | None:
        wanted = _read_filter({**given, "q": term})
        return find.keys_if_few(rows, wanted, most=self.max_indexed, model=self.model)

    def has_index_in_order(self, given: Mapping[str, str], term: str) -> bool:
        return bool(given.get("part_of"))

    def in_order(self, rows: QuerySet[Any], given: Mapping[str, str], term: str) -> QuerySet[Any]:
        return JobFilters.narrow(rows, _read_filter({"part_of": given["part_of"]}))

    def get_search_results(
        self, request: HttpRequest, queryset: QuerySet[Any], search_term: str
    ) -> tuple[QuerySet[Any], bool]:
        wanted = _read_filter({"q": tidy_search(search_term).strip()})
        return JobFilters.narrow(queryset, wanted), False

    def prepare_page(self, request: HttpRequest, rows: Sequence[Any]) -> None:
        now = clock.now()
        failed = [row.pk for row in rows if row.status == transitions.FAILED]
        most = 2 * job_columns.MAX_ERROR
        cut = Left("memo", most + 1)
        cuts = self.model._default_manager.filter(pk__in=failed).values_list("pk", cut)
        errors = dict(cuts) if failed else {}
        for row in rows:
            row.now, row.error = now, begin_of(errors.get(row.pk, ""), most)
        if self.is_exported:
            return
        results = self._results(request, rows)
        people = known((row.user_id for row in rows), request.user)
        for row in rows:
            row.user = people.get(row.user_id)
            row.words = result_words(results.get(row.pk))
            row.buttons = self.row_buttons(request, row)

    def _results(self, request: HttpRequest, rows: Sequence[Any]) -> dict[int, Any]:
        """The results of the succeeded jobs, by number, for people who may see them."""
        ended = [row.pk for row in rows if row.status == transitions.SUCCEEDED]
        if not ended or not self.has_payload_permission(request):
            return {}
        found = self.model._default_manager.filter(pk__in=ended, result__isnull=False)
        return dict(found.values_list("pk", "result"))

    def row_buttons(self, request: HttpRequest, row: AnyJob) -> SafeString:
        """The button for one click on the list; succeeded jobs are run again on their page only."""
        if row.status == transitions.SUCCEEDED:
            return SafeString()
        return row_button(self, request, "retry", row)

    # --- the page ---------------------------------------------------------------------------------
    def buttons(self, request: HttpRequest, row: AnyJob) -> list[Button]:
        found = super().buttons(request, row)
        is_closed = type_snapshots.is_closed(row.type)
        if transitions.is_legal("retry", row.status) and not is_closed:
            if may_retry_with(self, request):
                found.append(_button(self.url("retry_with", row.pk), RETRY_WITH, "edit_note"))
        if self._has_own_permission(request, "add_job") and row.is_final and not is_closed:
            url = f"{reverse('admin:jobs_job_add')}?again={row.pk}"
            found.append(_button(url, AGAIN, "content_copy"))
        return found

    def top_panels(self, request: HttpRequest, row: AnyJob) -> list[Panel]:
        shows_payload = self.has_payload_permission(request, row)
        log = job_log.panel(row, self.url("log", row.pk)) if shows_payload else None
        visible = self.get_queryset(request)
        above = job_panels.above(row, visible, log=log, shows_payload=shows_payload)
        return [
            *above,
            *job_panels.follow_up_panels(row, bounds_of(request.user)),
            *job_panels.together_panels(row, visible),
        ]

    def aside(self, request: HttpRequest, row: Any) -> list[Panel]:
        row.user = known([row.user_id], request.user).get(row.user_id)
        read_wholes([row], parts, request.user)
        return [self.facts(row, job_fields.FACTS)]

    def timeline(self, request: HttpRequest, row: AnyJob) -> Sequence[Moment]:
        shows_payload = self.has_payload_permission(request)
        return job_panels.moments(row, user=request.user, shows_payload=shows_payload)

    # --- actions ----------------------------------------------------------------------------------
    @ReasonAction(
        description=_("Retry"),
        permission="operate",
        question=_("The jobs run again at once, from the last checkpoint and with all tries."),
        done=ngettext_lazy("%d job retried.", "%d jobs retried."),
        icon="replay",
        offered=may("retry"),
        is_harmless=True,
        key="r",
        verb=verbs.VERBS[verbs.RETRY],
    )
    def retry(self, row: AnyJob, *, reason: str, actor: str) -> object:
        return control.retry(job=row, actor=actor, reason=reason)

    @ReasonAction(
        description=_("Retry on host…"),
        permission="operate",
        question=_("The job runs again with all tries, on this host only."),
        done=ngettext_lazy("%d job retried.", "%d jobs retried."),
        icon="dns",
        offered=may("retry"),
        form=HostForm,
        verb=verbs.VERBS[verbs.RETRY],
    )
    def retry_on_host(self, row: AnyJob, *, host: str, reason: str, actor: str) -> object:
        return control.retry(job=row, actor=actor, reason=reason, host=host)
