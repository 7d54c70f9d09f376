"""Choosing rows by typing their names: works without a script, and suggests names with one."""

from __future__ import annotations

import re
from typing import Any

from django import forms
from django.core.exceptions import ValidationError
from django.db.models import Model, QuerySet
from django.utils.functional import Promise
from django.utils.translation import gettext

from apps.common.admin.theme import TextWidget


class KeyInput(TextWidget):  # type: ignore[misc]
    """A text box that asks an address for names (`{"names": […]}`) while one types.

    With `takes_several`, names are divided by blanks or commas, and the last one is completed.
    """

    template_name = "admin/widgets/key_input.html"

    def __init__(
        self, *, suggestions: str | Promise = "", takes_several: bool = False, attrs: Any = None
    ) -> None:
        super().__init__(attrs={"autocomplete": "off", "spellcheck": "false", **(attrs or {})})
        self.suggestions = suggestions
        self.takes_several = takes_several

    def get_context(self, name: str, value: Any, attrs: Any) -> dict[str, Any]:
        context: dict[str, Any] = super().get_context(name, value, attrs)
        context["suggestions"] = self.suggestions
        context["takes_several"] = self.takes_several
        return context


class KeyChoiceField(forms.CharField):
    """The row of `rows` whose `key` column equals what was typed; the value is the row.

    `rows` is what this person may choose from; a row outside of it is as unknown as none.
    """

    def __init__(
        self, *, rows: QuerySet[Any], key: str = "name", suggestions: str | Promise, **kwargs: Any
    ) -> None:
        super().__init__(widget=KeyInput(suggestions=suggestions), max_length=255, **kwargs)
        self.rows = rows
        self.key = key

    def prepare_value(self, value: Any) -> Any:
        """The name, for a row or for the primary key that a model form starts with."""
        if isinstance(value, Model):
            return getattr(value, self.key)
        if isinstance(value, int):
            return self.rows.filter(pk=value).values_list(self.key, flat=True).first()
        return value

    def clean(self, value: Any) -> Any:
        name = super().clean(value)
        if not name:
            return None
        row = self.rows.filter(**{self.key: name}).first()
        # Collations may call names equal that are not.
        if row is None or getattr(row, self.key) != name:
            raise ValidationError(
                gettext("There is no %(what)s %(name)s.")
                % {"what": self.rows.model._meta.verbose_name, "name": repr(name[:80])}
            )
        return row

    def has_changed(self, initial: Any, data: Any) -> bool:
        return (self.prepare_value(initial) or "") != (data or "").strip()


class KeyChoicesField(forms.CharField):
    """The rows of `rows` whose keys were typed, in their order and each once, at most `most`."""

    def __init__(
        self,
        *,
        rows: QuerySet[Any],
        key: str = "name",
        suggestions: str | Promise,
        most: int,
        **kwargs: Any,
    ) -> None:
        widget = KeyInput(suggestions=suggestions, takes_several=True)
        super().__init__(widget=widget, max_length=most * 257, **kwargs)
        self.rows = rows
        self.key = key
        self.most = most

    def clean(self, value: Any) -> Any:
        names = list(dict.fromkeys(re.findall(r"[^\s,;]+", super().clean(value))))
        if len(names) > self.most:
            raise ValidationError(gettext("At most %d names at once.") % self.most)
        found = {
            getattr(row, self.key): row for row in self.rows.filter(**{f"{self.key}__in": names})
        }
        unknown = [name for name in names if name not in found]
        if unknown:
            raise ValidationError(
                gettext("There is no %(what)s %(name)s.")
                % {
                    "what": self.rows.model._meta.verbose_name,
                    "name": ", ".join(repr(name[:80]) for name in unknown[:10]),
                }
            )
        return [found[name] for name in names]
