"""The addresses of the pages that plan a change of all rows that a list means."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from urllib.parse import urlencode

from django.urls import reverse

from apps.common.admin.display import translate
from apps.common.verbs import Verb

# The page is of an app above those of the lists.
PLAN_URL = "bulk_new"


def links(
    changelist: Any, kind: str, verbs: Mapping[str, Verb], **more: str
) -> list[tuple[str, str]]:
    """The words of each verb that this person may do, with the address of its plan over what this
    list is narrowed to, and by `more`; none without rows, as there are for a filter that this
    person may not use."""
    if not changelist.result_count:
        return []
    asked = {**changelist.given, **more}
    query = f"?{urlencode(asked)}" if asked else ""
    user = changelist.request.user
    return [
        (translate(verb.words), reverse(PLAN_URL, args=[kind, name]) + query)
        for name, verb in verbs.items()
        if user.has_perm(verb.permission)
    ]
