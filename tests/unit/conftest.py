"""Tests in this folder run in the round on SQLite only, so none may use a database."""

from __future__ import annotations

import pytest


@pytest.fixture(scope="session")
def django_db_setup() -> None:
    pytest.fail("A test in tests/unit uses a database; it belongs to tests/integration.")
