"""A form field for JSON that reports the line of an error."""

from __future__ import annotations

from typing import Any

from django import forms
from django.core.exceptions import ValidationError
from django.utils.translation import gettext_lazy as _
from unfold.widgets import UnfoldAdminTextareaWidget

from apps.common.admin.display import translate
from apps.common.errors import PlatformError
from apps.common.json.text import parse_text
from apps.common.json_rules import canonical, legible
from apps.common.masking import merge, redact
from apps.common.messages import Message

MAX_CHARACTERS = 300_000
TEXT = Message("The text")


def read_json(text: str) -> Any:
    """The JSON value in the text; ValidationError says what is wrong with it, and where."""
    try:
        return parse_text(text, what=TEXT)
    except PlatformError as error:
        raise ValidationError(translate(error.detail)) from error


def unmasked(edited: Any, stored: Any) -> Any:
    """The edited JSON value with the stored secrets for its masks; ValidationError says where one
    is left over."""
    try:
        return merge(edited, stored)
    except PlatformError as error:
        raise ValidationError([translate(each.named) for each in error.errors]) from error


class Typed(str):
    """Text as a person typed it, unlike a stored JSON value that is text."""


class JsonTextField(forms.CharField):
    """A JSON value as indented text; empty text is None.

    With `redacts` secrets are masked, and where their masks are left, those of `stored` stay.
    Without `is_object` any JSON value is allowed.
    """

    def __init__(
        self,
        *,
        is_object: bool = True,
        redacts: bool = False,
        stored: Any = None,
        rows: int = 12,
        **kwargs: Any,
    ) -> None:
        widget = UnfoldAdminTextareaWidget(
            attrs={"rows": rows, "class": "json", "spellcheck": "false"}
        )
        super().__init__(max_length=MAX_CHARACTERS, widget=widget, **kwargs)
        self.is_object = is_object
        self.redacts = redacts
        self.stored = stored

    def bound_data(self, data: Any, initial: Any) -> Any:
        return Typed(data) if isinstance(data, str) else data

    def prepare_value(self, value: Any) -> Any:
        if value is None or isinstance(value, Typed):
            return value
        shown = redact(value) if self.redacts else value
        text = legible(shown, indent=2)
        # What is shown can be sent again.
        return text if len(text) <= MAX_CHARACTERS else legible(shown)

    def clean(self, value: Any) -> Any:
        text = super().clean(value)
        if not text:
            return None
        edited = read_json(text)
        if self.is_object and not isinstance(edited, dict):
            raise ValidationError(_("Write a JSON object: {…}."))
        return unmasked(edited, self.stored) if self.redacts else edited

    def has_changed(self, initial: Any, data: Any) -> bool:
        try:
            edited = self.clean(data)
        except ValidationError:
            return True
        # In Python True equals 1 and 1 equals 1.0; in JSON they differ.
        return canonical(edited) != canonical(initial)
