"""Sweeps that the scan of each second starts only while they have work."""

from __future__ import annotations

import logging

import pytest

from apps.common import leases, on_demand
from apps.flows import sweeps
from apps.jobs import sweeps as jobs_sweeps
from apps.jobs.runner.scan import scan
from tests.flows import looks, started, states, wait
from tests.frozen import FrozenClock

pytestmark = pytest.mark.django_db


@pytest.mark.both
def test_flows_are_looked_at_once_a_step_is_due(
    frozen_clock: FrozenClock, sent_sweeps: list[str]
) -> None:
    run = started(wait("pause", seconds=60))
    scan()
    assert sweeps.LOOK not in sent_sweeps
    frozen_clock.advance(seconds=60)
    scan()
    assert sent_sweeps.count(sweeps.LOOK) == 1
    looks(frozen_clock, 0)
    assert states(run) == {"pause": "succeeded"}
    scan()
    assert sent_sweeps.count(sweeps.LOOK) == 1


def test_a_scan_that_was_killed_delays_the_next_by_two_seconds(
    frozen_clock: FrozenClock, monkeypatch: pytest.MonkeyPatch, sent_sweeps: list[str]
) -> None:
    started(wait("pause", seconds=60))
    frozen_clock.advance(seconds=60)
    with monkeypatch.context() as killed:
        killed.setattr(leases, "_give_back", lambda *_: None)
        killed.setattr(jobs_sweeps, "start_drains", dict)
        jobs_sweeps.scan()
    jobs_sweeps.scan()
    assert sweeps.LOOK not in sent_sweeps
    frozen_clock.advance(seconds=2)
    jobs_sweeps.scan()
    assert sweeps.LOOK in sent_sweeps


def test_a_look_that_breaks_keeps_no_other_from_its_own(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, sent_sweeps: list[str]
) -> None:
    monkeypatch.setattr(on_demand, "_looks", {})
    on_demand.register("shop.count", lambda: bool(1 // 0))
    on_demand.register("shop.send", lambda: True)
    on_demand.register("shop.rest", lambda: False)
    with caplog.at_level(logging.ERROR):
        scan()
    assert [name for name in sent_sweeps if name.startswith("shop.")] == ["shop.send"]
    assert "shop.count has work failed" in caplog.text
