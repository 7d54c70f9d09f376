"""Actions on many tasks, or on the one of the page: pause, resume, shift, copy, delete."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from django import forms
from django.core.exceptions import ValidationError
from django.db.models import QuerySet
from django.http import HttpRequest
from django.utils.functional import Promise
from django.utils.translation import gettext_lazy as _
from unfold.widgets import UnfoldAdminTextInputWidget

from apps.common.admin.actions import ActionResult, OnceForm, ReasonAction
from apps.common.admin.display import translate
from apps.common.admin.key_choice import KeyChoicesField
from apps.common.errors import Invalid
from apps.dispatch.admin.filters import NAMES_URL
from apps.dispatch.models import Executor, Task
from apps.dispatch.rules import plan
from apps.dispatch.rules import task_verbs as verbs
from apps.dispatch.rules.shift import parse_shift
from apps.dispatch.services import bulk

MAX_EXECUTORS = 100
# The actions of both kinds of tasks have the same names.
_VERBS = verbs.VERBS[plan.ONCE]


class ShiftForm(OnceForm):
    by = forms.CharField(
        label=_("Shift by"),
        max_length=40,
        widget=UnfoldAdminTextInputWidget(attrs={"placeholder": "+2h", "spellcheck": "false"}),
        help_text=_("+2h is later, -30m earlier; also +1d12h or +1w. A day is 24 hours."),
    )

    def clean_by(self) -> timedelta:
        text: str = self.cleaned_data["by"]
        try:
            return parse_shift(text)
        except Invalid as error:
            raise ValidationError(translate(error.detail)) from error


class CopyForm(OnceForm):
    executors = KeyChoicesField(
        rows=Executor.objects.none(),
        suggestions=NAMES_URL,
        limit=MAX_EXECUTORS,
        label=_("For"),
        help_text=_("Names of people (uid_…) or groups (gid_…), divided by blanks or commas."),
    )

    def __init__(self, *args: Any, request: HttpRequest, **kwargs: Any) -> None:
        super().__init__(*args, request=request, **kwargs)
        chosen: Any = self.fields["executors"]
        chosen.rows = Executor.objects.visible_to(request.user)


def shift_action(question: str | Promise) -> Any:
    """The action `shift`; the question describes what it moves."""

    def shift(
        admin: Any,
        rows: QuerySet[Any],
        *,
        by: timedelta,
        reason: str,
        actor: str,
        once: str,
    ) -> ActionResult:
        params = {"shift_seconds": round(by.total_seconds())}
        outcome = bulk.change(rows, verbs.SHIFT, params, actor=actor, reason=reason, once=once)
        return _named(admin, rows, outcome)

    return ReasonAction(
        description=_("Shift"),
        permission="change",
        question=question,
        icon="update",
        offered=lambda task: task.status != Task.Status.DELETED,
        form=ShiftForm,
        verb=_VERBS[verbs.SHIFT],
        at_once=True,
    )(shift)


@ReasonAction(
    description=_("Pause"),
    permission="change",
    question=_("While paused, nothing is handed out. Open dispatches continue."),
    icon="pause_circle",
    offered=lambda task: task.status == Task.Status.ACTIVE,
    at_once=True,
    verb=_VERBS[verbs.PAUSE],
)
def pause(admin: Any, rows: QuerySet[Any], *, reason: str, actor: str) -> ActionResult:
    return _named(admin, rows, bulk.change(rows, verbs.PAUSE, actor=actor, reason=reason))


@ReasonAction(
    description=_("Resume"),
    permission="change",
    question=_("They are handed out again when they are due."),
    icon="play_circle",
    offered=lambda task: task.status == Task.Status.PAUSED,
    at_once=True,
    is_harmless=True,
    verb=_VERBS[verbs.RESUME],
)
def resume(admin: Any, rows: QuerySet[Any], *, reason: str, actor: str) -> ActionResult:
    return _named(admin, rows, bulk.change(rows, verbs.RESUME, actor=actor, reason=reason))


@ReasonAction(
    description=_("Copy"),
    permission="add",
    question=_(
        "Plans a copy for each of these people and groups, with the same "
        "times, params and rules. The originals do not change; each copy "
        "starts with its full quota."
    ),
    icon="content_copy",
    offered=lambda task: task.status != Task.Status.DELETED,
    form=CopyForm,
    at_once=True,
)
def copy(
    admin: Any,
    rows: QuerySet[Any],
    *,
    executors: list[Executor],
    reason: str,
    actor: str,
    once: str,
) -> ActionResult:
    return _named(admin, rows, bulk.copy(rows, executors, actor=actor, reason=reason, once=once))


@ReasonAction(
    description=_("Delete"),
    permission="mark_deleted",
    question=_("They are never handed out again and kept for their history."),
    icon="delete",
    offered=lambda task: task.status != Task.Status.DELETED,
    at_once=True,
    verb=_VERBS[verbs.DELETE],
)
def delete_task(admin: Any, rows: QuerySet[Any], *, reason: str, actor: str) -> ActionResult:
    return _named(admin, rows, bulk.change(rows, verbs.DELETE, actor=actor, reason=reason))


def _named(admin: Any, rows: QuerySet[Any], outcome: bulk.BulkResult) -> ActionResult:
    """The outcome with the names of the tasks."""
    refused = {refusal.task for refusal in outcome.refused}
    labels = {row.pk: admin.row_label(row) for row in rows.filter(pk__in=refused)}
    skipped = [
        (
            " → ".join(filter(None, [labels.get(left.task, str(left.task)), left.executor])),
            None if left.why is None else translate(left.why),
        )
        for left in outcome.refused
    ]
    return ActionResult(done=outcome.done, skipped=skipped)
