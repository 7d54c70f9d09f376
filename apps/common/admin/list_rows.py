"""The rows of a list as HTML.

The theme renders a template and all headings of the list anew for each row, which is half of the
time of a page with fifty. Here what all rows share is made once for the page.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple

from django.contrib.admin import helpers
from django.contrib.admin.utils import lookup_field
from django.core.exceptions import ObjectDoesNotExist
from django.db import models
from django.utils.html import conditional_escape, escape, format_html
from django.utils.safestring import SafeString
from django.utils.translation import get_language, gettext

if TYPE_CHECKING:
    # unfold has no types.
    checkbox: Any
    display_for_field: Any
    display_for_value: Any
    CHECKBOX_CLASSES: list[str]
    LINK_CLASSES: list[str]
    ROW_CLASSES: list[str]
else:
    from unfold.admin import checkbox
    from unfold.templatetags.unfold_list import CHECKBOX_CLASSES, LINK_CLASSES, ROW_CLASSES
    from unfold.utils import display_for_field, display_for_value

BOX = "action_checkbox"
_BODY = "block relative lg:table-row-group"
_STRIPES = ("", " bg-base-50 dark:bg-white/[.02]")
_ROW = (
    "data-row block border border-base-200 mb-3 relative rounded-default lg:table-row"
    " lg:border-none lg:mb-0 lg:rounded-none dark:border-base-800"
)
# In place of the key of a row; no key has a NUL.
_KEY = "\0"


class _Column(NamedTuple):
    """What `list_display` has of it, the tags around its values, and whether they lead to the
    page of the row."""

    shown: Any
    begin: str
    end: str
    is_link: bool


def rows(changelist: Any) -> Iterator[SafeString]:
    """A `<tbody>` for each row of the page."""
    columns = _columns(changelist)
    for position, row in enumerate(changelist.result_list):
        cells = "".join(
            f"{column.begin}{_cell(changelist, column, row)}{column.end}" for column in columns
        )
        body = f"{_BODY}{_STRIPES[position % 2]}"
        yield SafeString(f'<tbody class="{body}"><tr class="{_ROW}">{cells}</tr></tbody>')


def row_box(key: object) -> SafeString:
    """The box that selects the row with this key."""
    return SafeString(_box(get_language()).replace(_KEY, escape(str(key))))


@cache
def _box(_language: str | None) -> str:
    return str(checkbox.render(helpers.ACTION_CHECKBOX_NAME, _KEY))


def _columns(changelist: Any) -> list[_Column]:
    names = changelist.list_display
    links = changelist.list_display_links or ()
    found: list[_Column] = []
    for shown, header in zip(names, changelist.headers, strict=True):
        if shown == BOX:
            classes, label = CHECKBOX_CLASSES, gettext("Select record")
        else:
            name = shown if isinstance(shown, str) else shown.__name__
            classes, label = [f"field-{name}", *ROW_CLASSES], header["text"]
        # As in Django, the first that leads to the row is the heading of the row.
        is_link = shown in links
        tag = "th" if is_link and not any(each.is_link for each in found) else "td"
        begin = format_html('<{} class="{}" data-label="{}">', tag, " ".join(classes), label)
        found.append(_Column(shown, begin, f"</{tag}>", is_link))
    return found


def _cell(changelist: Any, column: _Column, row: Any) -> str:
    value = _shown(changelist.model_admin, column.shown, row)
    if not column.is_link:
        return conditional_escape(value)
    url, kept = changelist.url_for_result(row), changelist.preserved_filters
    return format_html(
        '<a href="{}" class="{}">{}</a>',
        f"{url}?{kept}" if kept else url,
        " ".join(LINK_CLASSES),
        value,
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
        return display_for_value(value, empty, getattr(attribute, "boolean", False))
    if isinstance(field.remote_field, models.ManyToOneRel):
        related = getattr(row, field.name)
        return empty if related is None else related
    return display_for_field(value, field, empty)
