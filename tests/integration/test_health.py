"""Health for load balancers and supervisors: alive, and ready for traffic, without detail."""

from __future__ import annotations

from typing import Any

import pytest
from django.core.cache import cache
from django.db import OperationalError, connection
from django.db.migrations.recorder import MigrationRecorder
from django.test import Client

from taskplatform import health

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def fresh_readiness(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a process that has just started knows."""
    monkeypatch.setattr(health, "_readiness", health.Readiness())


def refused(*_args: object, **_kwargs: object) -> Any:
    raise OperationalError("no route to db-7.internal")


def test_process_with_all_it_needs_is_alive_and_ready(client: Client) -> None:
    for url in ("/health/live", "/health/ready"):
        answer = client.get(url)
        assert (answer.status_code, answer.json()) == (200, {"status": "ok"})
        assert "no-store" in answer["Cache-Control"]


def test_process_without_its_database_is_alive_and_not_ready(
    client: Client, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(connection, "cursor", refused)
    assert client.get("/health/live").status_code == 200
    answer = client.get("/health/ready")
    assert (answer.status_code, answer.json()) == (503, {"status": "unavailable"})
    assert answer["Retry-After"] == "5"
    assert "db-7" not in answer.content.decode()
    assert "db-7.internal" in caplog.text


def test_process_whose_migrations_are_not_applied_is_not_ready(
    client: Client, caplog: pytest.LogCaptureFixture
) -> None:
    MigrationRecorder(connection).record_unapplied("journal", "0001_initial")
    assert client.get("/health/ready").status_code == 503
    assert "manage.py migrate" in caplog.text


def test_process_that_was_ready_goes_on_noticing_that_its_database_is_gone(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert client.get("/health/ready").status_code == 200
    monkeypatch.setattr(connection, "cursor", refused)
    assert client.get("/health/ready").status_code == 503


def test_process_whose_cache_forgets_is_not_ready(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(type(cache._connections[cache._alias]), "get", lambda *_a, **_k: None)  # type: ignore[attr-defined]
    assert client.get("/health/ready").status_code == 503


@pytest.mark.parametrize("url", ["/health/live", "/health/ready"])
def test_health_is_only_read(client: Client, url: str) -> None:
    assert client.post(url).status_code == 405
    assert client.head(url).status_code == 200
