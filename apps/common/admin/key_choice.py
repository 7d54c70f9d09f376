"""Fields that choose rows by name: text boxes that suggest names when scripts run."""

from __future__ import annotations

import re
from typing import Any

from django import forms
from django.core.exceptions import ValidationError
from django.db.models import Model, QuerySet
from django.utils.functional import Promise
from django.utils.translation import gettext
from unfold.widgets import UnfoldAdminTextInputWidget

from apps.common.admin.display import listed


class KeyInput(UnfoldAdminTextInputWidget):  # type: ignore[misc]
    """A text box that fetches suggestions (`{"names": […], "labels": […]}`, what is chosen and what
    stands beside it) from an address during typing.

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
    """The row of `rows` whose `key` column equals the typed text; the value is the row.

    `rows` are those that this person may choose; any other row counts as unknown. With a `title`
    column, a text that no key equals may be the title of one row.
    """

    def __init__(
        self,
        *,
        rows: QuerySet[Any],
        key: str = "name",
        title: str = "",
        suggestions: str | Promise,
        **kwargs: Any,
    ) -> None:
        super().__init__(widget=KeyInput(suggestions=suggestions), max_length=255, **kwargs)
        self.rows = rows
        self.key = key
        self.title = title

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
            row = self._titled(name)
        if row is None:
            raise ValidationError(
                gettext("There is no %(what)s %(name)s.")
                % {"what": self.rows.model._meta.verbose_name, "name": repr(name[:80])}
            )
        return row

    def _titled(self, title: str) -> Any:
        """The one row of this title; ValidationError for several."""
        if not self.title:
            return None
        rows = list(self.rows.filter(**{self.title: title})[:2])
        if len(rows) > 1:
            text = gettext("Several are called %s; pick one by its name.")
            raise ValidationError(text % repr(title[:80]))
        return rows[0] if rows else None

    def has_changed(self, initial: Any, data: Any) -> bool:
        return (self.prepare_value(initial) or "") != (data or "").strip()


class KeyChoicesField(forms.CharField):
    """The rows of `rows` whose keys were typed, in that order and each once."""

    def __init__(
        self,
        *,
        rows: QuerySet[Any],
        key: str = "name",
        suggestions: str | Promise,
        limit: int,
        **kwargs: Any,
    ) -> None:
        widget = KeyInput(suggestions=suggestions, takes_several=True)
        super().__init__(widget=widget, max_length=limit * 257, **kwargs)
        self.rows = rows
        self.key = key
        self.limit = limit

    def clean(self, value: Any) -> Any:
        names = list(dict.fromkeys(re.findall(r"[^\s,;]+", super().clean(value))))
        if len(names) > self.limit:
            raise ValidationError(gettext("At most %d names at once.") % self.limit)
        found = {
            getattr(row, self.key): row for row in self.rows.filter(**{f"{self.key}__in": names})
        }
        unknown = [name for name in names if name not in found]
        if unknown:
            raise ValidationError(
                gettext("There is no %(what)s %(name)s.")
                % {
                    "what": self.rows.model._meta.verbose_name,
                    "name": listed(repr(name[:80]) for name in unknown[:10]),
                }
            )
        return [found[name] for name in names]
