"""Conditions on payloads in the filters of dispatches and tasks: typed, sent and read back."""

from __future__ import annotations

from datetime import UTC

import pytest

from apps.common.errors import Invalid
from apps.common.filtersets import RowFilters
from apps.dispatch.services.filtered import DispatchFilters, OnceTaskFilters, RotateTaskFilters

FILTERS: dict[str, type[RowFilters]] = {
    "dispatches": DispatchFilters,
    "once": OnceTaskFilters,
    "rotate": RotateTaskFilters,
}


@pytest.mark.parametrize(
    ("kind", "columns"),
    [("dispatches", ["params", "result"]), ("once", ["params"]), ("rotate", ["params"])],
)
def test_conditions_of_the_list_and_of_rest_are_alike(kind: str, columns: list[str]) -> None:
    conditions = [f"{column}.order.city:北京" for column in columns]
    listed = FILTERS[kind].read_address({"where": "  ".join(conditions)}, UTC)
    sent = FILTERS[kind].read({"where": conditions})
    assert listed == sent == FILTERS[kind].read(sent.wire())
    assert sent.wire() == {"where": conditions}


@pytest.mark.parametrize(
    ("kind", "condition"),
    [("dispatches", "context.a:x"), ("once", "result.a:x"), ("rotate", "result.a:x")],
)
def test_column_of_other_rows_is_refused(kind: str, condition: str) -> None:
    with pytest.raises(Invalid, match="A path begins with: params") as refused:
        FILTERS[kind].read({"where": [condition]})
    assert [each.field for each in refused.value.errors] == ["where"]
