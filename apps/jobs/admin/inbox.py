"""The inbox in the admin: rows of other programs of which no job could be made, to be corrected or
discarded."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from django import forms
from django.contrib import admin, messages
from django.core.exceptions import ValidationError
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.utils.translation import gettext, ngettext_lazy
from django.utils.translation import gettext_lazy as _
from unfold.widgets import UnfoldBooleanSwitchWidget

from apps.common.admin.actions import ReasonAction, ReasonForm
from apps.common.admin.display import column, error_column, shown_text, time_column, translate
from apps.common.admin.filters import list_filters
from apps.common.admin.json_text import JsonTextField, Typed, read_json
from apps.common.admin.service import ServiceForm, ServiceModelAdmin
from apps.common.admin.timeline import Moment
from apps.common.errors import PlatformError
from apps.common.filtersets import Key, RowFilters
from apps.common.masking import redact
from apps.jobs.admin.rights import RightsOfJobs
from apps.jobs.models import InboxRow
from apps.jobs.services import inbox
from apps.journal.admin.entries import latest_moments
from apps.journal.models import Source

_HINTS = {
    "run_at": _("Empty: now."),
    "priority": _("-100 to 100, higher goes first. Empty: the type's."),
}


class CorrectForm(ServiceForm):
    """The form of a refused row, as the program wrote it. `context` is shown to people who may see
    it."""

    unique_job = forms.BooleanField(
        label=_("Unique"), required=False, widget=UnfoldBooleanSwitchWidget()
    )
    reason = ReasonForm.base_fields["reason"]

    class Meta:
        model = InboxRow
        fields = ("type", "job_key", "user_id", "priority", "run_at", "unique_job", "context")

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        for name, text in _HINTS.items():
            if name in self.fields:
                self.fields[name].help_text = text
        if "context" in self.fields:
            stored, shown = _context(self.instance)
            self.fields["context"] = JsonTextField(
                label=_("Context"), redacts=True, stored=stored, required=False
            )
            self.initial["context"] = shown

    @property
    def changes(self) -> dict[str, Any]:
        """The changes by column; the context as the text that the table has."""
        changes = {name: value for name, value in super().changes.items() if name != "reason"}
        if "context" in changes:
            changes["context"] = json.dumps(changes["context"] or {}, ensure_ascii=False)
        return changes


def _context(row: InboxRow) -> tuple[Any, Any]:
    """The JSON value, None where the text is none; and what a form shows of it."""
    if row.is_too_large:
        return None, Typed(_text(row))
    try:
        stored = read_json(row.context or "{}")
    except ValidationError:
        return None, Typed(redact(row.context))
    return stored, stored


def _text(row: InboxRow) -> str:
    """The context as text, of a long one the beginning, without secrets."""
    # To search megabytes for secrets takes a processor for seconds.
    text = row.context or ""
    return shown_text(redact(shown_text(text) if row.is_too_large else text))


class InboxFilters(RowFilters):
    type = Key(label=_("type"))


class InboxAdmin(RightsOfJobs, ServiceModelAdmin):
    """The refused rows, with the rights of jobs; other rows wait a second at most."""

    form = CorrectForm
    when_empty = _("No row of the inbox was refused.")
    list_display = ("id", "type", "job_key", "shown_created", "shown_refused", "shown_error")
    list_mobile = (("type", "job_key"), ("shown_refused", "shown_error"))
    list_filter = list_filters(InboxFilters)
    list_defer = ("context",)
    list_is_counted = False
    ordering = ("-pk",)
    sortable_by = ()
    readonly_fields = ("wrong_now", "shown_created", "shown_refused", "shown_context")
    fieldsets = (
        (None, {"fields": ("wrong_now", "shown_created", "shown_refused")}),
        (
            _("The row"),
            {
                "fields": (
                    ("type", "job_key"),
                    ("user_id", "priority"),
                    "run_at",
                    "unique_job",
                    "context",
                    "reason",
                )
            },
        ),
    )
    payload_fields = ("context", "shown_context")
    actions = ("discard",)

    shown_created = time_column("created_at", _("created"))
    shown_refused = time_column("refused_at", _("refused"))
    shown_error = error_column("error", _("error"))

    @column(_("context"))
    def shown_context(self, row: InboxRow) -> str:
        return _text(row)

    @column(_("error"))
    def wrong_now(self, row: InboxRow) -> str:
        """Types and schemas may have changed since."""
        try:
            inbox.require_right(row)
        except PlatformError as error:
            return shown_text(redact(translate(error.detail)))
        return gettext("Nothing is wrong with it any more. Press Correct, and it becomes a job.")

    def get_queryset(self, request: HttpRequest) -> QuerySet[Any]:
        return super().get_queryset(request).filter(refused_at__isnull=False)

    def get_fieldsets(self, request: HttpRequest, obj: Any = None) -> Any:
        if self.has_change_permission(request, obj):
            return super().get_fieldsets(request, obj)
        # Fields that are only read are not shown by the form, which masks secrets.
        (_none, head), (title, row) = super().get_fieldsets(request, obj)
        swapped = {"context": "shown_context"}
        fields = [swapped.get(name, name) for name in row["fields"] if name != "reason"]
        return [(None, head), (title, {"fields": fields})]

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return self.has_operate_permission(request, obj)

    def timeline(self, request: HttpRequest, row: InboxRow) -> Sequence[Moment]:
        shows = self.has_payload_permission(request, row)
        return latest_moments(Source.JOB, row.pk, user=request.user, shows_payload=shows)

    def changeform_view(
        self,
        request: HttpRequest,
        object_id: str | None = None,
        form_url: str = "",
        extra_context: Any = None,
    ) -> Any:
        words = {
            "may_edit": self.has_change_permission(request),
            "save_words": gettext("Correct"),
            "save_foot": gettext("It becomes a job within seconds."),
        }
        return super().changeform_view(
            request, object_id, form_url, {**words, **(extra_context or {})}
        )

    def update(
        self, request: HttpRequest, row: InboxRow, form: Any, *, version: int, actor: str
    ) -> InboxRow:
        reason = form.cleaned_data["reason"]
        return inbox.correct(
            row=row, version=version, changes=form.changes, actor=actor, reason=reason
        )

    def response_change(self, request: HttpRequest, obj: Any) -> HttpResponse:
        text = gettext("Row %d was corrected. It becomes a job within seconds.") % obj.pk
        self.message_user(request, text, messages.SUCCESS)
        return HttpResponseRedirect(self.changelist_url())

    @ReasonAction(
        description=_("Discard"),
        permission="operate",
        question=_("No job is made. The journal keeps what the program wrote."),
        done=ngettext_lazy("%d row discarded.", "%d rows discarded."),
        icon="delete",
        is_dangerous=True,
    )
    def discard(self, row: InboxRow, *, reason: str, actor: str) -> object:
        return inbox.discard(row=row, actor=actor, reason=reason) is None


admin.site.register(InboxRow, InboxAdmin)
