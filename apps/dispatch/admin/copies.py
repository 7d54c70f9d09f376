"""A new task from another one: *Copy and edit* and *Make it repeat* lose nothing that is stored or
typed. Both send the form of the task to the page that adds one, which then shows it as a draft."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, NamedTuple

from django.http import HttpRequest
from django.urls import reverse
from django.utils.functional import Promise
from django.utils.timezone import get_current_timezone_name
from django.utils.translation import gettext_lazy as _

from apps.common import clock, sent_forms
from apps.common.admin.service import DRAFT
from apps.common.errors import NotFound
from apps.dispatch.admin.preview import may_view
from apps.dispatch.admin.rule_form import EVERY_DAYS, MORNING
from apps.dispatch.admin.task_form import DATE, RULE, TaskForm
from apps.dispatch.models import TASK_MODELS, OperatorScope, RotateTask, Task
from apps.dispatch.rules.task import read_label
from apps.dispatch.services.tasks import find_task

COPY = "copy"


class CopyButton(NamedTuple):
    """`url` takes the form of the task, whose copy repeats as `repeats` says."""

    url: str
    repeats: str
    text: str | Promise


def copy_buttons(task: Task, kinds: Collection[type[Task]]) -> list[CopyButton]:
    """The buttons that copy a task into each kind that this person may plan."""
    model = type(task)
    ways: list[tuple[type[Task], str, str | Promise]] = [
        (model, RULE if model is RotateTask else DATE, _("Copy and edit"))
    ]
    if model is not RotateTask:
        ways.append((RotateTask, RULE, _("Make it repeat")))
    return [
        CopyButton(f"{_add_url(kind)}?{COPY}={task.source}:{task.pk}", repeats, text)
        for kind, repeats, text in ways
        if kind in kinds
    ]


def _add_url(model: type[Task]) -> str:
    return reverse(f"admin:dispatch_{model._meta.model_name}_add")


def copied_task(request: HttpRequest) -> Any:
    """The task that the address names, if this person may see it; None for none."""
    label = read_label(request.GET.get(COPY, ""))
    if label is None:
        return None
    source, pk = label
    if not may_view(request.user, TASK_MODELS[source]):
        return None
    try:
        bound = OperatorScope.names_of(request.user)
        return find_task(TASK_MODELS[source], pk, bound=bound, also_deleted=True)
    except NotFound:
        return None


def values_of_copy(task: Any, model: type[Task]) -> dict[str, Any]:
    """The first values in the form of a copy: all of the task, except a start that is over."""
    if task is None:
        return {}
    form: Any = TaskForm
    names = (*form.Meta.fields, "time_zone", "misfire", "misfire_limit")
    values = {name: getattr(task, name) for name in names if hasattr(task, name)}
    values |= {"executor": task.executor_id, "template": task.template_id}
    values["status"] = Task.Status.ACTIVE
    if model is not RotateTask and task.start_at <= clock.now():
        del values["start_at"]
    return values


def complete_draft(request: HttpRequest) -> None:
    """Add the fields that the form of a stored task lacks when it is sent to the page that adds
    one."""
    repeats = request.POST.get(DRAFT)
    if repeats not in (DATE, RULE) or "repeats" in request.POST:
        return
    sent = request.POST.copy()
    usual = {
        "repeats": repeats,
        "every": EVERY_DAYS,
        "every_days": "1",
        "at": request.POST.get("start_at_1", "")[:5] or MORNING,
        "time_zone": get_current_timezone_name(),
        "misfire": RotateTask.Misfire.SKIP.value,
        "misfire_limit": "10",
        "once": sent_forms.new_number(),
    }
    for name, value in usual.items():
        if name not in sent:
            sent[name] = value
    request.POST = sent  # type: ignore[assignment]
