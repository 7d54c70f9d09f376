"""Health for load balancers and supervisors: alive, and ready for traffic, without detail."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.core.cache import cache
from django.db import OperationalError, connection
from django.db.migrations.loader import MigrationLoader
from django.db.migrations.recorder import MigrationRecorder
from django.test import Client

from apps.common import clock
from apps.common.leases import sweep_lease
from apps.common.models import SweepLease
from apps.jobs.models import Worker
from apps.jobs.services import register
from taskplatform import health

pytestmark = [pytest.mark.django_db, pytest.mark.both]

DEGRADED = {"status": "degraded"}


@pytest.fixture(autouse=True)
def fresh_readiness(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a process that has just started knows."""
    monkeypatch.setattr(health, "_readiness", health.Readiness())


@pytest.fixture(autouse=True)
def whole_platform(db: None) -> None:
    """Beat and a worker run."""
    with sweep_lease("jobs.scan", at_most=timedelta(seconds=30)):
        pass
    register.register(name="w1", host="h1")


def refused(*_args: object, **_kwargs: object) -> Any:
    raise OperationalError("no route to db-7.internal")


def test_process_with_all_it_needs_is_alive_and_ready(client: Client) -> None:
    for url in ("/health/live", "/health/ready"):
        answer = client.get(url)
        assert (answer.status_code, answer.json()) == (200, {"status": "ok"})
        assert "no-store" in answer["Cache-Control"]


def test_load_balancer_asks_without_tls(client: Client, settings: Any) -> None:
    """It asks the process itself, past the proxy that ends TLS."""
    settings.SECURE_SSL_REDIRECT = True

    assert client.get("/health/live").status_code == 200
    assert client.get("/health/ready").status_code == 200
    assert client.get("/admin/").status_code == 301
    assert client.get("/metrics").status_code == 301


def test_process_without_its_database_is_alive_and_not_ready(
    client: Client, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(connection, "cursor", refused)
    assert client.get("/health/live").status_code == 200
    answer = client.get("/health/ready")
    assert (answer.status_code, answer.json()) == (
        503,
        {"status": "unavailable", "failing": ["database"]},
    )
    assert answer["Retry-After"] == "5"
    assert "db-7" not in answer.content.decode()
    assert "db-7.internal" in caplog.text


def test_process_whose_migrations_are_not_applied_is_not_ready(
    client: Client, caplog: pytest.LogCaptureFixture
) -> None:
    [newest] = MigrationLoader(connection).graph.leaf_nodes("journal")
    MigrationRecorder(connection).record_unapplied(*newest)
    answer = client.get("/health/ready")
    assert (answer.status_code, answer.json()["failing"]) == (503, ["migrations"])
    assert "manage.py migrate" in caplog.text


def test_process_that_was_ready_goes_on_noticing_that_its_database_is_gone(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert client.get("/health/ready").status_code == 200
    monkeypatch.setattr(connection, "cursor", refused)
    assert client.get("/health/ready").status_code == 503


def test_process_whose_cache_forgets_is_ready_and_reports_it(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(type(cache._connections[cache._alias]), "get", lambda *_a, **_k: None)  # type: ignore[attr-defined]

    answer = client.get("/health/ready")

    assert (answer.status_code, answer.json()) == (200, {**DEGRADED, "degraded": ["cache"]})


def test_process_is_ready_while_beat_and_workers_are_away_and_reports_it(
    client: Client, caplog: pytest.LogCaptureFixture
) -> None:
    SweepLease.objects.update(started_at=clock.now() - timedelta(seconds=31))
    Worker.objects.update(last_heartbeat_at=clock.now() - timedelta(seconds=60))

    answers = [client.get("/health/ready") for _probe in range(2)]

    for answer in answers:
        assert answer.status_code == 200
        assert answer.json() == {**DEGRADED, "degraded": ["beat", "workers"]}
    lines = [line for line in caplog.messages if line.startswith("degraded: ")]
    assert len(lines) == 1, "each probe would fill the log"
    assert "no sweep has begun since" in lines[0]


def test_beat_that_never_ran_is_reported_and_lease_of_an_audit_is_no_beat(client: Client) -> None:
    SweepLease.objects.all().delete()
    with sweep_lease("audit", at_most=timedelta(seconds=30)):
        pass

    assert client.get("/health/ready").json() == {**DEGRADED, "degraded": ["beat"]}
