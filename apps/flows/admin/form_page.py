"""The parts of a flow's form beside its rows: the drawing, what is wrong, and what saving makes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from django.http import HttpRequest
from django.utils.translation import gettext, ngettext

from apps.common.admin.display import translate
from apps.common.db import is_mysql
from apps.dispatch.models import Template
from apps.flows.admin.flow_form import BY_JSON, BY_STEPS, MAX_PARAMS, MAX_TOLD, FlowForm
from apps.flows.admin.flow_page import title_change
from apps.flows.admin.graph import graph_of
from apps.flows.admin.step_rows import MAX_ROWS
from apps.flows.admin.step_words import people_of
from apps.flows.models import Flow
from apps.flows.rules.changes import changes
from apps.flows.rules.definition import Definition, faults
from apps.flows.services.masks import masked_step
from apps.jobs.services.types import open_types

MAX_SUGGESTED = 500
# The draft that asks for what of the form changes, and for no more.
LIVE = "1"


def context(admin: Any, request: HttpRequest, form: FlowForm, row: Any) -> dict[str, Any]:
    """The variables of `admin/flows/form.html`; `row` is None for a new flow."""
    is_untouched = row is None and not form.is_bound and form.copied is None
    told = [] if is_untouched else form.told
    drawn = _drawn(form)
    version = 0 if row is None else row.version
    differences = [] if row is None or drawn is None else _changes(row, drawn, form)
    may_copy = row is not None and admin.has_add_permission(request)
    return {
        "editor": form,
        "max_rows": MAX_PARAMS,
        "keeps_order": not is_mysql(),
        "max_steps": MAX_ROWS,
        "tabs": [
            (BY_STEPS, gettext("Steps"), form.tab == BY_STEPS),
            (BY_JSON, "JSON", form.tab == BY_JSON),
        ],
        "told": told[:MAX_TOLD],
        "graph": None if drawn is None else graph_of(drawn, people_of([drawn], request.user)),
        "said": "" if drawn is None or told else _said(drawn, row, version, differences),
        "changes": differences,
        "may_edit": True,
        "save_foot": ""
        if row is None
        else gettext("v%d never changes: runs that have it keep it.") % version,
        "save_words": gettext("Save v%d") % (version + 1),
        "types": open_types(form.bounds.types).values_list("name", "title")[:MAX_SUGGESTED],
        "templates": [*_templates()],
        "copy_url": f"{admin.url('add')}?copy={row.pk}" if may_copy else "",
    }


def _drawn(form: FlowForm) -> Definition | None:
    """The definition that can be drawn: it may name what there is not."""
    if form.made is None or faults(form.made):
        return None
    return Definition(form.made)


def _changes(row: Flow, new: Definition, form: FlowForm) -> list[str]:
    found = [translate(line) for line in changes(row.definition, new.said, shown=masked_step)]
    title = str(form["title"].value() or "").strip()
    return found if title == row.title else [title_change(row.title, title), *found]


def _said(drawn: Definition, row: Any, version: int, differences: Sequence[str]) -> str:
    """`3 levels. Saving makes version 4.`"""
    levels = len(drawn.levels)
    if row is not None and not differences and row.status == Flow.Status.ACTIVE:
        words = ngettext(
            "%(levels)d level. Nothing is changed against v%(version)d.",
            "%(levels)d levels. Nothing is changed against v%(version)d.",
            levels,
        )
        return words % {"levels": levels, "version": version}
    words = ngettext(
        "%(levels)d level. Saving makes version %(version)d.",
        "%(levels)d levels. Saving makes version %(version)d.",
        levels,
    )
    return words % {"levels": levels, "version": version + 1}


def _templates() -> Iterator[str]:
    rows = Template.objects.newest().filter(status=Template.Status.ACTIVE)
    yield from rows.order_by("name").values_list("name", flat=True)[:MAX_SUGGESTED]
