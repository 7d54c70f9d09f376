"""A JSON object as fields for people, by the titles of its schema; the JSON itself is folded up."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from django.utils.functional import Promise
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString
from django.utils.translation import gettext as _

from apps.common.admin.display import Shown, column, indented_json, listed, pretty_json, shown_text
from apps.common.admin.html import link
from apps.common.masking import MASK, redact

# More are in the JSON.
MAX_FIELDS = 60
MAX_VALUE = 600
_ADDRESS = re.compile(r"https?://[^\s<>\"]{1,2000}")


def json_field(
    field: str, description: str | Promise, schema_of: Callable[[Any], Any] = lambda row: None
) -> Shown:
    """A read-only field of JSON, by the schema of the row if it has one; name it in
    `payload_fields` when it may hold secrets."""

    @column(description)
    def shown(_admin: Any, row: Any) -> SafeString:
        value = getattr(row, field)
        return SafeString("–") if value is None else fields_of(value, schema_of(row))

    return shown


def fields_of(value: Any, schema: Any = None) -> SafeString:
    """The fields of the object, those of the schema first and by its titles, their secrets masked;
    any other JSON value, and one with nothing in it, as JSON."""
    if not isinstance(value, dict) or not value:
        return pretty_json(value)
    masked = redact(value)
    lines = list(_lines(masked, schema if isinstance(schema, Mapping) else {}))
    return format_html(
        '<dl class="json-fields">{}</dl>{}'
        '<details class="moment-details"><summary>JSON</summary>{}</details>',
        format_html_join("", "<div><dt><bdi>{}</bdi></dt><dd>{}</dd></div>", lines[:MAX_FIELDS]),
        "…" if len(lines) > MAX_FIELDS else "",
        indented_json(masked),
    )


def _lines(
    value: Mapping[str, Any], schema: Mapping[str, Any], above: str = ""
) -> Iterator[tuple[str, object]]:
    properties = schema.get("properties")
    declared = properties if isinstance(properties, Mapping) else {}
    names = [
        *(name for name in declared if name in value),
        *(n for n in value if n not in declared),
    ]
    for name in names:
        about = declared.get(name)
        about = about if isinstance(about, Mapping) else {}
        title = shown_text(f"{above}{about.get('title') or name}", limit=120)
        item = value[name]
        if isinstance(item, dict) and item and not above:
            yield from _lines(item, about, f"{title} · ")
        else:
            yield title, _shown(item)


def _shown(value: Any) -> object:
    if isinstance(value, list) and value and not any(isinstance(x, dict | list) for x in value):
        return SafeString(listed(format_html("{}", _shown(each)) for each in value))
    if value is None or value == "":
        return "–"
    if isinstance(value, bool):
        return _("yes") if value else _("no")
    if value == MASK:
        return format_html('<span class="faint">{}</span>', _("hidden (secret)"))
    if not isinstance(value, str):
        return shown_text(json.dumps(value, ensure_ascii=False), limit=MAX_VALUE)
    text = shown_text(value, limit=MAX_VALUE)
    if _ADDRESS.fullmatch(value) and MASK not in value and text == value:
        return format_html("<bdi>{}</bdi>", link(value, text))
    return format_html('<bdi class="json-text">{}</bdi>', text)
