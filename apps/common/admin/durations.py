"""Durations in forms: `90`, `1 min 30 s`, `2h`; stored as seconds."""

from __future__ import annotations

import re
from decimal import Decimal
from typing import Any

from django import forms
from django.utils.translation import gettext as _
from unfold.widgets import UnfoldAdminTextInputWidget

from apps.common.admin.display import shown_text
from apps.common.durations import in_units, seconds_of

# The longest that a column holds, some 68 years.
LONGEST = 2_147_483_647
# The end of the labels of columns of seconds.
_UNIT_OF_LABEL = re.compile(r"\s*[(（](?:s|秒)[)）]$")


def written(seconds: float) -> str:
    """`2 h`, `1 min 30 s`, `0.5 s`: nothing is lost, and `seconds_of` reads it."""
    return in_units(Decimal(str(seconds))).translated(_)


def without_unit(label: str) -> str:
    """The label of a column of seconds, where its values are durations: `lease` of `lease (s)`."""
    return _UNIT_OF_LABEL.sub("", label)


class DurationField(forms.CharField):
    """A number of seconds, typed and shown as a duration; whole ones unless `is_whole` is off."""

    def __init__(self, *, is_whole: bool = True, **kwargs: Any) -> None:
        widget = UnfoldAdminTextInputWidget(attrs={"autocomplete": "off", "spellcheck": "false"})
        super().__init__(**{"max_length": 80, "widget": widget, **kwargs})
        self.is_whole = is_whole

    def prepare_value(self, value: Any) -> Any:
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        return written(value) if is_number else value

    def to_python(self, value: Any) -> Any:
        if isinstance(value, int | float):
            return value
        text = super().to_python(value)
        return self._read(text) if text else None

    def _read(self, text: str) -> int | float:
        try:
            seconds = seconds_of(text)
        except ValueError as error:
            message = _("%s is not a duration; write for example 90, 1 min 30 s or 2 h.")
            raise forms.ValidationError(message % shown_text(repr(text), limit=80)) from error
        if seconds > LONGEST:
            raise forms.ValidationError(_("This is too long; at most %s.") % written(LONGEST))
        if self.is_whole and seconds % 1:
            raise forms.ValidationError(_("Only whole seconds are possible here."))
        return int(seconds) if self.is_whole else float(seconds)

    def run_validators(self, value: Any) -> None:
        """Do nothing: validators of texts do not fit a number, and the service knows the range."""

    def validate(self, value: Any) -> None:
        if self.required and value is None:
            raise forms.ValidationError(self.error_messages["required"], code="required")

    def has_changed(self, initial: Any, data: Any) -> bool:
        try:
            return bool(self.to_python(data) != initial)
        except forms.ValidationError:
            return True


def take_durations(form: forms.BaseForm) -> None:
    """Make the number fields of the form that are seconds, by their names, fields of durations."""
    for name, field in form.fields.items():
        if name.endswith("_seconds") and isinstance(field, forms.IntegerField):
            form.fields[name] = DurationField(
                # A FloatField of Django is an IntegerField, too.
                is_whole=not isinstance(field, forms.FloatField),
                required=field.required,
                label=without_unit(str(field.label or "")),
                initial=field.initial,
                help_text=field.help_text,
            )
