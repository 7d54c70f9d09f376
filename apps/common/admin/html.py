"""The parts of pages: addresses in the admin, links to them, notes, tables and lists.

Whatever is no SafeString is escaped. Pages take links from here, so that none forgets it; rows of
lists are made faster beside it.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeAlias
from urllib.parse import urlencode

from django.db.models import Model
from django.urls import reverse
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString

# A model, or the name of its pages where its app is above: `jobs_job`.
Rows: TypeAlias = type[Model] | str


def list_url(of: Rows, /, **filters: object) -> str:
    """The address of the list of these rows, filtered."""
    url = _list(of)
    return f"{url}?{urlencode(filters)}" if filters else url


@functools.cache
def _list(of: Rows) -> str:
    return reverse(f"admin:{_name(of)}_changelist")


def page_url(of: Rows, key: object) -> str:
    """The address of the page of one row."""
    return reverse(f"admin:{_name(of)}_change", args=[key])


def _name(of: Rows) -> str:
    return of if isinstance(of, str) else f"{of._meta.app_label}_{of._meta.model_name}"


def link(url: str, text: object, *, look: str = "text-link", title: str = "") -> SafeString:
    """A link; `look` are its classes, `title` what a mouse over it shows. Without an address it is
    the text alone."""
    if not url:
        return format_html("{}", text)
    return format_html(
        '<a{} href="{}"{}>{}</a>', attribute("class", look), url, attribute("title", title), text
    )


def attribute(name: str, value: str) -> SafeString:
    """` name="value"` in a tag; "" without a value."""
    return format_html(' {}="{}"', name, value) if value else SafeString()


def page_link(of: Rows, key: object, text: object = None) -> SafeString:
    """A link to the page of one row, by its key if there is no other text."""
    return link(page_url(of, key), key if text is None else text)


def joined(parts: Iterable[object], between: str = "", *, each: str = "{}") -> SafeString:
    """The parts one after another, `each` in this piece of HTML."""
    return format_html_join(between, each, ((part,) for part in parts))


def noted(shown: object, note: object, *, look: str = "cell-note faint") -> SafeString:
    """A shown value, and a note below it if there is one."""
    below = format_html('<span class="{}">{}</span>', look, note) if note else ""
    return format_html("{}{}", shown, below)


def table(heads: Sequence[object], rows: Iterable[Sequence[object]], look: str = "") -> SafeString:
    """A table of some lines; the cells of a row are as many as the heads, and say theirs where a
    phone shows the row as a card."""
    cells = '<td data-label="{}">{}</td>' * len(heads)
    labelled = ([part for cell in zip(heads, row, strict=True) for part in cell] for row in rows)
    return format_html(
        '<table class="{}"><thead><tr>{}</tr></thead><tbody>{}</tbody></table>',
        f"plain-table {look}".strip(),
        joined(heads, each='<th scope="col">{}</th>'),
        format_html_join("", f"<tr>{cells}</tr>", labelled),
    )


def bullets(items: Iterable[object], look: str = "plain-list", *, tag: str = "ul") -> SafeString:
    """A list; "" without items."""
    lines = joined(items, each="<li>{}</li>")
    whole = format_html("<{0}{1}>{2}</{0}>", tag, attribute("class", look), lines)
    return whole if lines else lines


def header_tabs(
    name: str, before: tuple[str, str], pages: Mapping[str, tuple[Any, str]], here: str
) -> dict[str, Any]:
    """The `header_tabs` of the pages of one row: `before` is the text and address of its list, and
    of each of the `pages`, of which `here` is open."""
    tabs = [(title, url, page == here) for page, (title, url) in pages.items()]
    return {"name": name, "before": before, "tabs": tabs}
