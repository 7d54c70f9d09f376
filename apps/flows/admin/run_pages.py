"""The pages of a run: their tabs, the results, and the way to them from what is part of a step."""

from __future__ import annotations

from typing import Any

from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse
from django.urls import reverse
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.translation import gettext, pgettext_lazy
from django.utils.translation import gettext_lazy as _

from apps.common.admin.display import shown_actor, shown_text
from apps.common.admin.html import header_tabs, list_url, page_link, page_url
from apps.common.admin.json_fields import fields_of
from apps.common.admin.pages import Panel
from apps.common.api.paging import left_out
from apps.flows.admin import run_words
from apps.flows.models import Flow, FlowRun, FlowStep
from apps.flows.services import progress

RESULTS_URL = "flows_flowrun_results"
RUN, RESULTS, LOG = "run", "results", "log"
LEFT_OUT = _("Too large to be shown with those above. Each job and each dispatch shows its own.")


def tabs_of(run: FlowRun, here: str, *, shows_results: bool) -> dict[str, Any]:
    """The variables for the template of the tabs; `here` is the open one."""
    pages = {RUN: (pgettext_lazy("of a flow", "Run"), page_url(FlowRun, run.pk))}
    if shows_results:
        pages[RESULTS] = (_("Results"), reverse(f"admin:{RESULTS_URL}", args=[run.pk]))
    pages[LOG] = (_("Log"), reverse("admin:flows_flowrun_history", args=[run.pk]))
    name = run_words.run_name(run, title_of(run))
    return header_tabs(name, (gettext("Runs"), list_url(FlowRun)), pages, here)


def title_of(run: FlowRun) -> str:
    """The title of the flow that the run began with."""
    if not run.flow:
        return ""
    rows = Flow.objects.filter(name=run.flow, version=run.flow_version)
    return rows.values_list("title", flat=True).first() or ""


def results_view(request: HttpRequest, *, model_admin: Any, pk: int) -> HttpResponse:
    """The params of the run and the results of its steps."""
    run = model_admin.existing(request, pk, may="view")
    if not model_admin.has_payload_permission(request):
        raise PermissionDenied
    rows = progress.read_steps(run)
    results = dict(FlowStep.objects.filter(run=run.pk).values_list("pk", "result"))
    schema = run.definition.get("params")
    panels = [Panel(_("Params"), fields_of(run.params, schema))] if run.params else []
    has_result = {name: row.pk for name, row in rows.items() if results[row.pk] is not None}
    beyond = left_out(results[number] for number in has_result.values())
    for (name, number), is_left_out in zip(has_result.items(), beyond, strict=True):
        body = format_html("<p>{}</p>", LEFT_OUT) if is_left_out else fields_of(results[number])
        panels.append(Panel(shown_text(name, limit=80), body, id=f"result-{number}"))
    page: HttpResponse = model_admin.page(
        request,
        "admin/flow_run/results.html",
        title=run_words.run_name(run, title_of(run)),
        header_tabs=tabs_of(run, RESULTS, shows_results=True),
        panels=panels,
    )
    return page


_STARTERS = {"job": ("jobs_job", _("a job")), "schedule": ("schedules_schedule", _("its schedule"))}


def started_by(run: FlowRun) -> SafeString | str:
    """Who started the run; a schedule and a job lead to their pages."""
    kind, _colon, number = run.started_by.partition(":")
    if kind in _STARTERS and number.isdecimal():
        page, words = _STARTERS[kind]
        return page_link(page, number, str(words))
    return shown_actor(run.started_by)
