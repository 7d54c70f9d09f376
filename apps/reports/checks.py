"""The warnings of `manage.py check --database default`: stored values that cannot be used."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from django.core import checks
from django.db import DatabaseError

from apps.reports.services.fact_sheet import current_sheet
from apps.reports.watches.base import look
from apps.reports.watches.stored import STORED


def check_stored(*, databases: Sequence[str] | None = None, **_: Any) -> list[checks.CheckMessage]:
    """A warning for each finding."""
    if not databases or "default" not in databases:
        return []
    try:
        looked = [look(watch, current_sheet()) for watch in STORED]
    except DatabaseError:
        # Before the first migration there are no tables.
        return []
    return [
        checks.Warning(str(found.text), hint=str(found.why), id=each.watch.key)
        for each in looked
        for found in each.findings
    ]
