"""Runs of flows in the admin: the list, the page of one, and what operators do."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from django.contrib import admin
from django.db.models import Q, QuerySet
from django.http import HttpRequest
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.translation import gettext, ngettext_lazy
from django.utils.translation import gettext_lazy as _

from apps.common.admin.actions import ReasonAction
from apps.common.admin.buttons import Button
from apps.common.admin.display import column, count_bar, shown_text, time_column
from apps.common.admin.keyset import KeysetAdmin
from apps.common.admin.list_head import NextStep, keys_if_counted
from apps.common.admin.live import LiveAdmin
from apps.common.admin.machine_rows import MachineRowAdmin
from apps.common.admin.pages import Panel
from apps.common.admin.result_words import result_words
from apps.common.admin.row_page import RowPageAdmin, head_line
from apps.common.admin.timeline import Moment
from apps.common.readers import read_key, read_number
from apps.flows.admin import run_words, step_words
from apps.flows.admin.run_filters import FILTERS, OPEN_ONES
from apps.flows.admin.run_forms import FinishForm, StepForm
from apps.flows.admin.run_pages import (
    LOG,
    RESULTS_URL,
    RUN,
    results_view,
    started_by,
    tabs_of,
    title_of,
)
from apps.flows.admin.run_steps import RunView
from apps.flows.models import OPEN, Flow, FlowRun, FlowStep
from apps.flows.rules import joins, shapes
from apps.flows.services import control, progress
from apps.journal.admin import latest_moments
from apps.journal.models import Source

Status = FlowRun.Status
LIVE_SECONDS = 3


def _may_skip(run: FlowRun) -> bool:
    return run.status in (Status.RUNNING, Status.FAILED)


def _waits_for_people(run: FlowRun) -> bool:
    return run.status == Status.RUNNING and any(
        row.kind == shapes.WAIT and row.state == joins.ACTIVE for row in run.steps.all()
    )


def _has_failed(run: Any) -> bool:
    return run.status in (Status.RUNNING, Status.FAILED) and bool(run.has_failed_parts)


class FlowRunAdmin(LiveAdmin, RowPageAdmin, KeysetAdmin, MachineRowAdmin):
    """A page of the list reads as many rows as it shows, or up to `max_examined` of the primary
    key; flow, status and key have an index in that order."""

    change_form_template = "admin/flow_run/page.html"
    when_empty = _("A run is what a flow makes when it is started: by a program, a job, or you.")
    next_steps = (NextStep(_("See the flows"), "admin:flows_flow_changelist", "flows.view_flow"),)
    list_display = (
        *("shown_state", "shown_flow", "waits_for", "shown_done", "began", "took", "by"),
    )
    list_mobile = (("shown_state", "shown_flow"), ("waits_for", "shown_done", "began", "took"))
    list_defer = ("definition", "params")
    list_filter = FILTERS
    list_tabs = "status"
    exact_search = (("pk", read_number), ("key", read_key))
    search_help_text = _("Number or key, in full")
    export_columns = (
        *(("id", "pk"), ("flow", "flow"), ("flow_version", "flow_version"), ("key", "key")),
        *(("status", "status"), ("paused", "is_paused"), ("started_by", "started_by")),
        *(("created_at", "created_at"), ("finished_at", "finished_at")),
    )
    custom_urls: ClassVar[Any] = (("<int:pk>/results/", RESULTS_URL, results_view),)
    actions = ("retry", "pause", "resume", "stop", "skip", "finish", "stop_by_force")

    began = time_column("created_at", _("began"))

    def has_override_permission(self, request: HttpRequest, obj: object = None) -> bool:
        """Whether this person may decide the end of steps against what goes on."""
        return self._has_own_permission(request, "override_flow")

    def row_label(self, row: FlowRun) -> str:
        return run_words.run_name(row)

    # --- the list ---------------------------------------------------------------------------------
    def list_actions(self, request: HttpRequest, found: dict[str, Any]) -> dict[str, Any]:
        """None: steps differ from run to run, so each is dealt with on its page."""
        return {}

    def tab_counts(self, request: HttpRequest, others: Mapping[str, str]) -> Mapping[str, int]:
        """The counts of open and failed runs by the index of states."""
        if others:
            return {}
        rows = self.get_queryset(request)
        return {
            value: len(keys_if_counted(rows.filter(status__in=value.split(","))))
            for value in (OPEN_ONES, Status.FAILED.value)
        }

    def first_rows(self, request: HttpRequest, rows: QuerySet[Any]) -> list[Any]:
        """The newest open runs."""
        return self.newest_first(rows, keys_if_counted(rows.filter(status__in=OPEN)))

    def found_by_index(
        self, rows: QuerySet[Any], given: Mapping[str, str], term: str
    ) -> Sequence[int] | None:
        if not term:
            return None
        found = list(rows.filter(pk=read_number(term) or 0).values_list("pk", flat=True))
        return found or (self.few(rows.filter(key=term)) if read_key(term) else None)

    def has_index_in_order(self, given: Mapping[str, str], term: str) -> bool:
        return bool(given.get("flow") or given.get("key"))

    def in_order(self, rows: QuerySet[Any], given: Mapping[str, str], term: str) -> QuerySet[Any]:
        return rows.filter(**{name: given[name] for name in ("flow", "key") if given.get(name)})

    def get_search_results(
        self, request: HttpRequest, queryset: QuerySet[Any], search_term: str
    ) -> tuple[QuerySet[Any], bool]:
        # A key may be a number, too.
        found, _again = super().get_search_results(request, queryset, search_term)
        term = search_term.strip()
        if read_number(term) is not None and read_key(term):
            return found | queryset.filter(key=term), False
        return found, False

    def prepare_page(self, request: HttpRequest, rows: Sequence[Any]) -> None:
        by_run: dict[int, list[FlowStep]] = {}
        of_page = FlowStep.objects.filter(run__in=[row.pk for row in rows]).order_by("pk")
        for step in of_page.only("run_id", "name", "kind", "state", "target"):
            by_run.setdefault(step.run_id, []).append(step)
        of_version = Q()
        for of in {(row.flow, row.flow_version) for row in rows if row.flow}:
            of_version |= Q(name=of[0], version=of[1])
        flows = Flow.objects.filter(of_version) if of_version else Flow.objects.none()
        known = {
            (name, version): (title, step_words.titles_of(definition))
            for name, version, title, definition in flows.values_list(
                "name", "version", "title", "definition"
            )
        }
        for row in rows:
            of = (row.flow, row.flow_version)
            title, titles = known.get(of, ("", {}))
            row.title = title or row.flow
            row.listed = by_run.get(row.pk, [])
            row.waits = run_words.waits_in_short(row, row.listed, titles)

    @column(_("state"))
    def shown_state(self, run: FlowRun) -> SafeString:
        return run_words.run_state(run)

    @column(_("flow"))
    def shown_flow(self, run: Any) -> SafeString:
        name = shown_text(run.title or gettext("Definition of its own"), limit=80)
        return format_html(
            '<bdi>{}</bdi> <span class="cell-note faint"><bdi>{}</bdi></span>',
            name,
            run.key or f"v{run.flow_version}" if run.flow else run.pk,
        )

    @column(_("waits for"))
    def waits_for(self, run: Any) -> str | None:
        return run.waits or None

    @column(_("steps done"))
    def shown_done(self, run: Any) -> SafeString:
        done = sum(each.state in (joins.SUCCEEDED, joins.SKIPPED) for each in run.listed)
        total = len(run.listed)
        meaning = gettext("%(handed)d of %(times)d steps done")
        return count_bar(done, total, f"{done} / {total}", meaning)

    @column(_("took"))
    def took(self, run: FlowRun) -> str:
        return run_words.length_of(progress.lasted(run))

    @column(_("by"))
    def by(self, run: FlowRun) -> SafeString | str:
        return started_by(run)

    # --- the page ---------------------------------------------------------------------------------
    def live_seconds(self, row: FlowRun) -> float | None:
        # A failed one goes on soon after somebody has retried a job of it.
        return LIVE_SECONDS if row.is_open or row.status == Status.FAILED else None

    def prepare_row(self, request: HttpRequest, row: Any) -> None:
        row.page_title = run_words.run_name(row, title_of(row))

    def page_context(self, request: HttpRequest, row: Any, form: Any) -> dict[str, Any]:
        if row is None:
            return {}
        shows = self.has_payload_permission(request)
        return {"header_tabs": tabs_of(row, RUN, shows_results=shows), "show_history": False}

    def history_tabs(self, request: HttpRequest, row: FlowRun) -> dict[str, Any]:
        return tabs_of(row, LOG, shows_results=self.has_payload_permission(request))

    def timeline(self, request: HttpRequest, row: FlowRun) -> Sequence[Moment]:
        shows_payload = self.has_payload_permission(request)
        return latest_moments(Source.FLOW, row.pk, user=request.user, shows_payload=shows_payload)

    def top_panels(self, request: HttpRequest, row: FlowRun) -> list[Panel]:
        view = self._view(request, row)
        said = run_words.sentence(row, view.found)
        head = format_html(
            '{}<p class="flow-about faint">{}</p>',
            head_line(run_words.run_state(row), [said]),
            self._about(request, row),
        )
        return [
            Panel("", head),
            Panel("", view.graph(), id="graph"),
            Panel("", view.table(), id="steps"),
        ]

    def _view(self, request: HttpRequest, row: Any) -> RunView:
        """How the run stands, read once for a page."""
        if not hasattr(row, "view"):
            row.view = RunView(request, row, self.change_url(row.pk))
        view: RunView = row.view
        return view

    def buttons(self, request: HttpRequest, row: Any) -> list[Button]:
        row.has_failed_parts = self._view(request, row).has_failed_parts
        return super().buttons(request, row)

    def panels(self, request: HttpRequest, row: FlowRun) -> list[Panel]:
        # The history is a page of its own.
        return []

    def _about(self, request: HttpRequest, run: FlowRun) -> SafeString:
        """`Night v3 · shop Bern · started 19:42 by Olga · done about 21:10 (…)`."""
        return run_words.about(
            run,
            title_of(run),
            params=result_words(run.params) if self.has_payload_permission(request) else "",
            by=started_by(run),
        )

    # --- actions ----------------------------------------------------------------------------------
    @ReasonAction(
        description=_("Retry failed part"),
        permission="operate",
        question=_("What has failed is tried again, and the run goes on from there."),
        done=ngettext_lazy("%d run goes on.", "%d runs go on."),
        icon="replay",
        offered=_has_failed,
        is_harmless=True,
        key="r",
    )
    def retry(self, row: FlowRun, *, reason: str, actor: str) -> object:
        return control.retry(run=row, actor=actor, reason=reason)

    @ReasonAction(
        description=_("Pause"),
        permission="operate",
        question=_("No further step begins until it is resumed. What is active goes on."),
        done=ngettext_lazy("%d run paused.", "%d runs paused."),
        icon="pause_circle",
        offered=lambda run: run.status == Status.RUNNING and not run.is_paused,
        is_harmless=True,
    )
    def pause(self, row: FlowRun, *, reason: str, actor: str) -> object:
        return False if row.is_paused else control.pause(run=row, actor=actor, reason=reason)

    @ReasonAction(
        description=_("Resume"),
        permission="operate",
        question=_("Steps begin again."),
        done=ngettext_lazy("%d run resumed.", "%d runs resumed."),
        icon="play_circle",
        offered=lambda run: run.status == Status.RUNNING and run.is_paused,
        is_harmless=True,
    )
    def resume(self, row: FlowRun, *, reason: str, actor: str) -> object:
        return control.resume(run=row, actor=actor, reason=reason) if row.is_paused else False

    @ReasonAction(
        description=_("Stop…"),
        permission="operate",
        question=_(
            "Nothing more begins, and what waits is cancelled. Running jobs and open dispatches "
            "are waited for. This is final."
        ),
        done=ngettext_lazy("%d run is being stopped.", "%d runs are being stopped."),
        icon="stop_circle",
        is_dangerous=True,
        offered=lambda run: run.status == Status.RUNNING,
    )
    def stop(self, row: FlowRun, *, reason: str, actor: str) -> object:
        if not row.is_open:
            return False
        return control.cancel(run=row, actor=actor, reason=reason)

    @ReasonAction(
        description=_("Stop by force…"),
        permission="override",
        question=_(
            "Nothing more begins, and all that is open is cancelled now: running jobs, and "
            "dispatches that people have in hand. This is final."
        ),
        done=ngettext_lazy("%d run is being stopped.", "%d runs are being stopped."),
        icon="dangerous",
        is_dangerous=True,
        offered=lambda run: run.is_open and not run.is_forced,
    )
    def stop_by_force(self, row: FlowRun, *, reason: str, actor: str) -> object:
        if not row.is_open:
            return False
        return control.cancel(run=row, actor=actor, reason=reason, force=True)

    @ReasonAction(
        description=_("Go on without it…"),
        permission="override",
        question=_("The step is left out, and what it has open is cancelled. The others go on."),
        done=ngettext_lazy("%d run goes on.", "%d runs go on."),
        icon="skip_next",
        form=StepForm,
        offered=_may_skip,
    )
    def skip(self, row: FlowRun, *, step: str, result: Any, reason: str, actor: str) -> object:
        return control.skip(run=row, step=step, result=result, actor=actor, reason=reason)

    @ReasonAction(
        description=_("Finish…"),
        permission="override",
        question=_("What the step waits for has come: it succeeds with this result."),
        done=ngettext_lazy("%d run goes on.", "%d runs go on."),
        icon="task_alt",
        form=FinishForm,
        offered=_waits_for_people,
    )
    def finish(self, row: FlowRun, *, step: str, result: Any, reason: str, actor: str) -> object:
        return control.finish(run=row, step=step, result=result, actor=actor, reason=reason)


admin.site.register(FlowRun, FlowRunAdmin)
