"""What the dialects of asyncflow call the states of jobs."""

from __future__ import annotations

from apps.asyncflow.dialects import BY_NAME
from apps.jobs.rules import transitions as t


def test_all_that_waits_is_1_and_is_found_by_it() -> None:
    """Also what waits for a place of its key, of which no worker of asyncflow has heard."""
    for dialect in BY_NAME.values():
        assert {dialect.number(status) for status in t.WAITING} == {1}
        assert {*dialect.statuses(1)} == {t.SCHEDULED, t.BLOCKED, t.READY}
