"""Checks of the database before the platform works with it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from django.core import checks
from django.core.checks import CheckMessage
from django.db import DEFAULT_DB_ALIAS, connection

from apps.common.db import fetch
from apps.common.rows import MAX_LETTERS

# A letter takes up to four bytes, and what stands beside long texts takes some.
MIN_PACKET = 2 * 4 * MAX_LETTERS


def check_packets(*, databases: Sequence[str] | None = None, **_: Any) -> list[CheckMessage]:
    """A warning of a server that takes no statements as long as batches need."""
    if DEFAULT_DB_ALIAS not in (databases or ()) or connection.vendor != "mysql":
        return []
    [(size,)] = fetch("SELECT @@max_allowed_packet")
    if size >= MIN_PACKET:
        return []
    return [
        checks.Warning(
            f"The database takes statements of {size / 2**20:.3g} MB (max_allowed_packet), and "
            "closes the connection of a longer one: long batches of jobs and long results are "
            "answered with 503.",
            hint="Write max_allowed_packet=16M below [mysqld] in its configuration and start it "
            "anew, or until its next start SET GLOBAL max_allowed_packet = 16777216, and start "
            "the platform anew.",
            id="common.W001",
        )
    ]
