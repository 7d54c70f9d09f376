"""A field for the name of a time zone, which a text box suggests."""

from __future__ import annotations

from typing import Any

from django import forms
from unfold.widgets import UnfoldAdminTextInputWidget

from apps.common.admin.display import translate
from apps.common.errors import Invalid
from apps.common.zones import parse_zone, zone_names

# More than the name of any zone has.
MAX_ZONE = 64


class ZoneInput(UnfoldAdminTextInputWidget):  # type: ignore[misc]
    template_name = "admin/widgets/zone_input.html"

    def get_context(self, name: str, value: Any, attrs: Any) -> dict[str, Any]:
        more = {"list": f"{name}-zones", "autocomplete": "off", "spellcheck": "false"}
        context: dict[str, Any] = super().get_context(name, value, {**more, **(attrs or {})})
        context["zones"] = sorted(zone_names())
        return context


class ZoneField(forms.CharField):
    """The name of a zone that there is; a misspelt one is refused with the nearest names."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(widget=ZoneInput, max_length=MAX_ZONE, **kwargs)

    def clean(self, value: Any) -> Any:
        name = super().clean(value)
        if name:
            try:
                parse_zone(name)
            except Invalid as error:
                raise forms.ValidationError(translate(error.detail), code="invalid") from error
        return name
