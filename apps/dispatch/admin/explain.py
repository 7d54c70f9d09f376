"""Why not: the page that explains a task for a user, and the panels that lead to it; and why
nothing: the page that groups the tasks of a user by what stands against them."""

from __future__ import annotations

from datetime import datetime
from itertools import islice
from typing import Any, NamedTuple
from urllib.parse import urlencode

from django import forms
from django.core.exceptions import PermissionDenied, ValidationError
from django.http import HttpRequest, HttpResponse
from django.template.loader import render_to_string
from django.urls import reverse
from django.utils.safestring import SafeString
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _
from unfold.widgets import UnfoldAdminSelectWidget, UnfoldAdminTextInputWidget

from apps.common import clock
from apps.common.admin.display import label, shown_text, shown_time, translate
from apps.common.admin.html import page_url
from apps.common.admin.key_choice import KeyChoiceField, KeyInput
from apps.common.admin.pages import OtherForm, Panel
from apps.common.admin.parts import part_of, read_wholes
from apps.common.errors import Invalid, NotFound
from apps.common.messages import Reason
from apps.common.readers import read_instant
from apps.dispatch.admin.filters import NAMES_URL
from apps.dispatch.admin.people import person, with_titles
from apps.dispatch.admin.preview import may_view, title_of, visible_tasks
from apps.dispatch.models import (
    TASK_MODELS,
    Dispatch,
    Executor,
    OnceTask,
    OperatorScope,
    RotateTask,
    Task,
)
from apps.dispatch.rules import explain as rules
from apps.dispatch.rules import life, policy
from apps.dispatch.rules.explain import Explanation
from apps.dispatch.rules.task import read_label
from apps.dispatch.services.executor_state import state_of
from apps.dispatch.services.explain import Example, Group, explain, why_nothing
from apps.dispatch.services.parts import parts
from apps.dispatch.services.tasks import find_task

EXPLAIN_URL = "admin:dispatch_executor_explain"
FORM = "why-not"
MAX_CHOICES = 100
MAX_OCCURRENCES = 5

WORDS = {
    policy.OK: _("can have it"),
    rules.NOT_DUE: _("not due"),
    rules.ENDED: _("ended"),
    life.PAUSED: _("paused"),
    life.DELETED: _("deleted"),
    rules.EXECUTOR_DISABLED: _("person disabled"),
    rules.NOT_MEMBER: _("not addressed"),
    rules.QUOTA_USED: _("quota used up"),
    policy.ALREADY_TAKEN: _("had already"),
    policy.COOLING_DOWN: _("cooling down"),
    policy.IN_FLIGHT: _("open dispatch"),
    rules.OUTSIDE_WINDOW: _("outside the window"),
    rules.MISFIRE_SKIPPED: _("missed"),
    rules.UNREADABLE: _("cannot be read"),
}
# Time alone does away with these.
PASSING = {rules.NOT_DUE, policy.COOLING_DOWN, policy.IN_FLIGHT}


class TaskField(forms.CharField):
    """A task by its kind and number, like once:12; the value is the row, if it may be seen."""

    def __init__(self, user: Any, **kwargs: Any) -> None:
        super().__init__(
            max_length=40,
            widget=UnfoldAdminTextInputWidget(attrs={"spellcheck": "false"}),
            **kwargs,
        )
        self.user = user

    def clean(self, value: Any) -> Any:
        text = super().clean(value)
        label = read_label(text)
        if label is None:
            raise ValidationError(gettext("Write kind and number, like once:12 or rotate:3."))
        source, pk = label
        model, bound = TASK_MODELS[source], OperatorScope.names_of(self.user)
        unknown = gettext("There is no task %s.") % f"{source}:{pk}"
        if not may_view(self.user, model):
            raise ValidationError(unknown)
        try:
            return find_task(model, pk, bound=bound, also_deleted=True)
        except NotFound as error:
            raise ValidationError(unknown) from error


