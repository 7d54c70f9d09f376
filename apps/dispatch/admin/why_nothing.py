"""Why nothing: the page that groups the tasks of a user by what stands against them."""

from __future__ import annotations

from typing import Any

from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse
from django.urls import reverse
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from apps.common.admin.display import label, shown_text, shown_time, translate
from apps.dispatch.admin.explain import colour_of, explain_url, task_label, word_of
from apps.dispatch.admin.preview import title_of, visible_tasks
from apps.dispatch.models import Dispatch, Executor
from apps.dispatch.services.why_nothing import Example, Group, why_nothing


def why_nothing_view(request: HttpRequest, *, model_admin: Any, pk: int) -> HttpResponse:
    """Every task that could be meant, by its first reason, and when that could change."""
    row: Executor | None = model_admin.get_object(request, str(pk))
    if row is None or not model_admin.has_view_permission(request, row) or row.is_group:
        raise PermissionDenied
    found = why_nothing(row)
    shown = [(str(each.task.source), each.task.pk) for one in found.groups for each in one.examples]
    visible = visible_tasks(set(shown), request.user)
    coming = found.next and _example(row, found.next, visible)
    dispatch = Dispatch.objects.defer("params", "result").open_of(row.pk)
    page: HttpResponse = model_admin.page(
        request,
        "admin/why_nothing.html",
        title=_("Why nothing?"),
        executor=row,
        executor_url=model_admin.change_url(row.pk),
        dispatch=dispatch,
        dispatch_title=dispatch and title_of(dispatch, request.user),
        dispatch_url=dispatch and reverse("admin:dispatch_dispatch_change", args=[dispatch.pk]),
        deadline=dispatch and shown_time(dispatch.deadline_at),
        groups=[_shown(row, group, visible) for group in found.groups],
        # One that is hidden has no address.
        next=coming if coming and "url" in coming else None,
        is_something=found.is_something,
        until=found.until and shown_time(found.until),
        more=found.more,
    )
    return page


def _shown(executor: Executor, group: Group, visible: set[tuple[str, int]]) -> dict[str, Any]:
    return {
        "word": label(word_of(group.code), colour_of(group.code)),
        "count": group.count,
        "until": group.until and shown_time(group.until),
        "examples": [_example(executor, each, visible) for each in group.examples],
        "left_out": group.count - len(group.examples),
    }


def _example(executor: Executor, example: Example, visible: set[tuple[str, int]]) -> dict[str, str]:
    task = example.task
    if (str(task.source), task.pk) not in visible:
        return {"title": gettext("not yours to see")}
    return {
        "title": shown_text(task.title, limit=60),
        "label": task_label(task),
        "url": explain_url(executor=executor.name, task=task_label(task)),
        "detail": translate(example.explanation.first.detail),
    }
