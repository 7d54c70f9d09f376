"""Who may do what: every method of every address with every kind of key. I60, S2.13."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any

import pytest

from apps.access import services as access
from apps.access.rules.clients import Scope
from apps.dispatch.api.urls import urlpatterns as dispatch_urls
from apps.dispatch.services import executors
from apps.jobs.api.urls import urlpatterns as job_urls
from apps.reports.api.urls import urlpatterns as report_urls
from tests import factories
from tests.integration.api.contract import ContractClient
from tests.integration.api.endpoints import ENDPOINTS, Endpoint
from tests.integration.api.world import World, checksum, erase_all_but

pytestmark = pytest.mark.django_db

MakeKey = Callable[..., str]
EVERY_ENDPOINT = pytest.mark.parametrize("endpoint", ENDPOINTS, ids=str)
STRANGERS = ("uid_bob", "gid_other", "uid_nobody", "gid_nobody")


def methods_of_every_address() -> Iterator[tuple[str, str]]:
    for pattern in (*dispatch_urls, *job_urls, *report_urls):
        view: Any = pattern.callback.view_class
        for method in view.http_method_names:
            if method != "head" and hasattr(view, method):
                yield method.upper(), str(pattern.pattern)


def test_every_method_of_every_address_has_its_row() -> None:
    """A new address without a row here has no business in the product."""
    rows = [(endpoint.method, endpoint.route) for endpoint in ENDPOINTS]

    assert sorted(rows) == sorted(methods_of_every_address())


def no_key(make_key: MakeKey, frozen_clock: Any) -> str | None:
    return None


def wrong_secret(make_key: MakeKey, frozen_clock: Any) -> str:
    return make_key().partition(".")[0] + "." + make_key().partition(".")[2]


def unknown_client(make_key: MakeKey, frozen_clock: Any) -> str:
    return "nobody-222222." + make_key().partition(".")[2]


def expired(make_key: MakeKey, frozen_clock: Any) -> str:
    key = make_key(expires_at=frozen_clock.instant + timedelta(seconds=60))
    frozen_clock.advance(seconds=60)
    return key


def revoked(make_key: MakeKey, frozen_clock: Any) -> str:
    key = make_key()
    access.revoke(access.find(key.partition(".")[0]), actor="test")
    return key


@EVERY_ENDPOINT
@pytest.mark.parametrize("kind", [no_key, wrong_secret, unknown_client, expired, revoked])
def test_key_that_opens_nothing_is_answered_401(
    endpoint: Endpoint,
    kind: Callable[..., str | None],
    world: World,
    make_key: MakeKey,
    api_with: Callable[..., ContractClient],
    frozen_clock: Any,
) -> None:
    """I60: whatever the key once could, and nothing is changed."""
    client = api_with(kind(make_key, frozen_clock))
    before = checksum()

    answer = endpoint.request(client, world)

    assert (answer.status_code, answer.json()["code"]) == (401, "not_authenticated")
    assert checksum() == before


@EVERY_ENDPOINT
@pytest.mark.parametrize("scope", list(Scope))
def test_one_scope_opens_what_it_names_and_no_more(
    endpoint: Endpoint,
    scope: str,
    world: World,
    make_key: MakeKey,
    api_with: Callable[..., ContractClient],
) -> None:
    """I60: 403 comes before anything else is checked."""
    client = api_with(make_key(scopes=[scope]))
    before = checksum()

    answer = endpoint.request(client, world)

    if scope == endpoint.scope:
        assert answer.status_code == endpoint.good, answer.content
    else:
        assert (answer.status_code, answer.json()["code"]) == (403, "forbidden")
        assert checksum() == before


@pytest.mark.parametrize(
    ("endpoint", "bound"),
    [(endpoint, name) for endpoint in ENDPOINTS for name in endpoint.own],
    ids=str,
)
def test_key_bound_to_the_object_is_served(
    endpoint: Endpoint,
    bound: str,
    world: World,
    make_key: MakeKey,
    api_with: Callable[..., ContractClient],
) -> None:
    """S0.5: by the name itself, or by a group that stands for its members."""
    answer = endpoint.request(api_with(make_key(executors=[bound])), world)

    assert answer.status_code == endpoint.good, answer.content


FOREIGN = [endpoint for endpoint in ENDPOINTS if "uid_bob" not in endpoint.own]


@pytest.mark.parametrize("endpoint", FOREIGN, ids=str)
@pytest.mark.parametrize("bound", STRANGERS)
def test_object_outside_the_binding_answers_as_an_unknown_one(
    endpoint: Endpoint,
    bound: str,
    world: World,
    make_key: MakeKey,
    api_with: Callable[..., ContractClient],
) -> None:
    """S0.29, I14, I60: byte for byte but for the id of the request, and nothing is changed."""
    client = api_with(make_key(executors=[bound]))
    if endpoint.route == "executors/" and endpoint.method == "POST":
        factories.user("uid_new")
    before = checksum()

    foreign = endpoint.request(client, world)

    assert foreign.status_code == endpoint.foreign, foreign.content
    assert checksum() == before
    erase_all_but({bound, "uid_bob"} if bound == "gid_other" else {bound})
    unknown = endpoint.request(client, world)
    assert without_request_id(foreign) == without_request_id(unknown)


def without_request_id(answer: Any) -> tuple[int, bytes]:
    body = json.loads(answer.content)
    request_id = body.get("request_id", "").encode()
    return answer.status_code, answer.content.replace(request_id, b"") if request_id else (
        answer.content
    )


@pytest.mark.parametrize(
    ("bound", "names"),
    [
        (["uid_bob"], {"uid_bob"}),
        (["gid_other"], {"uid_bob", "gid_other"}),
        (["gid_other", "uid_alice"], {"uid_bob", "gid_other", "uid_alice"}),
    ],
)
def test_bound_key_lists_its_own_only(
    bound: list[str],
    names: set[str],
    world: World,
    make_key: MakeKey,
    api_with: Callable[..., ContractClient],
) -> None:
    """S0.5: in every list, whatever the filter asks for."""
    client = api_with(make_key(executors=bound))

    def listed(path: str, field: str, **query: Any) -> set[Any]:
        answer = client.get(f"/api/v1/{path}/", **query)
        return {row[field] for row in answer.json()["results"]}

    users = {name for name in names if name.startswith("uid_")}
    assert listed("executors", "name") == names
    assert listed("dispatches", "executor") == users
    assert listed("once-tasks", "executor") == users
    for name in ("uid_alice", "gid_sales"):
        expected = {name} & users
        assert listed("dispatches", "executor", executor=name) == expected
        assert listed("once-tasks", "executor", executor=name) == expected
    assert listed("dispatches", "task", task=world.task) == (
        {world.task} if "uid_alice" in names else set()
    )


def test_user_who_left_the_group_is_outside_its_binding_at_once(
    world: World, make_key: MakeKey, api_with: Callable[..., ContractClient]
) -> None:
    """I60: the binding is read at each request."""
    client = api_with(make_key(executors=["gid_sales"]))
    body = {"uid": "uid_alice"}
    before = client.post("/api/v1/dispatch/", body)
    executors.change_members(group=executors.find("gid_sales"), remove=["uid_alice"], actor="test")

    after = client.post("/api/v1/dispatch/", body)

    assert (before.status_code, after.status_code) == (200, 404)


def test_bound_key_cannot_move_a_task_out_of_its_binding(
    world: World, make_key: MakeKey, api_with: Callable[..., ContractClient]
) -> None:
    """S0.5, S0.32: neither to a known executor nor to an unknown one."""
    client = api_with(make_key(executors=["uid_alice"]))
    before = checksum()

    for name in ("uid_bob", "uid_nobody"):
        answer = client.patch(f"/api/v1/once-tasks/{world.task}/", {"executor": name})
        assert answer.status_code == 400
        assert [error["field"] for error in answer.json()["errors"]] == ["executor"]
    assert checksum() == before
