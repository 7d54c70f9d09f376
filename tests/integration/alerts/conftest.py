"""Servers that take what channels send, and who plans reports."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from django.contrib.auth.models import User

from tests.alerts import Mailbox, Receiver, callable_receiver, mailbox


@pytest.fixture
def site(settings: Any) -> Iterator[Receiver]:
    with callable_receiver(settings) as server:
        yield server


@pytest.fixture
def post(settings: Any) -> Iterator[Mailbox]:
    """A server of mail, which is that of the platform."""
    with mailbox() as server:
        settings.EMAIL_BACKEND = "django.core.mail.backends.smtp.EmailBackend"
        settings.EMAIL_HOST, settings.EMAIL_PORT = "127.0.0.1", server.port
        yield server


@pytest.fixture
def owner(role_user: Callable[[str], User]) -> User:
    return role_user("operator")
