"""What `/metrics` says of the answers of the web processes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from django.test import Client

from apps.common.api.http_metrics import OTHER, STATUSES
from tests.clients import JsonClient
from tests.integration.reports.prometheus import samples

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def embedded(settings: Any) -> None:
    settings.EMBEDDED = True


def test_answers_are_counted_by_address_and_status(
    client: Client, admin_client: Client, make_key: Callable[..., str]
) -> None:
    api = JsonClient(make_key())
    before = samples(client)
    api.post("/api/v1/dispatch/", {"uid": "uid_nobody"})
    api.post("/api/v1/dispatch/", raw=b"{")
    client.post("/api/v1/dispatch/")
    for number in (1, 2):
        api.get(f"/api/v1/jobs/{number}/")
    admin_client.get("/admin/")
    client.get("/admin/jobs/job/")
    client.get("/nothing/")
    after = samples(client)

    grown = {name: after[name] - before[name] for name in after if "http_request" in name}
    assert {
        name.removeprefix("http_requests_total"): count
        for name, count in grown.items()
        if name.startswith("http_requests_total") and count
    } == {
        "{route=/api/v1/dispatch/,status=4xx}": 3,
        "{route=/api/v1/jobs/{number}/,status=4xx}": 2,
        "{route=/admin/,status=2xx}": 1,
        "{route=/admin/,status=3xx}": 1,
        "{route=/metrics,status=2xx}": 1,
        "{route=other,status=4xx}": 1,
    }
    timed = "http_request_seconds_bucket{{le=+Inf,route={}}}".format
    assert (grown[timed("/api/v1/dispatch/")], grown[timed("/admin/")]) == (3, 2)
    assert grown["http_request_seconds_sum{route=/admin/}"] > 0


def test_each_address_of_the_api_is_there_from_the_start(client: Client) -> None:
    documented = client.get("/api/schema/", headers={"Accept": "application/json"}).json()["paths"]
    found = samples(client)
    assert len(documented) > 50
    for route in (*documented, "/admin/", OTHER):
        for status in STATUSES:
            assert f"http_requests_total{{route={route},status={status}}}" in found
