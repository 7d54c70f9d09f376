"""The head of every list: the states of its rows as tabs; and the ways on from an empty one."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from django.contrib.admin.views.main import PAGE_VAR
from django.db.models import QuerySet
from django.urls import reverse
from django.utils.functional import Promise
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
    beside: Sequence[tuple[str, str, Any]] = model_admin.tabs_beside
    of_tabs = {name, *(parameter for parameter, _value, _text in beside)}
    others = {each: text for each, text in changelist.given.items() if each not in of_tabs}
    counts: Mapping[str, int] = model_admin.tab_counts(changelist.request, others)

    def tab(value: str, text: Any, of: str = "") -> Tab:
        asked = {**dict.fromkeys(of_tabs), PAGE_VAR: None, of or name: value or None}
        counted = of or value
        count = capped(counts[counted]) if counted in counts else ""
        is_chosen = changelist.given.get(of) == value if of else value == chosen
        url = str(changelist.get_query_string(asked))
        return Tab(counted, capfirst(str(text)), url, count, is_chosen)

    states = [tab(str(value), text) for value, text in spec.tabs]
    more = [tab(value, text, of) for of, value, text in beside]
    is_beside = any(each.is_chosen for each in more)
    if not states and not more:
        return []
    every = replace(tab("", gettext("All")), is_chosen=not (chosen or is_beside))
    return [every, *states[:1], *more, *states[1:]]


def keys_if_counted(rows: QuerySet[Any]) -> list[Any]:
    """The keys of the rows, at most one more than are counted."""
    return list(rows.order_by().values_list("pk", flat=True)[: MAX_COUNTED + 1])


def capped(count: int) -> str:
    """A number that was counted up to one more than MAX_COUNTED: `64`, `1,000+`."""
    return f"{MAX_COUNTED:,}+" if count > MAX_COUNTED else f"{count:,}"


class NextStep(NamedTuple):
    """A way on from an empty list: its words, the URL name of a page and what follows its address,
    and the permission that this needs."""

    text: str | Promise
    page: str
    permission: str
    query: str = ""


def steps_for(user: Any, steps: Iterable[NextStep]) -> list[tuple[str | Promise, str]]:
    """The texts and addresses of those that this account may take."""
    return [
        (step.text, f"{reverse(step.page)}{step.query}")
        for step in steps
        if user.has_perm(step.permission)
    ]
