"""Servers that take what channels send, and who plans reports."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from django.contrib.auth.models import User

from tests.alerts import Mailbox, Receiver, callable_receiver, mailbox, use_mail_server


@pytest.fixture
def site(settings: Any) -> Iterator[Receiver]:
    with callable_receiver(settings) as server:
        yield server


@pytest.fixture
def post(settings: Any) -> Iterator[Mailbox]:
    """A server of mail, which is that of the platform."""
    with mailbox() as server:
        use_mail_server(settings, server.port)
        yield server


@pytest.fixture
def owner(role_user: Callable[[str], User]) -> User:
    return role_user("operator")
