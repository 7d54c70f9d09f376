"""The addresses of the pages that plan a change of all rows that a list means."""

from __future__ import annotations

from collections.abc import Mapping
from urllib.parse import urlencode

from django.http import HttpRequest
from django.urls import reverse

from apps.common.admin.changelist import VIEW
from apps.common.admin.columns import COLUMNS

# The page is of an app above those of the lists.
PLAN_URL = "bulk_new"
# Parameters of an address that do not narrow a list.
_NO_FILTER = frozenset({COLUMNS, VIEW, "before", "o", "p", "e", "_popup", "_to_field"})


def links(
    request: HttpRequest, kind: str, verbs: Mapping[str, object], **more: str
) -> list[tuple[object, str]]:
    """Each verb with the address of its plan over what this list is narrowed to, and by `more`."""
    asked = {name: text for name, text in request.GET.items() if name not in _NO_FILTER and text}
    asked |= more
    query = f"?{urlencode(asked)}" if asked else ""
    return [(words, reverse(PLAN_URL, args=[kind, verb]) + query) for verb, words in verbs.items()]
