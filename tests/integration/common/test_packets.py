"""A server that takes short statements alone is seen before it refuses a batch."""

from __future__ import annotations

from typing import Any

import pytest
from django.core.checks import run_checks
from django.db import connection

from apps.common import checks, rows
from apps.common.checks import MIN_PACKET, check_packets

pytestmark = [pytest.mark.django_db, pytest.mark.both]


def warned() -> list[Any]:
    return [each for each in run_checks(databases=["default"]) if each.id == "common.W001"]


def test_check_warns_of_short_packets(monkeypatch: pytest.MonkeyPatch) -> None:
    # That of the tests is as MariaDB has it where nobody has set another one.
    assert warned() == []
    monkeypatch.setattr(checks, "MIN_PACKET", 2**40)
    found = warned()
    assert len(found) == (connection.vendor == "mysql")
    assert all("max_allowed_packet=16M" in each.hint for each in found)
    assert check_packets(databases=None) == []


def test_packets_hold_the_longest_statement() -> None:
    """In letters of four bytes, and as much again for all that is not counted."""
    assert 4 * rows.MAX_LETTERS * 2 <= MIN_PACKET <= 16 * 2**20
