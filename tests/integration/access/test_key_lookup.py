"""How long a key is cached, and when its use is recorded."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.db import OperationalError, connection, transaction
from pytest_django import DjangoAssertNumQueries
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from apps.access import authentication, services
from apps.access.authentication import KeyLookup
from apps.access.models import ApiClient
from apps.access.rules import keys
from apps.access.rules.clients import Binding
from tests.frozen import FrozenClock
from tests.integration.access.conftest import START, Call, bearer, elapsed_of, make

pytestmark = [pytest.mark.django_db, pytest.mark.both, pytest.mark.usefixtures("frozen_clock")]


class Process:
    """The keys that one process has in memory; several share the database and the time."""

    def __init__(self, moving: FrozenClock) -> None:
        self.clock = moving
        self.lookup = KeyLookup(elapsed_of(moving))

    def lets_in(self, key: str) -> bool:
        credentials = keys.read_header(bearer(key))
        return self.lookup.find(credentials, self.clock()) is not None


@pytest.fixture
def processes(frozen_clock: FrozenClock) -> list[Process]:
    return [Process(frozen_clock), Process(frozen_clock)]


def test_use_does_not_prolong_the_belief_in_a_revoked_key(
    processes: list[Process], frozen_clock: FrozenClock
) -> None:
    """I60: a key in constant use is refused as soon as one that is not."""
    client, key = make()
    processes[0].lets_in(key)
    services.revoke(client, actor="ada")

    answers = []
    for _ in range(10):
        frozen_clock.advance(seconds=0.1)
        answers.append(processes[0].lets_in(key))

    assert answers == [True] * 4 + [False] * 6


def test_slow_read_counts_against_the_belief(
    processes: list[Process], frozen_clock: FrozenClock
) -> None:
    """I60: what was read may be as old as the moment of asking."""
    client, key = make()

    def slow(execute: Any, sql: str, params: Any, many: bool, context: Any) -> Any:
        answer = execute(sql, params, many, context)
        frozen_clock.advance(seconds=0.4)
        return answer

    with connection.execute_wrapper(slow):
        assert processes[0].lets_in(key)
    services.revoke(client, actor="ada")

    frozen_clock.advance(seconds=0.2)
    assert not processes[0].lets_in(key)


def test_key_that_expires_is_refused_at_that_instant_by_every_process(
    processes: list[Process], frozen_clock: FrozenClock
) -> None:
    """I60: the expiry in memory needs no reading."""
    _, key = make(expires_at=START + timedelta(seconds=0.1))
    assert [process.lets_in(key) for process in processes] == [True, True]

    frozen_clock.advance(seconds=0.1)

    assert [process.lets_in(key) for process in processes] == [False, False]


def test_rotated_key_opens_at_once_in_a_process_that_believes_the_old_one(
    processes: list[Process],
) -> None:
    client, old = make()
    processes[0].lets_in(old)

    new = services.rotate(client, actor="ada")

    assert processes[0].lets_in(new)
    assert processes[0].lets_in(old)


def test_key_in_use_is_read_from_the_database_twice_a_second(
    processes: list[Process],
    frozen_clock: FrozenClock,
    django_assert_num_queries: DjangoAssertNumQueries,
) -> None:
    _, key = make()

    with django_assert_num_queries(2):
        for _ in range(10):
            processes[0].lets_in(key)
            frozen_clock.advance(seconds=0.1)


def test_memory_of_keys_is_bounded(
    processes: list[Process], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(authentication, "MAX_BELIEVED", 2)

    keys_of_three = [make()[1] for _ in range(3)]

    assert all(processes[0].lets_in(key) for key in keys_of_three)
    assert len(processes[0].lookup._believed) <= 2


def test_last_use_is_written_once_a_minute(
    call: Call, frozen_clock: FrozenClock, processes: list[Process]
) -> None:
    client, key = make()
    unused, _ = make()

    def last_used() -> Any:
        return ApiClient.objects.get(pk=client.pk).last_used_at

    call(bearer(key))
    assert last_used() == START
    frozen_clock.advance(seconds=59)
    call(bearer(key))
    assert last_used() == START
    frozen_clock.advance(seconds=1)
    call(bearer(key))
    assert last_used() == START + timedelta(seconds=60)
    assert ApiClient.objects.get(pk=unused.pk).last_used_at is None


def test_last_use_noted_by_another_process_is_not_written_over(
    frozen_clock: FrozenClock, processes: list[Process]
) -> None:
    _, key = make()
    opened = processes[0].lookup.find(keys.read_header(bearer(key)), START)
    assert opened is not None
    ApiClient.objects.update(last_used_at=START + timedelta(seconds=30))
    frozen_clock.advance(seconds=31)

    authentication._note_use(opened.row, frozen_clock())

    assert ApiClient.objects.get().last_used_at == START + timedelta(seconds=30)


def test_failed_attempt_is_no_use(call: Call) -> None:
    client, _ = make()

    call(bearer(f"{client.client_id}.wrong"))

    assert ApiClient.objects.get().last_used_at is None


@pytest.mark.django_db(transaction=True)
def test_last_use_stays_when_the_business_transaction_is_rolled_back(call: Call) -> None:
    class Fails(APIView):
        scopes = {"GET": "read"}
        bindings = frozenset[Binding]()

        @transaction.atomic
        def get(self, request: Request) -> Response:
            transaction.set_rollback(True)
            return Response()

    _, key = make()

    assert call(bearer(key), view=Fails).status_code == 200
    assert ApiClient.objects.get().last_used_at == START


def test_busy_database_loses_the_last_use_and_not_the_request(
    call: Call, caplog: pytest.LogCaptureFixture
) -> None:
    client, key = make()

    def busy(execute: Any, sql: str, params: Any, many: bool, context: Any) -> Any:
        if sql.startswith("UPDATE"):
            raise OperationalError("database is locked")
        return execute(sql, params, many, context)

    with connection.execute_wrapper(busy):
        assert call(bearer(key)).status_code == 200

    assert f"the last use of {client.client_id} was not written: database is locked" in caplog.text
