"""The addresses of the pages that plan a change of all rows that a list means."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from urllib.parse import urlencode

from django.urls import reverse

# The page is of an app above those of the lists.
PLAN_URL = "bulk_new"


def links(
    changelist: Any, kind: str, verbs: Mapping[str, object], **more: str
) -> list[tuple[object, str]]:
    """Each verb with the address of its plan over what this list is narrowed to, and by `more`;
    none without rows, as there are for a filter that this person may not use."""
    if not changelist.result_count:
        return []
    asked = {**changelist.given, **more}
    query = f"?{urlencode(asked)}" if asked else ""
    return [(words, reverse(PLAN_URL, args=[kind, verb]) + query) for verb, words in verbs.items()]