class ExplainForm(forms.Form):
    def __init__(self, user: Any, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.fields["executor"] = KeyChoiceField(
            rows=Executor.objects.visible_to(user).users(),
            title="title",
            suggestions=NAMES_URL,
            label=_("Who"),
            help_text=_("The name of a person (uid_…)."),
        )
        self.fields["task"] = TaskField(
            user, label=_("Task"), help_text=_("Kind and number, like once:12 or rotate:3.")
        )


class ReasonLine(NamedTuple):
    word: SafeString
    detail: str
    until: SafeString | None


def explain_url(**given: Any) -> str:
    return f"{reverse(EXPLAIN_URL)}?{urlencode(given)}"


def task_label(task: Task) -> str:
    return f"{task.source}:{task.pk}"


def why_not_of_task(task: Task) -> Panel:
    """The panel of a task's page that asks for the executor to explain it for."""
    box = KeyInput(suggestions=NAMES_URL, attrs={"form": FORM, "aria-label": _("Who")})
    return _why_not(
        box=box.render("executor", ""),
        hidden=[("task", task_label(task))],
        lead=_("Why does somebody get it, or not?"),
    )


def why_not_of_user(request: HttpRequest, executor: Executor) -> Panel:
    """The panel of a user's page that asks for one of the tasks that reach it."""
    choices = [(task_label(task), _choice(task)) for task in reaching(executor, request.user)]
    box = UnfoldAdminSelectWidget(choices=choices, attrs={"form": FORM, "aria-label": _("Task")})
    return _why_not(
        box=box.render("task", "") if choices else "",
        hidden=[("executor", executor.name)],
        lead=_("Why do they get a task, or not?"),
        other_url=explain_url(executor=executor.name),
        all_url=reverse("admin:dispatch_executor_why", args=[executor.pk]),
    )


def _why_not(**asked: Any) -> Panel:
    body = render_to_string("admin/includes/why_not.html", {"form": FORM, **asked})
    return Panel("", body, OtherForm(FORM, reverse(EXPLAIN_URL)))


def _choice(task: Task) -> str:
    return f"{shown_text(task.title, limit=60)} · {task_label(task)}"


def reaching(executor: Executor, user: Any) -> list[Any]:
    """The latest visible tasks addressed to the executor or its groups."""
    owners = state_of(executor.pk).owners
    found: list[Any] = []
    for model in TASK_MODELS.values():
        if may_view(user, model):
            tasks: Any = model.objects.visible_to(user).not_deleted().filter(executor__in=owners)
            found += tasks.order_by("-pk").defer("params")[:MAX_CHOICES]
    return found


def explain_view(request: HttpRequest, *, model_admin: Any) -> HttpResponse:
    """The form, and the answer once both a user and a task are named in the address."""
    if not model_admin.has_view_permission(request):
        raise PermissionDenied
    is_asked = {"executor", "task"} <= set(request.GET)
    form = ExplainForm(request.user, request.GET if is_asked else None, initial=request.GET.dict())
    instant, user = request.GET.get("occurrence_at"), request.user
    answer = _answer(form, instant, user) if is_asked else {}
    page: HttpResponse = model_admin.page(
        request, "admin/explain.html", title=_("Why not?"), form=form, **answer
    )
    return page


def _answer(form: ExplainForm, occurrence: str | None, user: Any) -> dict[str, Any]:
    if not form.is_valid():
        return {}
    executor, task = form.cleaned_data["executor"], form.cleaned_data["task"]
    try:
        explanation = explain(executor=executor, task=task, occurrence_at=_instant(occurrence))
    except Invalid as error:
        form.add_error(None, translate(error.detail))
        return {}
    return {
        "executor_name": shown_text(executor.title or executor.name, limit=80),
        "person": person(executor),
        "task": task,
        "task_title": shown_text(task.title, limit=80),
        "task_label": task_label(task),
        "task_url": page_url(type(task), task.pk),
        "part_of": _part_of(task, user),
        "explanation": explanation,
        "due": None if explanation.occurrence_at is None else shown_time(explanation.occurrence_at),
        "lines": [_line(reason, executor, task) for reason in explanation.reasons],
        "others": _others(executor, task, explanation),
    }


def _part_of(task: Task, user: Any) -> SafeString | None:
    if not isinstance(task, OnceTask):
        return None
    read_wholes([task], parts, user)
    return part_of(task)


def _instant(text: str | None) -> datetime | None:
    if not text:
        return None
    at = read_instant(text)
    if not 1970 <= at.year < 9998:
        raise Invalid(gettext("%s is not an instant.") % text[:40])
    return at


def _labelled(code: str) -> SafeString:
    """The reason in a word or two: green for none, yellow for what passes by itself."""
    colour = "success" if code == policy.OK else "warning" if code in PASSING else "danger"
    return label(str(WORDS[code]), colour)


def _line(reason: Reason, executor: Executor, task: Any) -> ReasonLine:
    until = None if reason.until is None else shown_time(reason.until)
    detail = with_titles(reason.detail, executor, task.executor)
    return ReasonLine(_labelled(reason.code), detail, until)


def _others(
    executor: Executor, task: Any, explanation: Explanation
) -> list[tuple[str, SafeString]]:
    """Further occurrences of a rotation to ask about."""
    if not isinstance(task, RotateTask):
        return []
    now = clock.now()
    instants = [*task.due(now).occurrences[-MAX_OCCURRENCES:]]
    instants += [at for at in islice(task.recurrence.after(now), MAX_OCCURRENCES) if at > now]
    return [
        (
            explain_url(
                executor=executor.name, task=task_label(task), occurrence_at=at.isoformat()
            ),
            shown_time(at, also=task.recurrence.zone),
        )
        for at in instants
        if at != explanation.occurrence_at
    ]


# --- why nothing --------------------------------------------------------------------------------
def why_nothing_view(request: HttpRequest, *, model_admin: Any, pk: int) -> HttpResponse:
    """All tasks that the executor could be meant to get, by their first reason against it and when
    that could change."""
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
        person=person(row),
        dispatch=dispatch,
        dispatch_title=dispatch and title_of(dispatch, request.user),
        dispatch_url=dispatch and page_url(Dispatch, dispatch.pk),
        deadline=dispatch and shown_time(dispatch.deadline_at),
        groups=[_shown(row, group, visible) for group in found.groups],
        # A hidden task has no address.
        next=coming if coming and "url" in coming else None,
        is_something=found.is_something,
        until=found.until and shown_time(found.until),
        more=found.more,
    )
    return page


def _shown(executor: Executor, group: Group, visible: set[tuple[str, int]]) -> dict[str, Any]:
    return {
        "word": _labelled(group.code),
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
        "detail": with_titles(example.explanation.first.detail, executor),
    }
