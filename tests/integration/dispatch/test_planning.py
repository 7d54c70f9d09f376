"""Planning: executors, templates, once tasks and rotations, whose occurrences have stocks each."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from apps.common.errors import Invalid, LimitReached
from apps.common.json_rules import canonical
from apps.dispatch.models import Dispatch, Executor, OnceTask, RotateTask
from apps.dispatch.services import executors, tasks, templates
from apps.journal.models import JournalEntry
from tests import callback, factories
from tests.integration.dispatch.housekeeping import is_idle

pytestmark = [pytest.mark.django_db, pytest.mark.both]

OLGA = factories.OPERATOR


def plan_version(name: str) -> int:
    return Executor.objects.get(name=name).plan_version


def last_entry() -> JournalEntry:
    entry = JournalEntry.objects.filter(source="plan").order_by("id").last()
    assert entry is not None
    return entry


class TestExecutors:
    def test_membership_change_touches_the_plan_of_that_user_only(self) -> None:
        """S0.5, S0.32: the queue of who joined is void, nobody else's."""
        group = factories.group("gid_a", ["uid_a"])
        before = plan_version("uid_a"), plan_version("gid_a")
        executors.change_members(group=group, add=["uid_b"], actor=OLGA)
        assert (plan_version("uid_a"), plan_version("gid_a")) == before
        assert plan_version("uid_b") == 1


class TestTemplates:
    def test_true_is_another_word_of_a_schema_than_1(self) -> None:
        for number, value in enumerate((1, True, 1.0), start=1):
            schema = {"type": "object", "properties": {"n": {"const": value}}}
            assert factories.template("photo", schema).version == number

    def test_retired_template_cannot_be_chosen_but_stays_where_it_is(self) -> None:
        """S0.2: its status is enforced."""
        template = factories.template("photo")
        task = factories.once_task(factories.user(), template=template, params={"shop": "A"})
        assert templates.set_status(template=template, status="retired", actor=OLGA)
        assert not templates.set_status(template=template, status="retired", actor=OLGA)
        tasks.update_task(task=task, changes={"params": {"shop": "B"}}, actor=OLGA)
        with pytest.raises(Invalid, match="photo v1 is retired"):
            factories.once_task(task.executor, template=template, params={"shop": "A"})
        with pytest.raises(Invalid, match="retired"):
            templates.find_usable("photo")


class TestOnceTasks:
    def test_true_is_another_param_than_1(self) -> None:
        """I18: what the answer shows is what is stored."""
        task = factories.once_task(factories.user(), params={"deep": [{"n": 1}]})
        for value in (True, 1.0, 1):
            changed = tasks.update_task(
                task=task, changes={"params": {"deep": [{"n": value}]}}, actor=OLGA
            )
            stored = OnceTask.objects.get(pk=task.pk)
            assert canonical(stored.params) == canonical(changed.params)
            assert type(stored.params["deep"][0]["n"]) is type(value)


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
