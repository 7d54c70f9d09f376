"""Pages of rows that nobody edits in place: how the row stands, what goes on, the facts at the
right, and what happened."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from django.contrib.admin.utils import label_for_field, lookup_field
from django.http import HttpRequest
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString
from django.utils.text import capfirst
from django.utils.translation import gettext, gettext_lazy

from apps.common.admin.base import PlatformModelAdmin
from apps.common.admin.pages import Panel

# A name of the row or its admin, or a function of the row with a description.
Fact = str | Callable[[Any], Any]


class RowPageAdmin(PlatformModelAdmin):
    """The first of the top panels is the head; those `aside` stand at the right where there is
    room, and below the other top panels where there is not."""

    add_form_template = "admin/change_form.html"
    change_form_template = "admin/row_page.html"
    head_template = "admin/includes/row_head.html"
    timeline_title = gettext_lazy("What happened")

    def get_fieldsets(self, request: HttpRequest, obj: Any = None) -> Any:
        return [(None, {"fields": ()})]

    def head(self, request: HttpRequest, row: Any) -> dict[str, Any]:
        return {**super().head(request, row), "aside_panels": self.aside(request, row)}

    def aside(self, request: HttpRequest, row: Any) -> list[Panel]:
        return []

    def facts(self, row: Any, fields: Sequence[Fact]) -> Panel:
        """The facts that have a value for this row; empty ones would hide the others."""
        lines = [
            (self._title(row, each), value) for each in fields if (value := self._value(row, each))
        ]
        html = '<dl class="row-facts-list">{}</dl>'
        shown = format_html_join("", "<div><dt>{}</dt><dd><bdi>{}</bdi></dd></div>", lines)
        return Panel(gettext_lazy("Facts"), format_html(html, shown))

    def _title(self, row: Any, field: Fact) -> str:
        return capfirst(str(label_for_field(field, type(row), self)))

    def _value(self, row: Any, field: Fact) -> SafeString | str:
        value: Any = lookup_field(field, row, self)[2]
        if value is None or value == "":
            return ""
        if isinstance(value, bool):
            return gettext("yes") if value else gettext("no")
        return format_html("{}", value)


def head_line(state: SafeString, said: Iterable[object], note: object = "") -> SafeString:
    """The line that a page begins with: the state, what is said of the row, and a note."""
    parts = format_html_join(" · ", "<bdi>{}</bdi>", ((part,) for part in said))
    faint = format_html(' <span class="faint">{}</span>', note) if note else ""
    return format_html('<p class="row-line">{} {}{}</p>', state, parts, faint)
