"""API clients in the admin: a form for the terms, and keys that are shown once."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Any

from django import forms
from django.contrib import admin, messages
from django.contrib.admin.utils import unquote
from django.db.models import Q
from django.http import HttpRequest, HttpResponse, HttpResponseBase, HttpResponseRedirect
from django.template.response import TemplateResponse
from django.urls import reverse_lazy
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.text import capfirst
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _
from unfold.widgets import (
    UnfoldAdminCheckboxSelectMultipleWidget,
    UnfoldAdminSelectWidget,
    UnfoldAdminTextareaWidget,
)

from apps.access import services
from apps.access.models import ApiClient, State
from apps.access.rules.clients import TERMS, Scope, validated
from apps.common import clock
from apps.common.admin.actions import CustomUrls, ReasonAction, ReasonForm, actor_of
from apps.common.admin.buttons import Button
from apps.common.admin.display import (
    column,
    label,
    listed,
    plain_time,
    shown_text,
    time_column,
    translate,
)
from apps.common.admin.filters import list_filters
from apps.common.admin.html import joined, noted
from apps.common.admin.key_choice import KeyInput
from apps.common.admin.pages import Panel
from apps.common.admin.service import ServiceForm, ServiceModelAdmin
from apps.common.errors import PlatformError
from apps.common.filtersets import Choice, RowFilters
from apps.journal.admin import RecordedAdmin
from apps.journal.admin.words import CHANGED, Event, register
from apps.journal.models import JournalEntry, Source

STATE_COLOURS = {State.LIVE: "success", State.EXPIRED: "warning", State.REVOKED: "danger"}
SCOPES = [
    (Scope.PULL, _("pull: take dispatches and call back")),
    (Scope.SUBMIT, _("submit: bring jobs in")),
    (Scope.HOLD, _("hold: work on jobs")),
    (Scope.READ, _("read: every GET")),
    (Scope.OPERATE, _("operate: plan and control")),
    (Scope.METRICS, _("metrics: the figures of the whole platform")),
    (Scope.PAYLOAD, _("payload: see passwords and tokens in params, contexts and results")),
]
KEEP_OLD = [
    ("24", _("It works for another 24 hours")),
    ("1", _("It works for another hour")),
    ("168", _("It works for another 7 days")),
    ("0", _("It ends now")),
]
# Where a list cannot be edited it is read as words.
SHOWN_FOR = {
    "scopes": "shown_scopes",
    "executors": "shown_executors",
    "job_types": "shown_job_types",
}

register(
    ApiClient,
    events={
        "client_created": Event(
            _("API key created"), "add_circle", "success", said=_("created {what}")
        ),
        "client_changed": Event(_("API key changed"), "edit", "info", said=CHANGED),
        "client_rotated": Event(_("API key rotated"), "sync", "info", said=_("rotated {what}")),
        "client_revoked": Event(_("API key revoked"), "block", "danger", said=_("revoked {what}")),
    },
    states={State.LIVE: _("live"), State.EXPIRED: _("expired"), State.REVOKED: _("revoked")},
    pages={Source.ACCESS: lambda entry: "access_apiclient"},
)


class NamesField(forms.Field):
    """A list of names, one on each line; blanks around them and empty lines do not count."""

    def to_python(self, value: str | None) -> list[str]:
        lines = (value or "").splitlines()
        return [line.strip() for line in lines if line.strip()]

    def prepare_value(self, value: Any) -> Any:
        return "\n".join(value) if isinstance(value, list) else value

    def has_changed(self, initial: Any, data: Any) -> bool:
        return sorted(set(self.to_python(data))) != (initial or [])


class PickedNamesField(NamesField):
    """A list of names in one box that suggests them, divided by blanks, commas or line ends."""

    def to_python(self, value: str | None) -> list[str]:
        return re.findall(r"[^\s,;]+", value or "")

    def prepare_value(self, value: Any) -> Any:
        return " ".join(value) if isinstance(value, list) else value


class ApiClientForm(ServiceForm):
    scopes = forms.MultipleChoiceField(
        label=_("Scopes"),
        choices=SCOPES,
        widget=UnfoldAdminCheckboxSelectMultipleWidget(choices=SCOPES),
    )
    executors = PickedNamesField(
        label=_("People and groups"),
        required=False,
        widget=KeyInput(
            suggestions=reverse_lazy("admin:dispatch_executor_names"), takes_several=True
        ),
        help_text=_(
            "Names of people (uid_…) and groups (gid_…), divided by blanks; a group stands for its "
            "members. Empty: no limit."
        ),
    )
    job_types = NamesField(
        label=_("Job types"),
        required=False,
        widget=UnfoldAdminTextareaWidget(attrs={"rows": 3}),
        help_text=_("One on each line. Empty: all."),
    )

    class Meta:
        help_texts = {
            "name": _("Whose key it is; the public id is made of it."),
            "rate": _(
                "Maximum rate of requests, as 10/s, 600/m, 5000/h or 100000/d. Empty: no limit."
            ),
            "expires_at": _("Empty: never."),
        }

    def check(self) -> None:
        stored = self.instance.terms()
        agreed = None if self.instance.pk is None else stored
        given = {name: self.cleaned_data[name] for name in TERMS if name in self.cleaned_data}
        validated(replace(stored, **given), now=clock.now(), agreed=agreed)


class RotateForm(ReasonForm):
    """`version` is that of the key which the operator saw, so that no form rotates twice."""

    version = forms.IntegerField(widget=forms.HiddenInput)
    keep_old = forms.ChoiceField(
        label=_("Old key"), choices=KEEP_OLD, widget=UnfoldAdminSelectWidget(choices=KEEP_OLD)
    )


def _in_state(rows: Any, _name: str, state: str) -> Any:
    ended = Q(expires_at__lte=clock.now())
    narrowing = {
        State.LIVE: Q(revoked_at=None) & ~ended,
        State.EXPIRED: Q(revoked_at=None) & ended,
        State.REVOKED: Q(revoked_at__isnull=False),
    }
    return rows.filter(narrowing[State(state)])


class ClientFilters(RowFilters):
    state = Choice(State.choices, label=_("state"), method=_in_state)


def _bound_to(row: Any, field: str) -> SafeString:
    """The names in the field; in lists with a note of those that nothing has."""
    names = getattr(row, field)
    shown = shown_text(listed(names), limit=80) or gettext("all")
    unknown = sorted(set(names) & getattr(row, "unknown", {}).get(field, set()))
    if not unknown:
        return format_html("{}", shown)
    note = gettext("unknown: %s") % shown_text(listed(unknown), limit=80)
    return noted(shown, label(note, "warning"), look="cell-note")


@admin.register(ApiClient)
class ApiClientAdmin(RecordedAdmin, ServiceModelAdmin):
    """Creates, changes, rotates and revokes keys through the services; a new key is shown once.

    The page with the key is the response to the form. A redirect would have to store the key in
    the session.
    """

    form = ApiClientForm
    when_empty = _("Each program or device has an API key of its own.")
    list_display = (
        "shown_name",
        "client_id",
        "shown_state",
        *SHOWN_FOR.values(),
        "rate",
        "shown_expires_at",
        "shown_last_used_at",
    )
    list_mobile = (
        ("shown_state", "shown_name"),
        ("client_id", "shown_last_used_at"),
    )
    list_filter = list_filters(ClientFilters)
    search_fields = ("name", "client_id")
    search_help_text = _("A part of the name or id")
    ordering = ("name", "client_id")
    actions = ("revoke",)
    fieldsets = (
        (None, {"fields": ("name", "scopes")}),
        (
            _("Limits"),
            {"fields": ("executors", "job_types", "rate", "expires_at")},
        ),
    )
    facts_fieldset = (
        _("Key"),
        {
            "fields": (
                "client_id",
                "shown_state",
                "shown_last_used_at",
                "shown_previous_until",
                "shown_revoked_at",
                "shown_created_at",
                "created_by",
            )
        },
    )
    readonly_fields = (*facts_fieldset[1]["fields"], *SHOWN_FOR.values(), "shown_expires_at")

    shown_expires_at = time_column("expires_at", _("expires at"), ordering="expires_at")
    shown_last_used_at = time_column("last_used_at", _("last used at"), ordering="last_used_at")
    shown_previous_until = time_column("previous_valid_until", _("previous key valid until"))
    shown_revoked_at = time_column("revoked_at", _("revoked at"))
    shown_created_at = time_column("created_at", _("created at"))

    # --- the list and the page ------------------------------------------------------------------
    @column(_("name"), ordering="name")
    def shown_name(self, row: ApiClient) -> str:
        return shown_text(row.name, limit=80)

    @column(_("state"))
    def shown_state(self, row: ApiClient) -> SafeString:
        state = row.state(clock.now())
        return label(capfirst(str(state.label)), STATE_COLOURS[state])

    @column(_("scopes"))
    def shown_scopes(self, row: ApiClient) -> str:
        return listed(row.scopes)

    @column(_("people and groups"))
    def shown_executors(self, row: ApiClient) -> SafeString:
        return _bound_to(row, "executors")

    @column(_("job types"))
    def shown_job_types(self, row: ApiClient) -> SafeString:
        return _bound_to(row, "job_types")

    def prepare_page(self, request: HttpRequest, rows: Sequence[Any]) -> None:
        unknown = services.unknown_names(rows)
        for row in rows:
            row.unknown = unknown

    def top_panels(self, request: HttpRequest, row: ApiClient) -> list[Panel]:
        panels = super().top_panels(request, row)
        if warnings := services.warnings_of(row):
            body = joined(warnings, each='<p role="note">{}</p>')
            panels.append(Panel(_("Bound to nothing"), body))
        return panels

    def get_fieldsets(self, request: HttpRequest, obj: ApiClient | None = None) -> Any:
        fieldsets = super().get_fieldsets(request, obj)
        if obj is None:
            return fieldsets
        if not self.has_change_permission(request, obj):
            fieldsets = [
                (title, {"fields": [SHOWN_FOR.get(name, name) for name in options["fields"]]})
                for title, options in fieldsets
            ]
        return (*fieldsets, self.facts_fieldset)

    def has_change_permission(self, request: HttpRequest, obj: ApiClient | None = None) -> bool:
        """A revoked key is read-only; the service rejects a form that was opened before."""
        is_read_only = obj is not None and obj.revoked_at is not None and request.method != "POST"
        return not is_read_only and super().has_change_permission(request, obj)

    # --- writing --------------------------------------------------------------------------------
    def create(self, request: HttpRequest, form: ApiClientForm, *, actor: str) -> ApiClient:
        terms = {name: form.cleaned_data[name] for name in TERMS}
        client, key = services.create_client(**terms, actor=actor)
        request.new_key = key  # type: ignore[attr-defined]
        return client

    def update(
        self,
        request: HttpRequest,
        row: ApiClient,
        form: ApiClientForm,
        *,
        version: int,
        actor: str,
    ) -> ApiClient:
        return services.edit_client(row, **form.changes, version=version, actor=actor)

    def changed_by(self, row: ApiClient) -> str:
        entry = JournalEntry.objects.timeline(Source.ACCESS, row.pk).last()
        return entry.actor if entry else super().changed_by(row)

    def response_add(
        self, request: HttpRequest, obj: ApiClient, post_url_continue: str | None = None
    ) -> HttpResponse:
        key = getattr(request, "new_key", None)
        if key is None:
            text = gettext(
                "The form was sent before, and its key was shown then; rotate it if need be."
            )
            self.message_user(request, text, messages.WARNING)
            return HttpResponseRedirect(self.change_url(obj.pk))
        return self._key_page(request, obj, key)

    @ReasonAction(
        description=_("Revoke"),
        permission="change",
        question=_("The key stops working within a second, everywhere and for ever. Go on?"),
        icon="block",
        is_dangerous=True,
        offered=lambda row: row.revoked_at is None,
    )
    def revoke(self, row: ApiClient, *, reason: str, actor: str) -> bool:
        return services.revoke(row, reason=reason, actor=actor)

    # --- rotating -------------------------------------------------------------------------------
    def get_custom_urls(self) -> CustomUrls:
        rotate = ("<path:object_id>/rotate/", "access_apiclient_rotate", self.rotate_view)
        return (rotate, *super().get_custom_urls())

    def buttons(self, request: HttpRequest, row: ApiClient) -> list[Button]:
        found = super().buttons(request, row)
        if row.revoked_at is None and self.has_change_permission(request, row):
            url = self.url("rotate", row.pk)
            found.insert(0, Button(url=url, text=_("Rotate the key"), icon="sync"))
        return found

    def page_context(self, request: HttpRequest, row: Any, form: Any) -> dict[str, Any]:
        # After adding there is one page only: the key.
        names = ("show_save_and_add_another", "show_save_and_continue")
        return dict.fromkeys(names, row is not None)

    def rotate_view(
        self, request: HttpRequest, object_id: str, *, model_admin: Any
    ) -> HttpResponseBase:
        """Ask what becomes of the old key (GET), then rotate and show the new one (POST)."""
        row = self.existing(request, unquote(object_id), may="change")
        form = RotateForm(request.POST or None, initial={"version": row.version})
        if not form.is_valid():
            return self._page(request, "access/rotate.html", row, form=form)
        row.version = form.cleaned_data["version"]
        try:
            key = services.rotate(
                row,
                actor=actor_of(request),
                reason=form.cleaned_data["reason"],
                keep_old=timedelta(hours=int(form.cleaned_data["keep_old"])),
            )
        except PlatformError as refusal:
            self.message_user(request, translate(refusal.detail), messages.ERROR)
            return HttpResponseRedirect(self.change_url(row.pk))
        return self._key_page(request, services.find(row.client_id), key)

    @staticmethod
    def _previous_until(client: ApiClient) -> str:
        until = client.previous_valid_until
        return plain_time(until) if until and client.keeps_previous(clock.now()) else ""

    def _key_page(self, request: HttpRequest, client: ApiClient, key: str) -> TemplateResponse:
        return self._page(request, "access/key.html", client, key=key)

    def _page(
        self, request: HttpRequest, template: str, client: ApiClient, **more: Any
    ) -> TemplateResponse:
        return self.page(
            request,
            template,
            title=gettext("Key of %(client)s") % {"client": client},
            client=client,
            url=self.change_url(client.pk),
            keeps_previous=self._previous_until(client),
            warnings=services.warnings_of(client),
            **more,
        )

    # --- history --------------------------------------------------------------------------------
