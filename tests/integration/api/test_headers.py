"""Headers of requests and answers: keys, rates, ids, and the database away. I60, S0.25."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest
from django.db import DatabaseError, InterfaceError, OperationalError, connection

from tests.emptying import undone
from tests.integration.api.contract import ApiFor, ContractClient
from tests.integration.api.endpoints import ENDPOINTS
from tests.integration.api.world import World

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("world")]

EXECUTORS = "/api/v1/executors/"


@pytest.mark.both
def test_answers_are_not_stored_and_carry_their_id(world: World, api: ContractClient) -> None:
    """S0.26: the caller's id when it is one, in good answers as in problems."""
    for endpoint in ENDPOINTS:
        with undone():
            answer = endpoint.request(api, world, headers={"X-Request-Id": "till-7.3"})

        assert answer.headers["X-Request-Id"] == "till-7.3", endpoint
        assert "no-store" in answer.headers["Cache-Control"], endpoint
        assert answer.headers["X-Content-Type-Options"] == "nosniff", endpoint
        assert "Set-Cookie" not in answer.headers, endpoint


def test_request_id_that_is_none_is_replaced(
    api: ContractClient, subtests: pytest.Subtests
) -> None:
    """S0.26: nothing of the caller's own is written into logs as it is."""
    for given in ("", "a b", "x" * 65, "ä", "a\nb", "<script>"):
        with subtests.test(given=given):
            answer = api.request("GET", f"{EXECUTORS}nobody/", headers={"X-Request-Id": given})

            assert answer.status_code == 404
            assert answer.json()["request_id"] != given


class TestKeys:
    def test_key_in_the_address_is_none(self, make_key: Callable[..., str]) -> None:
        """I60: 401 without the header, an unknown parameter beside it."""
        key = make_key()

        for name in ("key", "api_key", "token", "access_token", "authorization"):
            without = ContractClient(None).get(EXECUTORS, **{name: key})
            beside = ContractClient(key).get(EXECUTORS, **{name: key})
            assert (without.status_code, beside.status_code) == (401, 400)
            assert key not in without.content.decode() + beside.content.decode()

    def test_failures_are_counted_by_the_real_address(self) -> None:
        """I60: claims of a proxy change nothing; 429 says how long to wait."""
        client = ContractClient("nobody-222222." + "x" * 43)
        statuses = []
        for number in range(22):
            forged = {"X-Forwarded-For": f"10.0.0.{number}", "X-Real-Ip": f"10.0.0.{number}"}
            answer = client.request("GET", EXECUTORS, headers=forged)
            statuses.append(answer.status_code)

        assert statuses == [401] * 20 + [429] * 2
        assert 1 <= int(answer.headers["Retry-After"]) <= 60
        assert answer.json()["code"] == "throttled"


def test_key_over_its_rate_is_answered_429(world: World, api_for: ApiFor) -> None:
    """S0.25: with the seconds left of its minute, on whichever address."""
    client = api_for(rate="1/m")
    client.get(EXECUTORS)

    for endpoint in ENDPOINTS:
        answer = endpoint.request(client, world)

        found = (answer.status_code, answer.json().get("code"))
        assert found == (429, "throttled"), endpoint
        assert answer.headers["Retry-After"] == "60", endpoint


def test_accept_is_not_asked(api: ContractClient, subtests: pytest.Subtests) -> None:
    """S0.29: there is one form, for good answers and problems."""
    for accept in ("text/html", "application/xml", "*/*", "application/json;q=0", "", "x" * 9000):
        with subtests.test(accept=accept):
            good = api.request("GET", EXECUTORS, headers={"Accept": accept})
            problem = api.request("GET", f"{EXECUTORS}nobody/", headers={"Accept": accept})

            assert (good.status_code, problem.status_code) == (200, 404)
            assert good.headers["Content-Type"] == "application/json"


def test_language_is_english(api: ContractClient, subtests: pytest.Subtests) -> None:
    """S0.29: programs read the same sentences everywhere."""
    body = {"title": "", "executor": "uid_alice"}
    plain = api.post("/api/v1/once-tasks/", body).json()["detail"]
    for language in ("zh-hans", "zh-CN,zh;q=0.9", "ar"):
        with subtests.test(language=language):
            answer = api.post("/api/v1/once-tasks/", body, headers={"Accept-Language": language})

            assert answer.json()["detail"] == plain


def test_foreign_host_is_refused(api: ContractClient, subtests: pytest.Subtests) -> None:
    """S0.29: as a problem like any other."""
    for host in ("evil.example", "127.0.0.1:8000@evil", "a" * 300, "\xff"):
        with subtests.test(host=host):
            answer = api.request("GET", EXECUTORS, headers={"Host": host})

            assert (answer.status_code, answer.json()["code"]) == (400, "invalid")


@pytest.mark.parametrize(
    "error",
    [
        OperationalError(2006, "Server has gone away"),
        OperationalError(2013, "Lost connection to server during query"),
        OperationalError("database is locked"),
        InterfaceError(0, "connection already closed"),
    ],
    ids=str,
)
def test_database_away_is_answered_503(
    error: DatabaseError, world: World, api: ContractClient
) -> None:
    """S0.25, S0.27: when to ask again, and nothing of the inside."""

    def fail(execute: Any, sql: str, params: Any, many: bool, context: Any) -> Any:
        apps = ("dispatch_", "jobs_", "schedules_", "bulk_", "reports_", "flows_")
        if any(app in sql for app in apps):
            raise error
        return execute(sql, params, many, context)

    for endpoint in ENDPOINTS:
        with undone(), connection.execute_wrapper(fail):
            answer = endpoint.request(api, world)

        found = (answer.status_code, answer.json().get("code"))
        assert found == (503, "unavailable"), endpoint
        assert 1 <= int(answer.headers["Retry-After"]) <= 5, endpoint
        assert re.search("away|busy", answer.json()["detail"]), endpoint
