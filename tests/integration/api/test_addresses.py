"""Addresses that do not exist and methods they do not know answer as problems too. S0.29."""

from __future__ import annotations

from typing import Any

import pytest

from tests.integration.api.contract import ContractClient
from tests.integration.api.endpoints import ENDPOINTS
from tests.integration.api.world import Untouched, World

pytestmark = pytest.mark.django_db

METHODS = {"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "PROPFIND"}


def known_methods(route: str) -> set[str]:
    """The methods of an address, as Allow names them."""
    methods = {endpoint.method for endpoint in ENDPOINTS if endpoint.route == route}
    return methods | {"HEAD"} if "GET" in methods else methods


EVERY_ROUTE = {endpoint.route: endpoint for endpoint in ENDPOINTS}.values()


def test_unknown_method_is_405_with_the_known_ones(world: World, api: ContractClient) -> None:
    """S0.29: Allow lists exactly what works; nothing is changed."""
    with Untouched() as rows:
        for endpoint in EVERY_ROUTE:
            known = known_methods(endpoint.route)
            for method in METHODS - known:
                # Before the query is checked: there is nothing that it could be for.
                path = f"{endpoint.address(world)}?limit=x"
                answer = api.request(method, path, {"uid": "uid_alice"})
                assert answer.status_code == 405, (endpoint.route, method)
                assert set(answer.headers["Allow"].split(", ")) == known, endpoint.route
                if method != "HEAD":
                    assert answer.json()["code"] == "method_not_allowed", (endpoint.route, method)
            assert rows, endpoint.route


def test_strangers_do_not_learn_methods(world: World) -> None:
    """S0.29: without a key every method answers 401."""
    for endpoint in EVERY_ROUTE:
        for method in METHODS:
            answer = ContractClient(None).request(method, endpoint.address(world))
            assert answer.status_code == 401, (endpoint.route, method)


def test_head_is_get_without_body(world: World, api: ContractClient) -> None:
    """S0.29: same status and headers."""
    for endpoint in EVERY_ROUTE:
        if "HEAD" not in known_methods(endpoint.route):
            answer = api.request("HEAD", endpoint.address(world))
            assert answer.status_code == 405, endpoint.route
            continue
        got = api.request("GET", endpoint.address(world))

        answer = api.request("HEAD", endpoint.address(world))

        assert (answer.status_code, answer.content) == (200, b""), endpoint.route
        for name in ("Content-Type", "Content-Length", "Cache-Control", "Allow"):
            assert answer.headers.get(name) == got.headers.get(name), (endpoint.route, name)


def test_address_without_its_slash_is_not_found(world: World, api: ContractClient) -> None:
    """S0.29: no redirect, which would turn a POST into a GET; the detail mentions the slash."""
    with Untouched() as rows:
        for endpoint in EVERY_ROUTE:
            for method in ("GET", "POST", "PUT", "PATCH", "DELETE"):
                address = endpoint.address(world).partition("?")[0].rstrip("/")
                answer = api.request(method, address, {"uid": "uid_alice"})
                found = (answer.status_code, answer.json()["code"])
                assert found == (404, "not_found"), (endpoint.route, method)
                assert "slash" in answer.json()["detail"], (endpoint.route, method)
            assert rows, endpoint.route


UNKNOWN = [
    "/api/v1/",
    "/api/",
    "/api/v2/dispatch/",
    "/api/v1/Dispatch/",
    "/api/v1/dispatch//",
    "/api/v1//dispatch/",
    "/api/v1/dispatch/x/",
    "/api/v1/dispatch/;x=1/",
    "/api/v1/job/",
    "/api/v1/jobs/hold/x/",
    "/api/v1/job-types//",
    "/api/v1/executors/uid_a/b/",
    "/api/v1/executors//members/",
    "/api/v1/dispatches/1/2/",
    "/api/v1/once-tasks/1;drop/",
    "/api/v1/once-tasks/1%2F/",
    "/api/v1/once-tasks/%00/",
    "/api/v1/once-tasks/%ff/",
    "/api/v1/executors/%00/",
    "/api/v1/executors/%ff%fe/",
    "/api/v1/executors/%ED%A0%80/",
    "/api/v1/executors/..%2f..%2fetc/",
    "/api/v1/executors/uid_%0d%0aX-Evil:1/",
    "/api/v1/templates/%ff/",
    "/api/v1/templates/%F0%9F%98%80/",
    "/api/v1/templates//",
    "/api/v1/templates/" + "x" * 8000 + "/",
    "/api/v1/" + "x/" * 4000,
]


def test_unknown_address_is_not_found(
    world: World, api: ContractClient, subtests: pytest.Subtests
) -> None:
    """S0.29: 404 as a problem, nothing of the address but its text comes back."""
    for path in UNKNOWN:
        is_template = path.startswith("/api/v1/templates/") and not path.endswith("//")
        body: Any = {"schema": {"type": "object"}} if is_template else {}
        for method in ("GET", "PUT"):
            with subtests.test(f"{method} {path[:50]}"), Untouched() as rows:
                answer = api.request(method, path, body)

                found = (answer.status_code, answer.json()["code"])
                if method == "PUT" and is_template:
                    # It would make the template, were this a name.
                    assert found == (400, "invalid")
                else:
                    assert found == (404, "not_found")
                assert "X-Evil" not in answer.headers
                assert rows
