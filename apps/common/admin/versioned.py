"""Edit forms that never overwrite a change made since they were opened."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django import forms
from django.http import HttpRequest, HttpResponseBase
from django.template.response import TemplateResponse
from django.utils.choices import flatten_choices
from django.utils.formats import localize
from django.utils.text import capfirst
from django.utils.timezone import localtime
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from apps.common.admin.actions import actor_of
from apps.common.admin.display import redacted, shown_text
from apps.common.admin.service import ServiceForm, ServiceModelAdmin
from apps.common.errors import Conflict, NotFound

MAX_SHOWN = 500


class VersionedForm(ServiceForm):
    """A form that carries the version of the row that it was filled from."""

    version = forms.CharField(required=False, widget=forms.HiddenInput)

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.initial["version"] = getattr(self.instance, "version", "")

    def is_filled_from(self, row: Any) -> bool:
        """Whether the row is still the one that the form was filled from."""
        return bool(self.data.get("version", "") == str(row.version))

    @property
    def changes(self) -> dict[str, Any]:
        return {name: value for name, value in super().changes.items() if name != "version"}


@dataclass(frozen=True, kw_only=True)
class Difference:
    """A field whose value differs between the form and the row."""

    label: str
    yours: str
    current: str


class Stale(Exception):
    """The form was filled from an older version of the row."""

    def __init__(self, form: VersionedForm, row: Any) -> None:
        super().__init__(f"{row!r} has moved on")
        self.form = form
        self.row = row


class VersionedModelAdmin(ServiceModelAdmin):
    """Forms over models with a `version`.

    A stale form answers 409 with both values of every field that differs, and nothing is saved.
    """

    form = VersionedForm

    def changed_by(self, row: Any) -> str:
        """Who changed the row last, for the conflict page."""
        return getattr(row, "updated_by", "") or gettext("Somebody else")

    def current(self, obj: Any) -> Any:
        """The row as it is now, None when it is gone."""
        return self.model._default_manager.filter(pk=obj.pk).first()

    def get_fields(self, request: HttpRequest, obj: Any = None) -> Any:
        return [name for name in super().get_fields(request, obj) if name != "version"]

    def changeform_view(
        self,
        request: HttpRequest,
        object_id: str | None = None,
        form_url: str = "",
        extra_context: Any = None,
    ) -> Any:
        try:
            return super().changeform_view(request, object_id, form_url, extra_context)
        except Stale as stale:
            return self._conflict_page(request, stale)

    def saved(self, request: HttpRequest, obj: Any, form: VersionedForm) -> Any:
        row = self.current(obj)
        if row is None:
            raise NotFound(gettext("It was deleted by somebody else meanwhile."))
        if not form.is_filled_from(row):
            raise Stale(form, row)
        try:
            return self.update(request, row, form, version=row.version, actor=actor_of(request))
        except Conflict:
            row = self.current(obj)
            if row is not None and not form.is_filled_from(row):
                raise Stale(form, row) from None
            raise

    def _conflict_page(self, request: HttpRequest, stale: Stale) -> HttpResponseBase:
        request.current_app = self.admin_site.name
        context = {
            **self.admin_site.each_context(request),
            "title": _("Changed meanwhile"),
            "subtitle": str(stale.row),
            "opts": self.opts,
            "changed_by": self.changed_by(stale.row),
            "changed_at": getattr(stale.row, "updated_at", None),
            "differences": self.differences(stale.form, stale.row),
            "url": self.change_url(stale.row.pk),
        }
        return TemplateResponse(request, "admin/conflict.html", context, status=409)

    def differences(self, form: VersionedForm, row: Any) -> Sequence[Difference]:
        """The fields whose typed value is not the one the row has now."""
        return [
            Difference(
                label=capfirst(_label(form, name)),
                yours=_shown(form.fields.get(name), value),
                current=_shown(form.fields.get(name), getattr(row, name, None)),
            )
            for name, value in form.changes.items()
        ]


def _label(form: VersionedForm, name: str) -> str:
    if name in form.fields:
        return str(form.fields[name].label or name)
    return str(form.instance._meta.get_field(name).verbose_name)


def _shown(field: forms.Field | None, value: Any) -> str:
    """A value of a form field as a person would say it."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return gettext("yes") if value else gettext("no")
    if isinstance(value, dict | list):
        return shown_text(json.dumps(redacted(value), ensure_ascii=False), limit=MAX_SHOWN)
    if isinstance(value, datetime):
        return str(localize(localtime(value)))
    if isinstance(field, forms.ChoiceField) and not isinstance(field, forms.ModelChoiceField):
        choices: Any = field.choices
        value = dict(flatten_choices(choices)).get(value, value)
    return shown_text(str(value), limit=MAX_SHOWN)
