"""What the fixtures promise to the tests that stand on them."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest
from django.conf import settings
from django.contrib.auth.models import Group
from django.core.cache import cache
from django.db import connection
from django.test import Client
from hypothesis import given
from hypothesis import strategies as st

from apps.common import clock, ids
from apps.dispatch.models import Executor, OnceTask
from apps.journal.models import JournalEntry
from taskplatform.roles import ROLES
from tests import factories
from tests.clients import JsonClient
from tests.conftest import VAR_DIR
from tests.emptying import empty_database
from tests.frozen import FrozenClock
from tests.integration.api.world import Untouched
from tests.races import Race

pytestmark = pytest.mark.both

Racers = Callable[[Sequence[Callable[[], Any]]], Race]


def test_settings_of_the_tests_are_their_own() -> None:
    assert settings.VAR_DIR == VAR_DIR.resolve()
    assert "DJANGO_SETTINGS_MODULE" not in os.environ
    assert settings.TIME_ZONE == "UTC"


class TestFrozenClock:
    def test_stands_still_until_moved(self, frozen_clock: FrozenClock) -> None:
        assert clock.now() == clock.now() == datetime(2026, 3, 2, 9, tzinfo=UTC)

        frozen_clock.advance(minutes=1, seconds=1)
        assert clock.now() == datetime(2026, 3, 2, 9, 1, 1, tzinfo=UTC)

    def test_moves_to_an_instant_of_any_zone(self, frozen_clock: FrozenClock) -> None:
        frozen_clock.move_to(datetime(2026, 3, 2, 8, tzinfo=timezone(timedelta(hours=8))))

        assert clock.now() == datetime(2026, 3, 2, 0, tzinfo=UTC)
        assert clock.now().tzinfo is UTC

    def test_refuses_an_instant_without_a_zone(self, frozen_clock: FrozenClock) -> None:
        with pytest.raises(ValueError, match="has no zone"):
            frozen_clock.move_to(datetime(2026, 3, 2))

    @pytest.mark.django_db
    def test_governs_other_threads_and_new_ids(self, frozen_clock: FrozenClock) -> None:
        seen = []
        thread = threading.Thread(target=lambda: seen.append(clock.now()))
        thread.start()
        thread.join()

        assert seen == [frozen_clock.instant]
        after = ids.lowest_id_at(frozen_clock.instant + timedelta(milliseconds=1))
        assert ids.lowest_id_at(frozen_clock.instant) <= ids.next_id() < after


class TestApi:
    def test_key_opens_what_its_scopes_allow(
        self, make_key: Callable[..., str], api_with: Callable[..., JsonClient]
    ) -> None:
        path = "/api/v1/executors/"
        answers = [
            api_with(key).get(path, limit=5).status_code
            for key in (make_key(scopes=["read"]), make_key(scopes=["pull"]), None, "no.key")
        ]
        assert answers == [200, 403, 401, 401]

    def test_key_bound_to_an_executor_sees_only_that(
        self, make_key: Callable[..., str], api_with: Callable[..., JsonClient]
    ) -> None:
        factories.user("uid_alice")
        factories.user("uid_bob")
        alice = api_with(make_key(executors=["uid_alice"]))

        pulled = [
            alice.post("/api/v1/dispatch/", {"uid": uid}).status_code
            for uid in ("uid_alice", "uid_bob")
        ]
        assert pulled == [204, 404]

    def test_raw_bytes_are_sent_as_they_are(self, api: JsonClient) -> None:
        answer = api.post("/api/v1/dispatch/", raw=b"{")

        assert (answer.status_code, answer.json()["code"]) == (400, "malformed")


class TestSignedIn:
    def test_superuser_sees_the_admin(self, admin_client: Client) -> None:
        assert admin_client.get("/admin/").status_code == 200

    @pytest.mark.parametrize("role", ["viewer", "operator", "configurer"])
    def test_role_sees_the_admin(self, role_client: Callable[[str], Client], role: str) -> None:
        assert role_client(role).get("/admin/").status_code == 200


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

    def test_results_are_in_the_order_of_the_calls(self, racers: Racers) -> None:
        assert racers([lambda n=n: n for n in range(5)]).results == [0, 1, 2, 3, 4]

    def test_one_failing_call_does_not_hide_the_others(self, racers: Racers) -> None:
        def fail() -> None:
            raise ValueError("lost")

        race = racers([lambda: "won", fail])

        assert race.outcomes[0] == "won"
        assert [str(error) for error in race.errors] == ["lost"]
        with pytest.raises(ExceptionGroup, match="1 of the racing calls failed"):
            _ = race.results

    def test_rows_committed_by_the_test_are_seen_by_racers(self, racers: Racers) -> None:
        factories.user("uid_alice")

        results = racers([lambda: factories.member("uid_alice").name] * 2).results

        assert results == ["uid_alice"] * 2

    @pytest.mark.mariadb
    def test_mark_mariadb_runs_on_mariadb_only(self, racers: Racers) -> None:
        assert connection.vendor == "mysql"
        assert racers([lambda: connection.vendor] * 64).results == ["mysql"] * 64


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


@pytest.mark.django_db
def test_rows_are_seen_to_be_touched_and_to_be_as_they_were_again() -> None:
    factories.user("uid_a")
    with Untouched() as rows:
        assert Executor.objects.get().name == "uid_a"
        assert rows
        Executor.objects.update(enabled=False)
        assert not rows
        Executor.objects.update(enabled=True)
        assert rows
