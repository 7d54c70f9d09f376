"""Rotations: due again and again by rule, each occurrence with a stock of its own."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from apps.common.errors import LimitReached
from apps.dispatch.models import Dispatch, Executor, RotateTask
from apps.dispatch.services import tasks
from tests import callback, factories
from tests.integration.dispatch.housekeeping import is_idle

pytestmark = [pytest.mark.django_db, pytest.mark.both]

OLGA = factories.OPERATOR


def finish(executor: Executor) -> datetime:
    """Pull, call back, and the instant at which it was due."""
    return callback.finish(executor).occurrence_at


class TestOccurrences:
    def test_each_comes_once_when_it_is_due(self, alice: Executor, frozen_clock: Any) -> None:
        """S0.11, S0.22, I20: start + k · space, the first run at the start included."""
        start = frozen_clock.instant
        task = factories.rotation(alice, rule={"every_minutes": 30})
        assert finish(alice) == start
        assert is_idle(alice)
        frozen_clock.advance(minutes=29, seconds=59)
        assert is_idle(alice)
        frozen_clock.advance(seconds=1)
        assert finish(alice) == start + timedelta(minutes=30)
        second = Dispatch.objects.latest("pk")
        assert (second.source, second.task) == ("rotate", task.pk)
        assert second.occurrence == int(second.occurrence_at.timestamp())

    def test_local_time_follows_the_zone(self, alice: Executor, frozen_clock: Any) -> None:
        """S0.11, I21: 10:30 in Berlin is 09:30 UTC in winter and 08:30 in summer."""
        factories.rotation(alice, rule={"every_days": 1, "at": "10:30"}, time_zone="Europe/Berlin")
        assert is_idle(alice)
        frozen_clock.move_to(datetime(2026, 3, 2, 9, 30, tzinfo=UTC))
        assert finish(alice) == frozen_clock.instant
        frozen_clock.move_to(datetime(2026, 4, 1, 8, 29, 59, tzinfo=UTC))
        finish(alice)
        assert is_idle(alice)
        frozen_clock.advance(seconds=1)
        assert finish(alice) == frozen_clock.instant


class TestEdits:
    def test_edit_never_makes_a_new_past(self, alice: Executor, frozen_clock: Any) -> None:
        """I23: the new rule counts from the edit on, and what is handed out stays as it was."""
        task = factories.rotation(alice, misfire="all")
        first = finish(alice)
        frozen_clock.advance(minutes=11)
        tasks.update_task(task=task, changes={"rule": {"every_minutes": 5}}, actor=OLGA)
        assert is_idle(alice)
        frozen_clock.advance(minutes=4)
        assert finish(alice) == first + timedelta(minutes=15)

    def test_what_had_ended_goes_on_without_what_it_missed(
        self, alice: Executor, frozen_clock: Any
    ) -> None:
        """I23: what would have been due since its end was never planned."""
        start = frozen_clock.instant
        task = factories.rotation(alice, misfire="all", end_at=start + timedelta(minutes=40))
        assert finish(alice) == start
        frozen_clock.advance(hours=2, minutes=10)
        tasks.update_task(task=task, changes={"end_at": None}, actor=OLGA)
        assert is_idle(alice)
        frozen_clock.advance(minutes=20)
        assert finish(alice) == frozen_clock.instant

    def test_change_of_the_default_zone_refires_nothing(
        self, alice: Executor, frozen_clock: Any, settings: Any
    ) -> None:
        """I24: a task keeps the zone that it was planned in."""
        factories.rotation(alice, rule={"cron": "0 9 * * *"})
        finish(alice)
        settings.TIME_ZONE = "Asia/Tokyo"
        assert is_idle(alice)
        assert RotateTask.objects.get().time_zone == "UTC"


class TestLimits:
    def test_rotations_per_executor_are_limited(self, alice: Executor, settings: Any) -> None:
        """S0.23: a clear error at the limit; paused ones do not count, resuming does."""
        settings.ROTATIONS_PER_EXECUTOR = 2
        factories.rotation(alice)
        paused = factories.rotation(alice, status="paused")
        factories.rotation(alice)
        with pytest.raises(LimitReached, match="uid_alice has 2 active rotations"):
            factories.rotation(alice)
        with pytest.raises(LimitReached):
            tasks.update_task(task=paused, changes={"status": "active"}, actor=OLGA)
        factories.rotation(factories.user("uid_bob"))
        assert RotateTask.objects.filter(executor=alice).count() == 3

    def test_edit_at_the_limit_is_allowed(self, alice: Executor, settings: Any) -> None:
        settings.ROTATIONS_PER_EXECUTOR = 1
        task = factories.rotation(alice)
        assert tasks.update_task(task=task, changes={"priority": 1}, actor=OLGA).priority == 1
