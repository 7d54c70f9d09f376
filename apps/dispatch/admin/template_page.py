"""The parts of a template's page beside its form: the changes, the tasks, the versions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

from django.db.models import QuerySet
from django.http import HttpRequest
from django.urls import reverse
from django.utils.translation import gettext, ngettext

from apps.common.admin.bulk_links import PLAN_URL
from apps.common.admin.display import translate
from apps.common.admin.html import page_url
from apps.common.db import is_mysql
from apps.common.json.diff import diff
from apps.common.json.rows import KINDS as ROW_KINDS
from apps.common.json.rows import LIMITS, MAX_ROWS, rows_of, why_not_rows
from apps.dispatch.admin.template_form import (
    FIELDS,
    TABS,
    TASKS,
    VERSIONS,
    TemplateForm,
    fault_of,
)
from apps.dispatch.models import TASK_MODELS, Template
from apps.dispatch.rules import task_verbs
from apps.dispatch.services import fitting, templates
from apps.dispatch.services.fitting import MAX_CHECKED, Fit
from apps.journal.admin.versions import newest_versions, shown_versions

MAX_REASONS = 3


@dataclass(frozen=True)
class Moved:
    """The link to the plan of a move."""

    url: str
    text: str


def tasks_for(site: Any, request: HttpRequest) -> list[QuerySet[Any]]:
    """The tasks of each kind that this person may see."""
    return [
        model.objects.visible_to(request.user)
        for model in TASK_MODELS.values()
        if site._registry[model].has_view_permission(request)
    ]


def context(admin: Any, request: HttpRequest, form: TemplateForm, row: Any) -> dict[str, Any]:
    """The variables of `admin/template_form.html`; `row` is None for a new template."""
    may_edit = row is None or admin.has_change_permission(request, row)
    shown = {
        "editor": form,
        "may_edit": may_edit,
        "max_rows": MAX_ROWS,
        "keeps_order": not is_mysql(),
        "save_words": gettext("Save v%d") % (1 if row is None else row.version + 1),
        "preview": form.preview() if may_edit else None,
    }
    if row is None:
        return {**shown, "tabs": _tabs(form, {FIELDS: "", "json": ""})}
    schema = form.edited if may_edit else row.schema
    is_changed = schema is not None and templates.differs(row.schema, schema)
    version = row.version + 1 if is_changed else row.version
    fits: list[Fit] = []
    if schema is not None:
        tasks = tasks_for(admin.admin_site, request)
        fits = fitting.fitting(row.name, schema, tasks, below=version)
    found = newest_versions(Template.objects.all(), row.name)
    admin.prepare_page(request, [row, *found])
    versions = _versions(admin, found, row)
    foot = gettext("v%d never changes: tasks that have it keep it.")
    return {
        **shown,
        "save_foot": foot % row.version,
        "tabs": _tabs(
            form, {TASKS: str(sum(each.task_count for each in found)), VERSIONS: str(len(versions))}
        ),
        "is_changed": is_changed,
        "version": version,
        "changes": _changes(row.schema, schema) if is_changed else [],
        "of_this": "" if is_changed else _words_of_this(row),
        "fit_words": _fit_words(fits, version),
        "misfits": _misfits(request, fits),
        "moves": [] if is_changed else _moves(request, fits, row),
        "versions": versions,
        "shown_rows": [] if may_edit else read_rows(row.schema),
    }


def _tabs(form: TemplateForm, counts: dict[str, str]) -> list[tuple[str, Any, str, bool]]:
    """The tabs, each with its name, its title, the number of its entries, and whether it is
    open."""
    is_new = TASKS not in counts
    return [
        (name, title, counts.get(name, ""), name == form.tab)
        for name, title in TABS.items()
        if not is_new or name not in (TASKS, VERSIONS)
    ]


def _changes(old: Any, new: Any) -> list[str]:
    are_sound = not fault_of(old) and not fault_of(new)
    return [translate(each) for each in diff(old, new)] if are_sound else []


def _words_of_this(row: Any) -> str:
    """`10 tasks have v1.`"""
    count: int = row.task_count
    words = ngettext(
        "%(count)d task has v%(version)d.", "%(count)d tasks have v%(version)d.", count
    )
    return words % {"count": count, "version": row.version} if count else ""


def _fit_words(fits: Sequence[Fit], version: int) -> list[str]:
    """`13 tasks have an earlier version; 12 of them also fit v3.`"""
    count = sum(fit.count for fit in fits)
    if not count:
        return []
    words = ngettext(
        "%(count)d task has an earlier version; %(fits)d fits v%(version)d as well.",
        "%(count)d tasks have earlier versions; %(fits)d of them also fit v%(version)d.",
        count,
    )
    said = [words % {"count": count, "fits": sum(len(f.fits) for f in fits), "version": version}]
    if any(fit.more for fit in fits):
        text = gettext("There are more: only the first %d of a kind were looked at.")
        said.append(text % MAX_CHECKED)
    return said


def _misfits(request: HttpRequest, fits: Sequence[Fit]) -> list[dict[str, Any]]:
    """The tasks that do not fit, and why for those who may see params."""
    user: Any = request.user
    sees = user.has_perm("dispatch.view_payload")
    hidden = [gettext("Its params do not fit; ask somebody who sees them.")]
    return [
        {
            "url": page_url(fit.model, misfit.task.pk),
            "title": misfit.task.title or misfit.task.pk,
            "whys": [translate(error.named) for error in misfit.errors[:MAX_REASONS]]
            if sees
            else hidden,
        }
        for fit in fits
        for misfit in fit.misfits
    ]


def _moves(request: HttpRequest, fits: Sequence[Fit], row: Template) -> list[Moved]:
    """The links to the plans of moving the tasks that fit, for each kind that this person may
    change."""
    user: Any = request.user
    is_newest = getattr(row, "is_newest", False)
    if row.status != Template.Status.ACTIVE or not is_newest:
        return []
    return [
        Moved(_plan_url(fit, row.version), _move_words(fit))
        for fit in fits
        if fit.fits and user.has_perm(_verb(fit).permission)
    ]


def _verb(fit: Fit) -> Any:
    return task_verbs.VERBS[fit.model.source][task_verbs.VERSION]


def _plan_url(fit: Fit, version: int) -> str:
    asked = {"ids": ",".join(map(str, fit.fits)), "set-version": version}
    url = reverse(PLAN_URL, args=[f"{fit.model.source}-tasks", task_verbs.VERSION])
    return f"{url}?{urlencode(asked, safe=',')}"


def _move_words(fit: Fit) -> str:
    count, kind = len(fit.fits), fit.model._meta
    if count == 1:
        return gettext("Move the %s that fits…") % kind.verbose_name
    values = {"count": count, "kind": kind.verbose_name_plural}
    return gettext("Move the %(count)d %(kind)s that fit…") % values


def _versions(admin: Any, found: Sequence[Template], row: Template) -> list[dict[str, Any]]:
    """The newest versions, each with its tasks and what it changed."""
    return shown_versions(
        found,
        row,
        url=lambda each: page_url(Template, each.pk),
        changes=lambda before, each: _changes(before.schema, each.schema),
        used_by=admin.used_by,
    )


def read_rows(schema: Any) -> list[dict[str, Any]]:
    """The rows for people who may only look; none where rows cannot say the schema."""
    if fault_of(schema) or why_not_rows(schema):
        return []
    return [
        {
            "row": row,
            "kind": translate(ROW_KINDS[row.kind]),
            "limits": " · ".join(row.choices) or _limits(row),
        }
        for row in rows_of(schema)
    ]


def _limits(row: Any) -> str:
    if row.kind not in LIMITS or (row.least is None and row.most is None):
        return ""
    return f"{'' if row.least is None else row.least}–{'' if row.most is None else row.most}"
