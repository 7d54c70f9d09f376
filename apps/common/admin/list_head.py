"""What stands above every list: the states of its rows as tabs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from django.contrib.admin.views.main import PAGE_VAR
from django.utils.text import capfirst
from django.utils.translation import gettext

# More rows than these are not counted.
MAX_COUNTED = 1_000


@dataclass(frozen=True, slots=True)
class Tab:
    """The rows of one state, or all; `count` is empty where nobody counts them."""

    value: str
    text: str
    url: str
    count: str
    is_chosen: bool


def tabs(changelist: Any) -> list[Tab]:
    """The tabs of the filter that `list_tabs` names, each with the list's other filters kept."""
    model_admin = changelist.model_admin
    name = model_admin.list_tabs
    spec = next(
        (each for each in changelist.filter_specs if name in each.expected_parameters()), None
    )
    if not name or spec is None:
        return []
    chosen = changelist.given.get(name, "")
    others = {each: text for each, text in changelist.given.items() if each != name}
    counts: Mapping[str, int] = model_admin.tab_counts(changelist.request, others)

    def tab(value: str, text: Any) -> Tab:
        url = changelist.get_query_string({name: value or None, PAGE_VAR: None})
        count = capped(counts[value]) if value in counts else ""
        return Tab(value, capfirst(str(text)), str(url), count, value == chosen)

    states = [tab(str(value), text) for value, text in spec.tabs]
    return [tab("", gettext("All")), *states]


def capped(count: int) -> str:
    """A number that was counted up to one more than MAX_COUNTED: `64`, `1,000+`."""
    return f"{MAX_COUNTED:,}+" if count > MAX_COUNTED else f"{count:,}"
