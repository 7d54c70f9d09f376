"""Once tasks in the admin: planned by a form whose params part is made from the template."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any, ClassVar

from django import forms
from django.contrib import admin
from django.db.models import Q, QuerySet
from django.http import HttpRequest
from django.urls import reverse
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString
from django.utils.text import capfirst
from django.utils.timezone import localdate
from django.utils.translation import gettext, pgettext_lazy
from django.utils.translation import gettext_lazy as _

from apps.common import clock
from apps.common.admin import CountFreeMixin, VersionedForm, VersionedModelAdmin, reason_action
from apps.common.admin.base import Panel
from apps.common.admin.display import (
    column,
    json_field,
    quota_bar,
    shown_time,
    state_label,
    text_column,
    time_column,
)
from apps.common.admin.filters import ChoiceFilter, DayFilter
from apps.common.admin.key_choice import KeyChoiceField
from apps.common.admin.schema_form import SchemaForm, covered
from apps.common.admin.service import DRAFT
from apps.common.admin.theme import SelectWidget
from apps.common.admin.timeline import Moment
from apps.common.errors import FieldError
from apps.common.json_rules import canonical
from apps.dispatch.admin.dispatches import STATE_COLOURS as DISPATCH_COLOURS
from apps.dispatch.admin.filters import NAMES_URL, TasksFor
from apps.dispatch.models import Dispatch, Executor, OnceTask, Task, Template
from apps.dispatch.rules.params import check_params
from apps.dispatch.services import tasks
from apps.journal.admin import latest_moments
from apps.journal.models import JournalEntry, Source

STATUS_COLOURS = {
    OnceTask.Status.ACTIVE: "success",
    OnceTask.Status.PAUSED: "warning",
    OnceTask.Status.DELETED: "danger",
}
# The list has no room for what the form says of each.
MODE_WORDS = {
    OnceTask.Mode.SINGLE: _("single"),
    OnceTask.Mode.MULTI: _("multi"),
    OnceTask.Mode.BLOCKING: _("blocking"),
}
MOST_DISPATCHES = 10
RECENT = timedelta(days=7)


# Another template asks for other params: that part of the page is drawn anew from what was typed.
_REDRAW = {
    "hx-post": "",
    "hx-include": "closest form",
    "hx-vals": f'{{"{DRAFT}": "1"}}',
    "hx-select": "#params-part",
    "hx-target": "#params-part",
    "hx-swap": "outerHTML",
}


class OnceTaskForm(VersionedForm):
    """The task's own fields, and beside them `params_form` for what its template asks.

    `executors` are those that the operator may address. `shows_params` is off for people who may
    not see params: a stored task then keeps its own.
    """

    executors: ClassVar[QuerySet[Executor]] = Executor.objects.all()
    shows_params: ClassVar[bool] = True

    class Meta:
        model: type[Task] = OnceTask
        fields: tuple[str, ...] = (
            "title",
            "start_at",
            "end_at",
            "mode",
            "dispatch_times",
            "priority",
            "lease_seconds",
            "on_failure",
            "on_expiry",
            "max_rounds",
            "status",
        )

    executor = KeyChoiceField(
        rows=Executor.objects.all(),
        suggestions=NAMES_URL,
        label=_("Executor"),
        help_text=_("The name of a user (uid_…) or group (gid_…)."),
    )
    template = forms.ModelChoiceField(
        queryset=Template.objects.none(),
        required=False,
        label=_("Template"),
        empty_label=_("none: any JSON object"),
        widget=SelectWidget(attrs=_REDRAW),
    )

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.is_new = self.instance.pk is None
        self.initial.setdefault("executor", self.instance.executor_id)
        executor: Any = self.fields.get("executor")
        if executor is not None:
            executor.rows = self.executors
        self._limit_choices()
        self.params_form = self._made_params_form()

    def _limit_choices(self) -> None:
        template: Any = self.fields.get("template")
        if template is not None:
            choices = Q(status=Template.Status.ACTIVE, pk__in=Template.objects.newest())
            template.queryset = Template.objects.filter(choices | Q(pk=self.instance.template_id))
        if "start_at" in self.fields and self.is_new:
            self.fields["start_at"].required = False
            self.fields["start_at"].help_text = _("Empty = now.")
        status: Any = self.fields.get("status")
        if status is not None:
            status.choices = [c for c in status.choices if c[0] != OnceTask.Status.DELETED]

    def _made_params_form(self) -> SchemaForm | None:
        if "title" not in self.fields or not (self.is_new or self.shows_params):
            return None
        template = self.chosen_template()
        schema = None if template is None else template.schema
        stored = None if self.is_new else self.instance.params
        if stored is not None and template is not None and template.pk != self.instance.template_id:
            stored = covered(stored, schema)
        return SchemaForm(
            schema,
            stored=stored,
            check=lambda params: check_params(schema, params),
            data=self.data if self.is_bound else None,
            is_draft=self.is_draft,
        )

    def chosen_template(self) -> Template | None:
        """The template that is chosen in the form at this moment."""
        field: Any = self.fields["template"]
        chosen = self["template"].value()
        try:
            template: Template | None = field.to_python(chosen)
        except forms.ValidationError:
            return None
        return template

    def clean(self) -> dict[str, Any] | None:
        cleaned = super().clean()
        if self.params_form is not None and not self.params_form.is_valid():
            self.add_error(None, gettext("The params are not right yet; see below."))
        return cleaned

    def show(self, errors: Sequence[FieldError]) -> None:
        about_params = [error for error in errors if error.field.startswith("params")]
        others = [error for error in errors if error not in about_params]
        if about_params and self.params_form is None:
            # The messages quote values that this person may not see.
            text = gettext(
                "The stored params do not fit this template; ask somebody who sees them."
            )
            others.append(FieldError("template", "invalid", text))
        elif about_params and self.params_form is not None:
            # Errors can only be added to a form that has been judged.
            self.params_form.full_clean()
            self.params_form.show(about_params)
        super().show(others)

    @property
    def changes(self) -> dict[str, Any]:
        changes = super().changes
        if self.params_form is not None and (
            self.is_new or canonical(self.params_form.params) != canonical(self.instance.params)
        ):
            changes["params"] = self.params_form.params
        return changes


class StatusFilter(ChoiceFilter):
    """Deleted tasks are kept for their history and shown only when asked for."""

    title = _("status")
    parameter = "status"
    options = OnceTask.Status.choices

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        if not self.used_parameters.get(self.parameter):
            return queryset.exclude(status=OnceTask.Status.DELETED)
        return super().queryset(request, queryset)


class ModeFilter(ChoiceFilter):
    title = _("mode")
    parameter = "mode"
    options = OnceTask.Mode.choices


class PeriodFilter(DayFilter):
    """By the day of the start; what started longer ago than a week is shown only when asked for."""

    title = _("start")

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        if not any(self.used_parameters.get(name) for name in self.parameters):
            since = localdate(clock.now()) - RECENT
            self.used_parameters["from_day"] = since.isoformat()

    def bounded(self, rows: QuerySet[Any], side: str, instant: datetime) -> QuerySet[Any]:
        return rows.filter(**{f"start_at__{side}": instant})


class OnceTaskAdmin(CountFreeMixin, VersionedModelAdmin):
    form = OnceTaskForm
    list_display = (
        "shown_title",
        "executor_link",
        "shown_status",
        "mode_word",
        "quota",
        "priority",
        "shown_start_at",
        "shown_end_at",
    )
    list_select_related = ("executor",)
    list_filter: ClassVar[Any] = (TasksFor, StatusFilter, ModeFilter, PeriodFilter)
    list_defer = ("params",)
    search_fields = ("title",)
    search_help_text = _("Part of a title")
    ordering = ("-pk",)
    payload_fields = ("shown_params",)
    actions = ("pause", "resume", "delete_task")

    shown_status = state_label("status", STATUS_COLOURS, _("status"))
    shown_title = text_column("title", _("title"), ordering="title")
    shown_start_at = time_column("start_at", _("start"), ordering="start_at")
    shown_end_at = time_column("end_at", _("end"), ordering="end_at")
    shown_params = json_field("params", _("params"))

    # --- the list ---------------------------------------------------------------------------------
    def prepare_page(self, request: HttpRequest, rows: Sequence[Any]) -> None:
        handed = tasks.handed_of(list(rows))
        for row in rows:
            row.handed = handed[row.pk]

    @column(_("executor"))
    def executor_link(self, task: OnceTask) -> SafeString:
        url = reverse("admin:dispatch_executor_change", args=[task.executor_id])
        return format_html('<a class="text-link" href="{}">{}</a>', url, task.executor.name)

    @column(_("mode"))
    def mode_word(self, task: OnceTask) -> str:
        return str(MODE_WORDS[OnceTask.Mode(task.mode)])

    @column(pgettext_lazy("how many", "handed out"))
    def quota(self, task: Any) -> SafeString:
        return quota_bar(task.handed, task.dispatch_times)

    # --- the form ---------------------------------------------------------------------------------
    def get_fieldsets(self, request: HttpRequest, obj: Any = None) -> Any:
        fieldsets = [
            (None, {"fields": ["title", "executor", "status"]}),
            (_("When"), {"fields": ["start_at", "end_at"]}),
            (
                _("How often, and who goes first"),
                {"fields": ["mode", "dispatch_times", "priority"]},
            ),
            (
                _("What happens when it goes wrong"),
                {"fields": ["lease_seconds", "on_failure", "on_expiry", "max_rounds"]},
            ),
            (_("What to do"), {"fields": ["template"]}),
        ]
        if obj is not None and not self.has_change_permission(request, obj):
            fieldsets[0][1]["fields"] = ["title", "executor_link", "shown_status"]
            if self.has_payload_permission(request, obj):
                fieldsets[-1][1]["fields"].append("shown_params")
        return fieldsets

    def get_form(
        self, request: HttpRequest, obj: Any = None, change: bool = False, **kwargs: Any
    ) -> Any:
        form = super().get_form(request, obj, change=change, **kwargs)
        asked = {
            "executors": Executor.objects.visible_to(request.user),
            "shows_params": self.has_payload_permission(request, obj),
        }
        return type(form.__name__, (form,), asked)

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        is_over = obj is not None and obj.status == OnceTask.Status.DELETED
        return not is_over and super().has_change_permission(request, obj)

    def has_mark_deleted_permission(self, request: HttpRequest) -> bool:
        return self._has_own_permission(request, "delete_oncetask")

    def create(self, request: HttpRequest, form: Any, *, actor: str) -> OnceTask:
        fields = {n: value for n, value in form.cleaned_data.items() if n in OnceTask.editable}
        return tasks.create_task(
            OnceTask, **{**fields, "params": form.params_form.params}, actor=actor
        )

    def update(
        self, request: HttpRequest, row: OnceTask, form: Any, *, version: int, actor: str
    ) -> OnceTask:
        return tasks.update_task(task=row, changes=form.changes, version=version, actor=actor)

    # --- the page ---------------------------------------------------------------------------------
    def panels(self, request: HttpRequest, row: OnceTask) -> list[Panel]:
        handed = tasks.handed_of([row])[row.pk]
        return [
            Panel(_("Handed out"), self._handed(row, handed)),
            *super().panels(request, row),
        ]

    @staticmethod
    def _handed(task: OnceTask, handed: int) -> SafeString:
        """The quota, the latest dispatches, and where the others are."""
        dispatches = Dispatch.objects.filter(source=task.source, task=task.pk).order_by("-pk")
        latest = dispatches.select_related("executor").defer("params", "result")[:MOST_DISPATCHES]
        label = state_label("state", DISPATCH_COLOURS, "")
        rows = format_html_join(
            "",
            '<tr><td><a class="text-link" href="{}">{}</a></td><td>{}</td><td>{}</td>'
            "<td>{}</td></tr>",
            (
                (
                    reverse("admin:dispatch_dispatch_change", args=[dispatch.pk]),
                    dispatch.pk,
                    dispatch.executor.name,
                    label(None, dispatch),
                    shown_time(dispatch.dispatched_at),
                )
                for dispatch in latest
            ),
        )
        if not rows:
            return format_html(
                "<p>{}</p><p>{}</p>",
                quota_bar(handed, task.dispatch_times),
                _("Nobody has it yet."),
            )
        return format_html(
            '<p>{}</p><table class="plain-table"><thead><tr><th>{}</th><th>{}</th><th>{}</th>'
            '<th>{}</th></tr></thead><tbody>{}</tbody></table><p><a class="text-link" '
            'href="{}?source={}&amp;task={}">{}</a></p>',
            quota_bar(handed, task.dispatch_times),
            _("Number"),
            _("Executor"),
            _("State"),
            capfirst(gettext("handed out")),
            rows,
            reverse("admin:dispatch_dispatch_changelist"),
            task.source,
            task.pk,
            _("All dispatches of this task"),
        )

    def timeline(self, request: HttpRequest, row: OnceTask) -> Sequence[Moment]:
        entries = JournalEntry.objects.timeline(Source.PLAN, row.pk)
        return latest_moments(
            entries.filter(type_or_task=f"{row.source}:{row.pk}"),
            shows_payload=self.has_payload_permission(request),
        )

    # --- actions ----------------------------------------------------------------------------------
    @reason_action(
        description=_("Pause"),
        permission="change",
        question=_("They are kept and no longer handed out; open dispatches go on."),
        icon="pause_circle",
        offered=lambda task: task.status == OnceTask.Status.ACTIVE,
    )
    def pause(self, row: OnceTask, *, reason: str, actor: str) -> bool:
        return _set_status(row, OnceTask.Status.PAUSED, reason=reason, actor=actor)

    @reason_action(
        description=_("Resume"),
        permission="change",
        question=_("They are handed out again when they are due."),
        icon="play_circle",
        offered=lambda task: task.status == OnceTask.Status.PAUSED,
    )
    def resume(self, row: OnceTask, *, reason: str, actor: str) -> bool:
        return _set_status(row, OnceTask.Status.ACTIVE, reason=reason, actor=actor)

    @reason_action(
        description=_("Delete"),
        permission="mark_deleted",
        question=_("They are never handed out again and kept for their history. This is final."),
        icon="delete",
        is_dangerous=True,
        offered=lambda task: task.status != OnceTask.Status.DELETED,
    )
    def delete_task(self, row: OnceTask, *, reason: str, actor: str) -> bool:
        return tasks.delete_task(task=row, actor=actor, reason=reason)


def _set_status(row: OnceTask, status: str, *, reason: str, actor: str) -> bool:
    if row.status == status:
        return False
    tasks.update_task(task=row, changes={"status": status}, actor=actor, reason=reason)
    return True


admin.site.register(OnceTask, OnceTaskAdmin)
