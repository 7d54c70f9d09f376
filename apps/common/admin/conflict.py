"""The page that answers a form whose row somebody has changed since it was filled: nothing is
saved, and both values of each field that differs stand side by side.

A form of a row with a version carries that (`service.py`); one of Django's own rows, such as an
account, a digest of what it showed.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django import forms
from django.db.models import Manager, Model, QuerySet
from django.http import HttpRequest, HttpResponse
from django.utils.choices import flatten_choices
from django.utils.crypto import salted_hmac
from django.utils.text import capfirst
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from apps.common.admin.base import PlatformModelAdmin
from apps.common.admin.display import listed, plain_time, shown_actor, shown_text
from apps.common.admin.durations import DurationField, written
from apps.common.masking import redact

MAX_SHOWN = 500
# Columns that no form of the row shows: a sign-in changes the row, too.
_NEVER_SHOWN = ("password", "last_login", "date_joined")


@dataclass(frozen=True, kw_only=True)
class Difference:
    """A field whose value differs between the form and the row."""

    label: str
    yours: str
    current: str


class ConflictPage(PlatformModelAdmin):
    """Answers 409 for a form that has `newer`: the row as it is now."""

    def changed_by(self, row: Any) -> str:
        """The person who changed the row last, for the conflict page."""
        return getattr(row, "updated_by", "") or gettext("Somebody else")

    def render_change_form(
        self, request: HttpRequest, context: dict[str, Any], *args: Any, **kwargs: Any
    ) -> HttpResponse:
        form = context["adminform"].form
        if getattr(form, "newer", None) is not None:
            return self._conflict_page(request, form)
        return super().render_change_form(request, context, *args, **kwargs)

    def _conflict_page(self, request: HttpRequest, form: Any) -> HttpResponse:
        changed_at = getattr(form.newer, "updated_at", None)
        return self.page(
            request,
            "admin/conflict.html",
            status=409,
            title=_("Changed meanwhile"),
            subtitle=str(form.newer),
            changed_by=shown_actor(self.changed_by(form.newer)),
            changed_at=None if changed_at is None else plain_time(changed_at),
            differences=differences(form),
            url=self.change_url(form.newer.pk),
        )


class SeenForm(forms.ModelForm):  # type: ignore[type-arg]
    """A form of a row without a version. It is valid only if the row still has what the form
    showed."""

    version = forms.CharField(required=False, widget=forms.HiddenInput)
    newer: Any = None

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        if self.instance.pk is None:
            del self.fields["version"]
        else:
            self.initial["version"] = digest_of(self.instance)

    @property
    def changes(self) -> dict[str, Any]:
        """The typed values that the row does not have."""
        known = self.cleaned_data
        return {name: known[name] for name in self.changed_data if name in known}

    def clean(self) -> dict[str, Any] | None:
        cleaned = super().clean()
        if self.instance.pk is not None:
            # Until the end of the transaction of the page, so that of two at once one comes second.
            rows = type(self.instance)._base_manager.select_for_update()
            row = rows.filter(pk=self.instance.pk).first()
            if row is None or digest_of(row) != self.data.get(self.add_prefix("version"), ""):
                self.cleaned_data.pop("version", None)
                self.newer = row
                self.add_error(None, gettext("Somebody else has changed it since you opened it."))
        return cleaned


def digest_of(row: Model) -> str:
    """What the row has that forms show. With a key, so that nobody learns from it what is hidden
    from them."""
    columns = {
        field.name: str(field.value_from_object(row))
        for field in row._meta.fields
        if field.editable and field.name not in _NEVER_SHOWN
    }
    ties = {
        tie.name: sorted(each.pk for each in tie.value_from_object(row))
        for tie in row._meta.many_to_many
    }
    text = json.dumps([columns, ties], sort_keys=True, default=str)
    return salted_hmac("apps.common.admin.conflict", text, algorithm="sha256").hexdigest()[:32]


def differences(form: Any) -> list[Difference]:
    """The fields whose typed value is not the one the row has now."""
    return [
        Difference(
            label=capfirst(_label(form, name)),
            yours=_shown(form.fields.get(name), value),
            current=_shown(form.fields.get(name), getattr(form.newer, name, None)),
        )
        for name, value in form.changes.items()
    ]


def changed_words(form: Any, before: Mapping[str, Any]) -> str:
    """`Priority 0 → 50.`: the fields that were changed, but for JSON."""
    one = gettext("%(field)s %(old)s → %(new)s.")
    return " ".join(
        one
        % {
            "field": capfirst(_label(form, name)),
            "old": _shown(form.fields[name], before.get(name)) or "–",
            "new": _shown(form.fields[name], value) or "–",
        }
        for name, value in form.changes.items()
        if not isinstance(value, dict | list)
    )


def _label(form: Any, name: str) -> str:
    if name in form.fields:
        return str(form.fields[name].label or name)
    return str(form.instance._meta.get_field(name).verbose_name)


def _shown(field: forms.Field | None, value: Any) -> str:
    """A value of a form field as a person would say it."""
    if value is None:
        return ""
    if isinstance(getattr(field, "widget", None), forms.PasswordInput):
        # Typed, and never shown.
        return "…"
    if isinstance(value, Manager | QuerySet):
        value = listed(value.all())
    if isinstance(value, bool):
        return gettext("yes") if value else gettext("no")
    if isinstance(value, dict | list):
        return shown_text(json.dumps(redact(value), ensure_ascii=False), limit=MAX_SHOWN)
    if isinstance(value, datetime):
        return plain_time(value)
    if isinstance(field, DurationField):
        return written(value)
    if isinstance(field, forms.ChoiceField) and not isinstance(field, forms.ModelChoiceField):
        choices: Any = field.choices
        value = dict(flatten_choices(choices)).get(value, value)
    return shown_text(redact(str(value)), limit=MAX_SHOWN)
