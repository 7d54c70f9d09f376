"""Conditions on payloads in the filters of dispatches and tasks: typed, sent and read back."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC
from functools import partial
from typing import Any

import pytest

from apps.common.errors import Invalid
from apps.dispatch.rules import dispatch_filter, task_filter

Read = Callable[[dict[str, Any]], Any]
SENT: dict[str, Read] = {
    "dispatches": dispatch_filter.read,
    "once": partial(task_filter.read, "once"),
    "rotate": partial(task_filter.read, "rotate"),
}
LISTED: dict[str, Read] = {
    "dispatches": lambda given: dispatch_filter.read(given, dispatch_filter.admin_names(UTC)),
    "once": lambda given: task_filter.read_list("once", given, UTC),
    "rotate": lambda given: task_filter.read_list("rotate", given, UTC),
}


@pytest.mark.parametrize(
    ("kind", "columns"),
    [("dispatches", ["params", "result"]), ("once", ["params"]), ("rotate", ["params"])],
)
def test_conditions_of_the_list_and_of_rest_are_alike(kind: str, columns: list[str]) -> None:
    conditions = [f"{column}.order.city:北京" for column in columns]
    listed = LISTED[kind]({"where": "  ".join(conditions)})
    sent = SENT[kind]({"where": conditions})
    assert listed == sent == SENT[kind](sent.wire())
    assert sent.wire() == {"where": conditions}


@pytest.mark.parametrize(
    ("kind", "condition"),
    [("dispatches", "context.a:x"), ("once", "result.a:x"), ("rotate", "result.a:x")],
)
def test_column_of_other_rows_is_refused(kind: str, condition: str) -> None:
    with pytest.raises(Invalid, match="A path begins with: params") as refused:
        SENT[kind]({"where": [condition]})
    assert [each.field for each in refused.value.errors] == ["where"]
