"""The audit of an installation whose workers were killed and poisoned under it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from subprocess import CompletedProcess

import pytest

from tests.processes import RunningProcess
from tests.workers import Workers


# Forked workers run with Redis.
@pytest.mark.mariadb
def test_audit_is_silent_while_workers_die_and_after(
    start: Callable[..., RunningProcess],
    environment: Mapping[str, str],
    manage: Callable[..., CompletedProcess[str]],
) -> None:
    """I26–I29, I39, I53 through segfaults, lost leases and retries by real processes."""
    workers = Workers(start, environment)
    workers.sweeps()
    good = [{"type": "echo", "context": {"n": n}} for n in range(60)]
    workers.submit(*good, {"type": "segfaults"}, {"type": "exits"}, {"type": "unpicklable"})
    workers.drains()

    under_way = manage("audit")
    assert workers.settled() == {"failed": 3, "succeeded": 60}
    at_rest = manage("audit")

    assert (under_way.returncode, under_way.stdout[:4]) == (0, "ok: "), under_way.stdout
    assert (at_rest.returncode, at_rest.stdout[:4]) == (0, "ok: "), at_rest.stdout
