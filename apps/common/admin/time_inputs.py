"""Inputs of times, which name the time zone that the typed text is of.

A text that clocks show twice means the first time; one that they skip is refused with the next.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timedelta, tzinfo
from datetime import timezone as fixed_offset
from typing import Any
from zoneinfo import ZoneInfo

from django import forms
from django.utils import timezone
from unfold.widgets import UnfoldAdminSplitDateTimeWidget, UnfoldAdminTextInputWidget

from apps.common.admin.display import translate
from apps.common.errors import Invalid
from apps.common.readers import read_instant
from apps.common.zones import zone_names

# Django reads texts in it, so that it finds nothing unclear about them.
_NOWHERE = fixed_offset(timedelta(), "nowhere")


class _Zoned:
    """Adds the zone to what the template gets: that of the page, unless it has one of its own."""

    zone: tzinfo | None = None

    def get_context(self, name: str, value: Any, attrs: Any) -> dict[str, Any]:
        context: dict[str, Any] = super().get_context(name, value, attrs)  # type: ignore[misc]
        context["widget"]["zone"] = str(self.zone or timezone.get_current_timezone_name())
        context["widget"]["is_own_zone"] = self.zone is not None
        return context


class SplitTimeInput(_Zoned, UnfoldAdminSplitDateTimeWidget):  # type: ignore[misc]
    """A date and a time, two boxes."""

    template_name = "admin/widgets/zoned_datetime.html"

    def get_context(self, name: str, value: Any, attrs: Any) -> dict[str, Any]:
        context = super().get_context(name, value, attrs)
        for box in context["widget"]["subwidgets"]:
            # The label of the field names neither.
            box["attrs"]["aria-label"] = box["attrs"]["placeholder"]
        return context

    def decompress(self, value: Any) -> Any:
        with timezone.override(self.zone or timezone.get_current_timezone()):
            return super().decompress(value)


class TimeInput(_Zoned, UnfoldAdminTextInputWidget):  # type: ignore[misc]
    """A date and a time, one box that browsers help to fill."""

    template_name = "admin/widgets/zoned_text.html"

    def __init__(self) -> None:
        super().__init__(attrs={"type": "datetime-local", "step": "1"})


class SplitInstantField(forms.SplitDateTimeField):
    """An instant, typed as a date and a time in the zone of the widget."""

    widget = SplitTimeInput

    def compress(self, data_list: Any) -> Any:
        with timezone.override(_NOWHERE):
            typed = super().compress(data_list)
        return typed and _instant(typed.replace(tzinfo=None).isoformat(), self.widget.zone)


class InstantField(forms.DateTimeField):
    """An instant, typed in one box as in any address or file; of a local time the zone counts."""

    widget = TimeInput

    def to_python(self, value: Any) -> Any:
        return (
            None if value in self.empty_values else _instant(str(value).strip(), self.widget.zone)
        )


def _instant(text: str, zone: tzinfo | None) -> datetime:
    try:
        return read_instant(text, zone or timezone.get_current_timezone())
    except Invalid as error:
        raise forms.ValidationError(translate(error.detail), code="invalid") from error


def use_zone_of_form(form: forms.BaseForm, chooser: str, names: Iterable[str]) -> None:
    """Let these fields show and read times in the zone that is chosen in the form at this moment;
    in that of the page as long as there is no such zone."""
    chosen = form[chooser].value() if chooser in form.fields else None
    for name in names:
        if chosen in zone_names() and name in form.fields:
            form.fields[name].widget.zone = ZoneInfo(str(chosen))
