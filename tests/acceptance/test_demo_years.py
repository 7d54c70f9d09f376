"""The demo that plays the past of a new platform, with its sweeps, up to the present."""

from __future__ import annotations

import subprocess
from collections.abc import Callable

import pytest

Manage = Callable[..., subprocess.CompletedProcess[str]]

PROMISES = (
    "every job has ended",
    "each job is live, in the archive, or rightly forgotten",
    "each job that is kept is found by its number",
    "each dispatch is there or rightly forgotten",
    "the journal has all entries of its retention, and no others",
    "tables that roll have few partitions, and nothing behind them",
    "the newest ended jobs are live or among the older ones, never both, until forgotten (I61)",
    "the rollups are what the journal adds up to (I54)",
)


@pytest.mark.long
def test_some_weeks_are_archived_and_forgotten_in_time(
    manage: Manage, environment: dict[str, str]
) -> None:
    """S0.8, S2.8, S4.16, I61: by the services and sweeps of the platform, on both databases."""
    environment |= {
        **{"JOB_RETENTION": "30d", "JOURNAL_RETENTION": "30d"},
        **{"DISPATCH_RETENTION": "30d", "TASK_RETENTION": "30d"},
        **{"DISPATCH_ARCHIVE_AFTER": "10d", "TASK_ARCHIVE_AFTER": "10d"},
    }
    played = manage("demo", "--years", "0.2")
    assert played.returncode == 0, played.stdout + played.stderr
    for promise in PROMISES:
        assert f"✓ {promise}" in played.stdout
    rows = [line.split() for line in played.stdout.splitlines() if line.startswith("20")]
    made, live, archived, forgotten, dispatches, entries = (
        int(cell.replace(",", "")) for cell in rows[-1][1:]
    )
    assert made > 5000
    assert live + archived + forgotten == made
    # Of a week; then up to 30 days, and on MariaDB until a partition of 31 days is over.
    assert 300 < live < 900
    assert 1000 < archived < 4500
    assert forgotten > 1500
    assert 100 < dispatches < 1300
    assert 2500 < entries < 8000

    again = manage("demo", "--years", "0.2")
    assert again.returncode == 1
    assert "The past can only be played on a platform that has never run." in again.stderr
