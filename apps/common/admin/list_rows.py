"""The rows of a list as HTML.

The theme renders a template and all headings of the list anew for each row, which is half of the
time of a page with fifty. Here what all rows share is made once for the page.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache
from typing import Any, NamedTuple

from django.contrib.admin import helpers
from django.contrib.admin.utils import display_for_field, display_for_value, lookup_field
from django.core.exceptions import ObjectDoesNotExist
from django.db import models
from django.template.loader import render_to_string
from django.utils.html import conditional_escape, escape, format_html
from django.utils.safestring import SafeString
from django.utils.text import capfirst
from django.utils.translation import get_language, gettext

BOX = "action_checkbox"


class _Column(NamedTuple):
    """A column: its entry in `list_display`, the function that shows it in lists if that differs,
    the tags around its values, and whether they link to the page of the row."""

    shown: Any
    in_list: Callable[[Any], Any] | None
    begin: str
    end: str
    is_link: bool


def rows(changelist: Any) -> Iterator[SafeString]:
    """A `<tr>` for each row of the page."""
    columns = _columns(changelist)
    for row in changelist.result_list:
        cells = "".join(
            f"{column.begin}{_cell(changelist, column, row)}{column.end}" for column in columns
        )
        yield SafeString(f'<tr class="data-row" id="row-{escape(str(row.pk))}">{cells}</tr>')


def labels(changelist: Any) -> SafeString:
    """The headings of the columns as CSS, for cards, which show each value beside its heading."""
    fields = (each if isinstance(each, str) else each.__name__ for each in changelist.list_display)
    texts = (capfirst(str(header["text"])) for header in changelist.headers)
    return SafeString(
        "".join(
            f".field-{field} {{ --label: {_css_text(text)}; }} "
            for field, text in zip(fields, texts, strict=True)
            if field != BOX
        )
    )


def _css_text(text: str) -> str:
    """A string of CSS, which neither ends early nor closes its element."""
    return '"' + "".join(c if c.isalnum() or c == " " else f"\\{ord(c):x} " for c in text) + '"'


def row_box(key: object) -> SafeString:
    """The box that selects the row with this key."""
    return format_html(
        '<input type="checkbox" name="{}" value="{}" class="action-select" aria-label="{}">',
        helpers.ACTION_CHECKBOX_NAME,
        key,
        gettext("Select record"),
    )


def page_box() -> SafeString:
    """The box that selects all rows of the page."""
    label = gettext("Select all objects on this page for an action")
    return format_html(
        '<input type="checkbox" id="action-toggle" class="action-toggle" aria-label="{}">', label
    )


def _columns(changelist: Any) -> list[_Column]:
    names = changelist.list_display
    links = changelist.list_display_links or ()
    found: list[_Column] = []
    for shown in names:
        if shown == BOX:
            begin: SafeString = SafeString('<td class="action-checkbox">')
            found.append(_Column(shown, None, begin, "</td>", False))
            continue
        field = shown if isinstance(shown, str) else shown.__name__
        method = getattr(changelist.model_admin, shown, None) if shown is field else shown
        # As in Django, the first cell that links to the row is its heading.
        is_link = shown in links
        tag = "th" if is_link and not any(each.is_link for each in found) else "td"
        begin = format_html('<{} class="field-{}">', tag, field)
        in_list = getattr(method, "in_list", None)
        found.append(_Column(shown, in_list, begin, f"</{tag}>", is_link))
    return found


def _cell(changelist: Any, column: _Column, row: Any) -> str:
    if column.in_list is None:
        value = _shown(changelist.model_admin, column.shown, row)
    elif (value := column.in_list(row)) is None:
        value = changelist.model_admin.get_empty_value_display()
    if not column.is_link:
        return conditional_escape(value)
    url, kept = changelist.url_for_result(row), changelist.preserved_filters
    return format_html(
        '<a href="{}" class="row-link">{}</a>', f"{url}?{kept}" if kept else url, value
    )


def _shown(model_admin: Any, shown: Any, row: Any) -> Any:
    """The value of a column as Django's lists show it."""
    empty = model_admin.get_empty_value_display()
    try:
        field, attribute, value = lookup_field(shown, row, model_admin)
    except ObjectDoesNotExist:
        return empty
    empty = getattr(attribute, "empty_value_display", empty)
    if field is None or field.auto_created:
        if getattr(attribute, "boolean", False):
            return _sign(value, get_language())
        return value if isinstance(value, str) else display_for_value(value, empty)
    if isinstance(field.remote_field, models.ManyToOneRel):
        related = getattr(row, field.name)
        return empty if related is None else related
    if isinstance(field, models.BooleanField) and not field.choices:
        return _sign(value, get_language())
    return display_for_field(value, field, empty, avoid_link=True)


@cache
def _sign(value: bool | None, _language: str | None) -> SafeString:
    """Yes, no, or unknown."""
    return render_to_string("unfold/helpers/boolean.html", {"value": value})
