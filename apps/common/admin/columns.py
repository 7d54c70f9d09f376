"""The columns of a list: the usual ones, or those that the address names by `_cols`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from django.contrib.admin.utils import label_for_field, lookup_field
from django.http import QueryDict
from django.utils.text import capfirst

# The parameter: names with commas between them.
COLUMNS = "_cols"


@dataclass(frozen=True, slots=True)
class ListColumn:
    """A column that people can choose: its name in addresses, what `list_display` has of it, and
    the columns of an export with the same values."""

    name: str
    shown: Any
    exported: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ColumnChoice:
    """A column in the form that chooses some; the fixed one is always shown."""

    name: str
    heading: str
    is_shown: bool
    is_fixed: bool


def asked_for(query: QueryDict) -> list[str]:
    """The names of columns in the address."""
    return [name for text in query.getlist(COLUMNS) for name in text.split(",") if name]


def chosen_columns(columns: Sequence[ListColumn], query: QueryDict) -> list[ListColumn]:
    """The columns that the address names, after the first, which leads to the row; [] for none."""
    names = asked_for(query)
    found = [each for each in columns[1:] if each.name in names]
    return [columns[0], *found] if found or any(each.name in names for each in columns) else []


def unknown(columns: Sequence[ListColumn], query: QueryDict) -> list[str]:
    """The names in the address that no column has."""
    known = {each.name for each in columns}
    return [name for name in asked_for(query) if name not in known]


def choices(changelist: Any) -> list[ColumnChoice]:
    """All columns that the list has, for its form."""
    model_admin = changelist.model_admin
    columns: Sequence[ListColumn] = model_admin.list_columns
    picked = chosen_columns(columns, changelist.request.GET)
    shown = [each.shown for each in picked] or model_admin.list_display
    return [
        ColumnChoice(
            each.name,
            capfirst(str(label_for_field(each.shown, changelist.model, model_admin))),
            each.shown in shown,
            is_fixed=each is columns[0],
        )
        for each in columns
    ]


def mobile_lines(changelist: Any) -> list[list[str]]:
    """The columns of the lines of a row on a narrow screen, the last of them those that were
    chosen beside; [] where rows are cards."""
    lines = [list(line) for line in changelist.model_admin.list_mobile]
    if not lines[0]:
        return []
    shown = [_class_of(each) for each in changelist.list_display]
    chosen_beside = [name for name in shown[1:] if name not in {*lines[0], *lines[1]}]
    return [*lines, chosen_beside if changelist.are_columns_chosen else []]


def _class_of(shown: Any) -> str:
    """The name that Django gives to the cells of the column."""
    return shown if isinstance(shown, str) else str(shown.__name__)


def without_empty(changelist: Any) -> list[Any]:
    """The columns of the list, but those that may be left out and have no value in any row of the
    page; without rows, all."""
    rows, page = changelist.result_list, changelist.model_admin
    may_go = changelist.list_display if page.list_columns else page.list_if_any

    def has_value(shown: Any) -> bool:
        values = (lookup_field(shown, row, changelist.model_admin)[2] for row in rows)
        return any(value not in (None, "") for value in values)

    return [
        each
        for each in changelist.list_display
        if not rows or each not in may_go or has_value(each)
    ]
