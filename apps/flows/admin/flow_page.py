"""The page of a flow: its steps drawn and in words, its params, its last runs and its versions."""

from __future__ import annotations

import json
from typing import Any

from django.http import HttpRequest, HttpResponse
from django.utils.translation import gettext

from apps.common.admin.buttons import shared_out
from apps.common.admin.display import (
    short_time,
    shown_text,
    translate,
)
from apps.common.admin.html import header_tabs, list_url, page_url
from apps.common.json.rows import why_not_rows
from apps.dispatch.admin.template_page import read_rows
from apps.flows.admin.graph import graph_of
from apps.flows.admin.run_pages import started_by
from apps.flows.admin.run_words import length_of, run_state
from apps.flows.admin.step_words import people_of, rows_of
from apps.flows.models import Flow, FlowRun
from apps.flows.rules.changes import changes
from apps.flows.services.masks import masked, masked_step
from apps.flows.services.progress import lasted
from apps.journal.admin.versions import newest_versions, shown_versions

FLOW, EDIT, VERSIONS, JSON, HISTORY = "flow", "edit", "versions", "json", "history"
MAX_RUNS = 10


def flow_page(request: HttpRequest, *, model_admin: Any, pk: int) -> HttpResponse:
    """The page, or the tab of it that `tab` names."""
    row = model_admin.existing(request, pk, may="view")
    asked = request.GET.get("tab", "")
    tab = asked if asked in (VERSIONS, JSON) else FLOW
    if tab == JSON and not model_admin.has_payload_permission(request, row):
        tab = FLOW
    page: HttpResponse = model_admin.page(
        request,
        "admin/flows/page.html",
        title=shown_text(row.title, limit=80) or row.name,
        header_tabs=tabs_of(model_admin, request, row, tab),
        is_fullwidth="1",
        flow=row,
        tab=tab,
        newest_url="" if row.is_newest else _newest_url(model_admin, request, row),
        **_TABS[tab](model_admin, request, row),
        **shared_out(model_admin.buttons(request, row)),
    )
    return page


def tabs_of(model_admin: Any, request: HttpRequest, row: Flow, here: str) -> dict[str, Any]:
    """The variables for the template of the tabs; `here` is the open one."""
    address = model_admin.row_url(row.pk)
    pages = {FLOW: (gettext("Flow"), address)}
    if model_admin.has_change_permission(request, row):
        pages[EDIT] = (gettext("Edit"), page_url(Flow, row.pk))
    pages[VERSIONS] = (gettext("Versions"), f"{address}?tab={VERSIONS}")
    if model_admin.has_payload_permission(request, row):
        pages[JSON] = ("JSON", f"{address}?tab={JSON}")
    pages[HISTORY] = (gettext("History"), model_admin.url("history", row.pk))
    return header_tabs(row.title or row.name, (gettext("Flows"), list_url(Flow)), pages, here)


def _newest_url(model_admin: Any, request: HttpRequest, row: Flow) -> str:
    """The page of the newest version, "" where this person may not see it."""
    newest = model_admin.get_queryset(request).filter(name=row.name, is_newest=True).first()
    return "" if newest is None else str(model_admin.row_url(newest.pk))


def _flow(model_admin: Any, request: HttpRequest, row: Flow) -> dict[str, Any]:
    people = people_of([row.read], request.user)
    schema = row.read.params
    shows_payload = model_admin.has_payload_permission(request, row)
    return {
        "graph": graph_of(row.read, people),
        "steps": rows_of(row.read, people, shows_given=shows_payload),
        "shows_given": shows_payload,
        "takes_any": schema is None,
        "why_no_rows": translate(why_not_rows(schema) or "") if schema else "",
        "shown_rows": read_rows(schema) if schema else [],
        "runs": _runs(request, row),
        "runs_url": list_url(FlowRun, flow=row.name),
    }


def _runs(request: HttpRequest, row: Flow) -> list[dict[str, Any]] | None:
    """The last runs of all versions; None for those who see none."""
    user: Any = request.user
    if not user.has_perm("flows.view_flowrun"):
        return None
    found = FlowRun.objects.visible_to(user).filter(flow=row.name).order_by("-pk")
    return [
        {
            "run": run,
            "url": page_url(FlowRun, run.pk),
            "state": run_state(run),
            "began": short_time(run.created_at),
            "took": "–" if run.finished_at is None else length_of(lasted(run)),
            "by": started_by(run),
        }
        for run in found.defer("definition", "params")[:MAX_RUNS]
    ]


def _versions(model_admin: Any, request: HttpRequest, row: Flow) -> dict[str, Any]:
    found = newest_versions(model_admin.get_queryset(request), row.name)
    return {
        "versions": shown_versions(
            found,
            row,
            url=lambda each: model_admin.row_url(each.pk),
            changes=lambda before, each: _changes(before, each),
        )
    }


def _changes(before: Flow, each: Flow) -> list[str]:
    found = [
        translate(line) for line in changes(before.definition, each.definition, shown=masked_step)
    ]
    if before.title != each.title:
        found.insert(0, title_change(before.title, each.title))
    return found


def title_change(old: str, new: str) -> str:
    """The change of a title in words."""
    return gettext("The title %(old)s becomes %(new)s.") % {"old": old or "–", "new": new or "–"}


def _json(_admin: Any, _request: HttpRequest, row: Flow) -> dict[str, Any]:
    return {"text": json.dumps(masked(row.definition), indent=2, ensure_ascii=False)}


_TABS = {FLOW: _flow, VERSIONS: _versions, JSON: _json}
