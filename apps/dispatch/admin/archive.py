"""The archive in the admin: dispatches that ended and tasks that were over long ago."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.utils.translation import gettext_lazy as _
from django.utils.translation import ngettext_lazy

from apps.common.admin.actions import ReasonAction
from apps.common.admin.columns import ListColumn
from apps.common.admin.display import state_label, text_column, time_column
from apps.common.admin.filters import FormFilter, list_filters
from apps.common.admin.json_fields import json_field
from apps.common.admin.list_head import NextStep
from apps.common.admin.machine_rows import MachineRowAdmin
from apps.common.admin.timeline import Moment
from apps.common.admin.two_tables import TwoTablesAdmin
from apps.common.readers import read_key, read_number
from apps.dispatch.admin.dispatches import DispatchAdmin, dispatch_filters
from apps.dispatch.admin.filters import ExecutorFilter
from apps.dispatch.admin.people import person_column
from apps.dispatch.models import (
    TASK_MODELS,
    ArchivedDispatch,
    ArchivedTask,
    Dispatch,
    Template,
)
from apps.dispatch.services.archive import restore_task
from apps.dispatch.services.filtered import ArchivedDispatchFilters, ArchivedTaskFilters
from apps.journal.admin import latest_moments
from apps.journal.models import Source


class ArchivedStateFilter(FormFilter):
    @property
    def tabs(self) -> Any:
        return [each for each in self.options or () if each[0] != Dispatch.State.OPEN]


class ArchivedDispatchAdmin(DispatchAdmin):
    """The page of archived dispatches, for people who may see dispatches; it has no actions.

    An index finds those of one user, or of one task, newest first, as with the live ones.
    """

    other_model = Dispatch
    when_empty = _("Dispatches come here some days after their end.")
    next_steps = (
        NextStep(
            _("See the dispatches"), "admin:dispatch_dispatch_changelist", "dispatch.view_dispatch"
        ),
    )
    actions = ()
    custom_urls = ()
    tabs_beside = ()
    list_columns = (*DispatchAdmin.list_columns, ListColumn("archived", "shown_archived_at"))
    list_filter = dispatch_filters(ArchivedDispatchFilters, state=ArchivedStateFilter)
    shown_facts = (*DispatchAdmin.shown_facts, "shown_archived_at")

    shown_archived_at = time_column("archived_at", _("older since"))

    def tab_counts(self, request: HttpRequest, others: Mapping[str, str]) -> Mapping[str, int]:
        """No counts: nothing is open."""
        return {}

    def first_rows(self, request: HttpRequest, rows: QuerySet[Any]) -> list[Any]:
        """No rows, for the same reason."""
        return []

    def older_url(self, request: HttpRequest) -> str:
        """No address: this is the archive."""
        return ""

    def has_view_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return self._has_own_permission(request, "view_dispatch")

    def has_operate_permission(self, request: HttpRequest, obj: object = None) -> bool:
        return False

    def found_by_index(
        self, rows: QuerySet[Any], given: Mapping[str, str], term: str
    ) -> Sequence[int] | None:
        if given.get("state") == Dispatch.State.OPEN:
            return []
        return super().found_by_index(rows, given, term)


def _columns_of(row: ArchivedTask) -> Any:
    """A schema with the titles of the columns, params as those of the template."""
    model = TASK_MODELS.get(row.source)
    fields = () if model is None else model._meta.concrete_fields
    titles: dict[str, Any] = {each.attname: {"title": str(each.verbose_name)} for each in fields}
    number = row.body.get("template_id")
    schemas = Template.objects.filter(pk=number if isinstance(number, int) else 0)
    schema = schemas.values_list("schema", flat=True).first()
    shown = schema if isinstance(schema, dict) else {}
    return {"properties": titles | {"params": {**shown, **titles.get("params", {})}}}


class ArchivedTaskAdmin(TwoTablesAdmin, MachineRowAdmin):
    """The page of archived tasks. Seeing or restoring one takes the right to see or change once
    tasks and the same right to rotations."""

    when_empty = _("Tasks come here some days after they are over.")
    next_steps = (
        NextStep(
            _("See the tasks"), "admin:dispatch_oncetask_changelist", "dispatch.view_oncetask"
        ),
    )
    list_display = (
        "shown_title",
        "shown_source",
        "task",
        "executor_link",
        "shown_start_at",
        "shown_end_at",
        "shown_archived_at",
    )
    list_mobile = (
        ("shown_source", "shown_title", "task"),
        ("executor_link", "shown_start_at", "shown_end_at", "shown_archived_at"),
    )
    list_select_related = ("executor",)
    list_filter = list_filters(ArchivedTaskFilters, executor=ExecutorFilter)
    list_defer = ("body",)
    search_help_text = _("Number or person")
    exact_search = (("task", read_number), ("executor__name", read_key))
    payload_fields = ("shown_body",)
    actions = ("restore",)
    fieldsets = (
        (None, {"fields": ("shown_title", "shown_source", "task", "executor_link")}),
        (_("When"), {"fields": ("shown_start_at", "shown_end_at", "shown_archived_at")}),
        (_("As it was"), {"fields": ("shown_body",)}),
    )

    shown_title = text_column("title", _("title"))
    shown_source = state_label("source", {}, _("kind"), ordering=False)
    shown_start_at = time_column("start_at", _("start"))
    shown_end_at = time_column("end_at", _("end"))
    shown_archived_at = time_column("archived_at", _("older since"))
    shown_body = json_field("body", _("columns"), _columns_of)

    def has_view_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return self._may_with_both(request, "view")

    def has_restore_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return self._may_with_both(request, "change")

    def _may_with_both(self, request: HttpRequest, verb: str) -> bool:
        names = (f"{verb}_{model._meta.model_name}" for model in TASK_MODELS.values())
        return all(self._has_own_permission(request, name) for name in names)

    executor_link = person_column

    def elsewhere(self, object_id: str) -> HttpResponse | None:
        """The way to the list: the row of a restored task no longer says which task it was."""
        return HttpResponseRedirect(self.changelist_url())

    def row_label(self, row: ArchivedTask) -> str:
        return f"{row.title} · {row.executor.shown}"

    def timeline(self, request: HttpRequest, row: ArchivedTask) -> Sequence[Moment]:
        return latest_moments(
            Source.PLAN,
            row.task,
            named=f"{row.source}:{row.task}",
            user=request.user,
            shows_payload=self.has_payload_permission(request),
        )

    @ReasonAction(
        description=_("Restore"),
        permission="restore",
        question=_(
            "The tasks come back under their numbers, and paused: nobody gets anything until "
            "somebody resumes them. Repeating tasks have no occurrences before now."
        ),
        done=ngettext_lazy(
            "%d task restored; it is paused.", "%d tasks restored; they are paused."
        ),
        icon="unarchive",
    )
    def restore(self, row: ArchivedTask, *, reason: str, actor: str) -> object:
        model = TASK_MODELS[row.source]
        return restore_task(model, number=row.task, actor=actor, reason=reason)


admin.site.register(ArchivedDispatch, ArchivedDispatchAdmin)
admin.site.register(ArchivedTask, ArchivedTaskAdmin)
