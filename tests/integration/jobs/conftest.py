"""Handlers that a test writes, registered while it runs."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from apps.jobs.handlers import handler
from apps.jobs.handlers.registry import known
from tests.jobs import job_type


@pytest.fixture
def handle(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., Any]]:
    """`handle("mail", function, …settings)` registers a handler and makes its type."""
    monkeypatch.setattr(known, "handlers", dict(known.handlers))
    monkeypatch.setattr(known, "problems", [])

    def handle(name: str, function: Callable[..., Any], **settings: Any) -> None:
        handler(name)(function)
        job_type(name, handler=name, **settings)

    yield handle
