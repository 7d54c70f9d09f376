"""What the fixtures promise to the tests that stand on them."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any

import pytest
from django.conf import settings
from django.contrib.auth.models import Group
from django.core.cache import cache
from django.db import connection
from hypothesis import given
from hypothesis import strategies as st

from apps.common import clock, ids
from apps.dispatch.models import Executor, OnceTask
from apps.journal.models import JournalEntry
from taskplatform.capabilities import ROLES
from tests import factories
from tests.conftest import VAR_DIR
from tests.emptying import empty_database
from tests.frozen import FrozenClock
from tests.races import Race

pytestmark = pytest.mark.both

Racers = Callable[[Sequence[Callable[[], Any]]], Race]


def test_settings_of_the_tests_are_their_own() -> None:
    assert settings.VAR_DIR == VAR_DIR.resolve()
    assert "DJANGO_SETTINGS_MODULE" not in os.environ
    assert settings.TIME_ZONE == "UTC"


@pytest.mark.django_db
def test_governs_other_threads_and_new_ids(frozen_clock: FrozenClock) -> None:
    seen = []
    thread = threading.Thread(target=lambda: seen.append(clock.now()))
    thread.start()
    thread.join()

    assert seen == [frozen_clock.instant]
    after = ids.lowest_id_at(frozen_clock.instant + timedelta(milliseconds=1))
    assert ids.lowest_id_at(frozen_clock.instant) <= ids.next_id() < after


@pytest.mark.parametrize("turn", [1, 2])
def test_cache_is_empty_at_the_start_of_each_test(turn: int) -> None:
    assert cache.get("left-behind") is None
    cache.set("left-behind", turn)


class TestRacers:
    def test_each_call_runs_beside_the_others_on_its_own_connection(self, racers: Racers) -> None:
        together = threading.Barrier(4)

        def call() -> int:
            together.wait(10)
            return id(connection.connection)

        results = racers([call] * 4).results

        assert len({*results, id(connection.connection)}) == 5

    def test_one_failing_call_does_not_hide_the_others(self, racers: Racers) -> None:
        def fail() -> None:
            raise ValueError("lost")

        race = racers([lambda: "won", fail])

        assert race.outcomes[0] == "won"
        assert [str(error) for error in race.errors] == ["lost"]
        with pytest.raises(ExceptionGroup, match="1 of the racing calls failed"):
            _ = race.results


def test_examples_of_hypothesis_follow_the_printed_seed(request: pytest.FixtureRequest) -> None:
    def examples() -> list[int]:
        drawn: list[int] = []

        @given(st.integers())
        def draw(number: int) -> None:
            drawn.append(number)

        draw()
        return drawn

    assert request.config.getoption("randomly_seed") is not None
    assert examples() == examples()


@pytest.mark.django_db(transaction=True)
class TestEmptying:
    def test_all_goes_but_what_migrate_makes(self) -> None:
        empty_database()
        roles = list(Group.objects.values_list("pk", "name"))
        factories.once_task(factories.group(members=["uid_alice"]))

        empty_database()

        assert not Executor.objects.exists() and not OnceTask.objects.exists()
        assert not JournalEntry.objects.exists()
        assert list(Group.objects.values_list("pk", "name")) == roles

    def test_role_that_a_test_has_changed_is_made_anew(self) -> None:
        empty_database()
        Group.objects.get(name="viewer").permissions.clear()
        Group.objects.filter(name="operator").delete()

        empty_database()

        assert set(Group.objects.values_list("name", flat=True)) == set(ROLES)
        assert Group.objects.get(name="viewer").permissions.count() == len(ROLES["viewer"])
