"""Rotations: due again and again by rule, each occurrence with a stock of its own."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from apps.common.errors import Invalid, LimitReached
from apps.dispatch.models import Dispatch, Executor, RotateTask, Stock
from apps.dispatch.services import tasks
from apps.dispatch.services.pull import Nothing
from tests import callback, factories
from tests.callback import take_next, taken
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

    def test_stock_counts_per_occurrence(self, frozen_clock: Any) -> None:
        """S0.9: a series does not die after N hand-outs."""
        group = factories.group("gid_all", ["uid_a", "uid_b", "uid_c"])
        factories.rotation(group, mode="multi", dispatch_times=2)
        for _ in range(3):
            for name in ("uid_a", "uid_b"):
                finish(factories.member(name))
            assert is_idle(factories.member("uid_c"))
            frozen_clock.advance(minutes=30)
        assert list(Stock.objects.values_list("handed", flat=True)) == [2, 2, 2]

    def test_two_due_at_the_same_instant_are_both_served(
        self, alice: Executor, frozen_clock: Any
    ) -> None:
        """S0.22: the second of two equal instants is not lost."""
        first = factories.rotation(alice)
        once = factories.once_task(alice)
        second = factories.rotation(alice)
        order = [(taken(alice).source, taken(alice).task)]
        for _ in range(2):
            callback.finish(alice)
            order.append((taken(alice).source, taken(alice).task))
        assert order == [("once", once.pk), ("rotate", first.pk), ("rotate", second.pk)]

    def test_nothing_is_stored_before_it_is_handed_out(self, alice: Executor) -> None:
        """I19: occurrences are values."""
        factories.rotation(alice, start_at=datetime(2026, 1, 1, tzinfo=UTC))
        assert not Stock.objects.exists()
        assert not Dispatch.objects.exists()

    def test_retry_after_names_the_next_instant(self, alice: Executor, frozen_clock: Any) -> None:
        factories.rotation(alice, start_at=frozen_clock.instant + timedelta(seconds=20))
        answer = take_next(alice)
        assert isinstance(answer, Nothing)
        assert 20 <= answer.retry_after <= 22

    def test_ends_before_its_end(self, alice: Executor, frozen_clock: Any) -> None:
        factories.rotation(alice, end_at=frozen_clock.instant + timedelta(minutes=30))
        finish(alice)
        frozen_clock.advance(minutes=30)
        assert is_idle(alice)

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


class TestMisfire:
    @pytest.mark.parametrize(
        ("misfire", "limit", "minutes"),
        [("skip", 10, [0]), ("once", 10, [-30, 0]), ("all", 3, [-90, -60, -30, 0])],
    )
    def test_missed_occurrences_by_policy(
        self, alice: Executor, frozen_clock: Any, misfire: str, limit: int, minutes: list[int]
    ) -> None:
        """S0.22, I22: skip, the newest, or the newest up to a limit."""
        factories.rotation(alice, misfire=misfire, misfire_limit=limit)
        frozen_clock.advance(hours=4, minutes=10)
        current = frozen_clock.instant - timedelta(minutes=10)
        got = [finish(alice) for _ in minutes]
        assert got == [current + timedelta(minutes=m) for m in minutes]
        assert is_idle(alice)

    def test_past_start_has_past_occurrences(self, alice: Executor, frozen_clock: Any) -> None:
        """A rotation created with a past start has instants before its creation."""
        start = frozen_clock.instant - timedelta(minutes=70)
        factories.rotation(alice, start_at=start, misfire="all", misfire_limit=10)
        assert [finish(alice) for _ in range(3)] == [
            start + timedelta(minutes=m) for m in (0, 30, 60)
        ]
        assert is_idle(alice)


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

    def test_resumed_rotation_forgets_its_pause(self, alice: Executor, frozen_clock: Any) -> None:
        task = factories.rotation(alice, misfire="all", status="paused")
        frozen_clock.advance(hours=2, minutes=10)
        assert is_idle(alice)
        resumed = tasks.update_task(task=task, changes={"status": "active"}, actor=OLGA)
        assert resumed.effective_from == frozen_clock.instant
        assert is_idle(alice)
        frozen_clock.advance(minutes=20)
        assert finish(alice) == frozen_clock.instant

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

    def test_other_edits_keep_the_series(self, alice: Executor, frozen_clock: Any) -> None:
        task = factories.rotation(alice)
        frozen_clock.advance(minutes=10)
        changes = {"priority": 5, "end_at": frozen_clock.instant + timedelta(days=1)}
        for end_at in (changes["end_at"], None):
            changed = tasks.update_task(
                task=task, changes={**changes, "end_at": end_at}, actor=OLGA
            )
            assert changed.effective_from == task.start_at
        assert finish(alice) == task.start_at

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

    def test_bad_rule_is_refused_at_its_field(
        self, alice: Executor, subtests: pytest.Subtests
    ) -> None:
        """S0.11: space ≤ 0 is refused."""
        cases: list[tuple[str, dict[str, Any]]] = [
            ("rule.every_minutes", {"rule": {"every_minutes": 0}}),
            ("rule.cron", {"rule": {"cron": "61 * * * *"}}),
            ("rule.at", {"rule": {"every_days": 1, "at": "25:00"}}),
            ("rule", {"rule": {}}),
            ("time_zone", {"time_zone": "Mars/Olympus"}),
            ("misfire", {"misfire": "never"}),
            ("misfire_limit", {"misfire_limit": 0}),
        ]
        for field, fields in cases:
            with subtests.test(field=field):
                with pytest.raises(Invalid) as caught:
                    factories.rotation(alice, **fields)
                assert [error.field for error in caught.value.errors] == [field]
                assert not RotateTask.objects.exists()
