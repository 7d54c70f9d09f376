"""Inputs of times, which name the time zone that the typed text is of."""

from __future__ import annotations

from typing import Any

from django.utils.timezone import get_current_timezone_name
from unfold.widgets import UnfoldAdminSplitDateTimeWidget, UnfoldAdminTextInputWidget


class _Zoned:
    """Adds the zone of the page to what the template gets."""

    def get_context(self, name: str, value: Any, attrs: Any) -> dict[str, Any]:
        context: dict[str, Any] = super().get_context(name, value, attrs)  # type: ignore[misc]
        context["widget"]["zone"] = get_current_timezone_name()
        return context


class SplitTimeInput(_Zoned, UnfoldAdminSplitDateTimeWidget):  # type: ignore[misc]
    """A date and a time, two boxes."""

    template_name = "admin/widgets/zoned_datetime.html"


class TimeInput(_Zoned, UnfoldAdminTextInputWidget):  # type: ignore[misc]
    """A date and a time, one box that browsers help to fill."""

    template_name = "admin/widgets/zoned_text.html"

    def __init__(self) -> None:
        super().__init__(attrs={"type": "datetime-local", "step": "1"})
