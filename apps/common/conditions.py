"""Conditions on payloads in queries and bodies of the API."""

from __future__ import annotations

from collections.abc import Sequence

from apps.common.json_path import MAX_CONDITION, MAX_CONDITIONS
from apps.common.serializer_fields import Texts


class Where(Texts):
    """Conditions on JSON columns, which `json_path` reads."""

    def __init__(self, columns: Sequence[str]) -> None:
        hint = (
            f"`path:value` in {' or '.join(columns)}, such as {columns[0]}.items[0].sku:S7; all "
            "must hold. Values that are masked cannot be searched for."
        )
        super().__init__(
            max_items=MAX_CONDITIONS, max_length=MAX_CONDITION, required=False, help_text=hint
        )
