"""Who may do what: every method of every address with every kind of key. I60, S2.13."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import pytest

from apps.access import services as access
from apps.access.permissions import HasScope
from apps.access.rules.clients import Scope
from apps.dispatch.services import executors
from apps.jobs.models import Job, UniqueLock
from tests import factories
from tests.addresses import every_address
from tests.caches import clear_caches
from tests.emptying import undone
from tests.integration.api.contract import ApiFor, ContractClient, mistakes
from tests.integration.api.endpoints import BASE, ENDPOINTS
from tests.integration.api.world import Untouched, World, checksum, erase_all_but

pytestmark = pytest.mark.django_db

MakeKey = Callable[..., str]
STRANGERS = ("uid_bob", "gid_other", "uid_nobody", "gid_nobody")
# They take no key, or are for people who have signed in.
WITHOUT_KEYS = {"", "favicon.ico", "api/schema/", "api/docs/", "health/live", "health/ready"}
PAGES = ("admin/", "i18n/", "static/")
# Answers of other shapes; integration/asyncflow/test_keys.py has their keys and bindings.
DIALECTS = ("asyncflow/",)
# Prometheus' format, not JSON; test_metrics.py has its keys and bindings.
NOT_JSON = {"metrics"}


def methods_of_every_address() -> Iterator[tuple[str, str, frozenset[str]]]:
    for address, callback in every_address():
        view: Any = getattr(callback, "view_class", None)
        if address not in WITHOUT_KEYS | NOT_JSON and not address.startswith(PAGES + DIALECTS):
            for method in view.http_method_names:
                if method != "head" and hasattr(view, method):
                    yield method.upper(), address, frozenset(view.bindings)


def test_every_method_of_every_address_has_its_row() -> None:
    """A new address without a row that names its bindings has no business in the product."""
    rows = [(each.method, BASE.lstrip("/") + each.route, each.bindings) for each in ENDPOINTS]

    assert sorted(rows, key=str) == sorted(methods_of_every_address(), key=str)


def test_every_address_with_keys_compares_scopes() -> None:
    """A view with permissions of its own would not be held to its scopes and bindings."""
    views = [
        view.view_class
        for _address, view in every_address()
        if hasattr(getattr(view, "view_class", None), "permission_classes")
    ]
    open_views = {"DocumentView", "SpectacularSwaggerSplitView"}
    guarded = [view for view in views if view.__name__ not in open_views]

    assert len(guarded) > len({endpoint.route for endpoint in ENDPOINTS})
    assert all(view.permission_classes == [HasScope] for view in guarded)


def test_key_that_opens_nothing_is_answered_401(world: World, make_key: MakeKey) -> None:
    """I60: whatever the key once could, and nothing is changed."""
    key = make_key()
    access.revoke(access.find(key.partition(".")[0]), actor="test")
    client = ContractClient(key)
    otherwise = []

    with Untouched() as rows:
        for endpoint in ENDPOINTS:
            # Too many wrong keys in a minute would be answered 429.
            clear_caches()
            answer = endpoint.request(client, world)
            found = (answer.status_code, answer.json().get("code"))
            if found != (401, "not_authenticated") or not rows:
                otherwise.append((str(endpoint), found))

    assert not otherwise


def test_scope_opens_what_it_names(
    world: World, api_for: ApiFor, subtests: pytest.Subtests
) -> None:
    """I60: it alone is enough."""
    clients = {scope: api_for(scopes=[scope]) for scope in Scope}
    for endpoint in ENDPOINTS:
        with subtests.test(str(endpoint)), undone():
            answer = endpoint.request(clients[Scope(endpoint.scope)], world)

            assert answer.status_code == endpoint.good, answer.content


@pytest.mark.parametrize("scope", list(Scope))
def test_scope_opens_nothing_else(scope: str, world: World, api_for: ApiFor) -> None:
    """I60: 403 comes before anything else is checked, and nothing is changed."""
    client = api_for(scopes=[scope])
    otherwise = []

    with Untouched() as rows:
        for endpoint in ENDPOINTS:
            if scope != endpoint.scope:
                answer = endpoint.request(client, world)
                found = (answer.status_code, answer.json().get("code"))
                if found != (403, "forbidden") or not rows:
                    otherwise.append((str(endpoint), found))

    assert not otherwise


@pytest.mark.parametrize("bound", ["uid_alice", "gid_sales", "uid_bob", "gid_other"])
def test_key_bound_to_the_object_is_served(
    bound: str, world: World, api_for: ApiFor, subtests: pytest.Subtests
) -> None:
    """S0.5: by the name itself, or by a group that stands for its members."""
    client = api_for(executors=[bound])
    for endpoint in ENDPOINTS:
        if bound in endpoint.own:
            with subtests.test(str(endpoint)), undone():
                answer = endpoint.request(client, world)

                assert answer.status_code == endpoint.good, answer.content


FOREIGN = [endpoint for endpoint in ENDPOINTS if "uid_bob" not in endpoint.own]


@pytest.mark.parametrize("bound", STRANGERS)
@pytest.mark.both
def test_object_outside_the_binding_answers_as_an_unknown_one(
    bound: str, world: World, api_for: ApiFor
) -> None:
    """S0.29, I14, I60: byte for byte but for the id of the request, and nothing is changed."""
    client = api_for(executors=[bound])
    # What one of the endpoints would make.
    factories.user("uid_new")
    foreign, otherwise = {}, []

    with Untouched() as rows:
        for endpoint in FOREIGN:
            answer = foreign[endpoint] = endpoint.request(client, world)
            if answer.status_code != endpoint.foreign or not rows:
                otherwise.append((str(endpoint), answer.status_code, answer.content))
    erase_all_but({bound, "uid_bob"} if bound == "gid_other" else {bound})
    for endpoint in FOREIGN:
        unknown = endpoint.request(client, world)
        if without_request_id(foreign[endpoint]) != without_request_id(unknown):
            otherwise.append((str(endpoint), unknown.status_code, unknown.content))

    assert not otherwise


def listed_by(client: ContractClient, path: str, field: str, **query: Any) -> set[Any]:
    """What stands in a field of the rows of a list."""
    answer = client.get(f"/api/v1/{path}/", **query)
    return {row[field] for row in answer.json()["results"]}


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
    bound: list[str], names: set[str], world: World, api_for: ApiFor
) -> None:
    """S0.5: in every list, whatever the filter asks for."""
    client = api_for(executors=bound)

    listed = partial(listed_by, client)
    users = {name for name in names if name.startswith("uid_")}
    assert listed("jobs", "user_id") == users
    assert listed("jobs", "user_id", user_id="uid_alice") == users & {"uid_alice"}
    assert listed("jobs", "user_id", type="sms", key="order-1") == users & {"uid_bob"}
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


def test_bound_key_reads_no_figures_of_jobs(world: World, api_for: ApiFor) -> None:
    """I60: the reports do not keep apart whose jobs they count."""
    client = api_for(executors=["uid_alice"])

    answer = client.get("/api/v1/reports/summary/", source="job", by="hour")

    assert (answer.status_code, answer.json()["code"]) == (403, "forbidden")


def test_bound_key_submits_for_its_own_users_only(world: World, api_for: ApiFor) -> None:
    client = api_for(executors=["uid_alice"])
    with Untouched() as rows:
        for user in ("", "uid_bob", "uid_nobody", "gid_sales"):
            answer = client.post("/api/v1/jobs/", {"type": "mail", "user_id": user})

            assert mistakes(answer) == ["user_id"], user
            assert rows, user


@pytest.mark.both
def test_bound_key_learns_nothing_of_the_open_twin_of_others(world: World, api_for: ApiFor) -> None:
    """Neither its number nor its state; that there is one cannot be kept from it."""
    factories.job("sms", key="order-9", user_id="uid_bob", unique=True)
    client = api_for(executors=["gid_sales"])
    job = {"type": "sms", "key": "order-9", "unique": True, "user_id": "uid_alice"}
    before = checksum()

    refused = client.post("/api/v1/jobs/", {"jobs": [{**job, "key": "order-8"}, job]})
    own = client.post("/api/v1/jobs/", {**job, "key": "order-7"})
    again = client.post("/api/v1/jobs/", {**job, "key": "order-7"})

    assert (refused.status_code, refused.json()["code"]) == (409, "conflict")
    assert not re.search(r"[0-9]{15}", refused.json()["detail"])
    assert (own.status_code, again.status_code) == (201, 200)
    assert own.json()["id"] == again.json()["id"]
    own_tables = {"jobs.Job", "jobs.UniqueLock"}
    assert checksum(but=[Job, UniqueLock]) == {
        name: rows for name, rows in before.items() if name not in own_tables
    }


def test_user_who_left_the_group_is_outside_its_binding_at_once(
    world: World, api_for: ApiFor
) -> None:
    """I60: the binding is read at each request."""
    client = api_for(executors=["gid_sales"])
    body = {"uid": "uid_alice"}
    before = client.post("/api/v1/dispatch/", body)
    executors.change_members(group=executors.find("gid_sales"), remove=["uid_alice"], actor="test")

    after = client.post("/api/v1/dispatch/", body)

    assert (before.status_code, after.status_code) == (200, 404)


def test_bound_key_cannot_move_a_task_out_of_its_binding(world: World, api_for: ApiFor) -> None:
    """S0.5, S0.32: neither to a known executor nor to an unknown one."""
    client = api_for(executors=["uid_alice"])
    before = checksum()

    for name in ("uid_bob", "uid_nobody"):
        answer = client.patch(f"/api/v1/once-tasks/{world.task}/", {"executor": name})
        assert mistakes(answer) == ["executor"]
    assert checksum() == before
