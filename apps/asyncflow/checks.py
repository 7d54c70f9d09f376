"""Checks of the switch that opens asyncflow to calls without a key."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from django.core import checks
from django.core.checks import CheckMessage
from django.db import DatabaseError

from apps.access import services as access
from apps.access.models import State
from apps.asyncflow.conf import conf
from apps.common import clock
from apps.common.errors import NotFound


def check_loopback(**_: Any) -> list[CheckMessage]:
    """A warning while the switch is on."""
    client = conf.ASYNCFLOW_LOOPBACK_CLIENT
    if not client:
        return []
    return [
        checks.Warning(
            f"Every program on this machine may call ASYNCFLOW_PORTS as the API key {client}.",
            hint="Keep ASYNCFLOW_LOOPBACK_CLIENT for workers whose address cannot hold a key, and "
            "for a client with no more scopes and job types than they need. A proxy that leads to "
            "these ports must add X-Forwarded-For.",
            id="asyncflow.W001",
        )
    ]


def check_loopback_client(
    *, databases: Sequence[str] | None = None, **_: Any
) -> list[CheckMessage]:
    """An error when the setting names no client with a valid key."""
    client = conf.ASYNCFLOW_LOOPBACK_CLIENT
    if not client or not databases or "default" not in databases:
        return []
    try:
        if access.find(client).state(clock.now()) == State.LIVE:
            return []
    except NotFound:
        pass
    except DatabaseError:
        # Before the first migration there is no table of clients.
        return []
    return [
        checks.Error(
            f"ASYNCFLOW_LOOPBACK_CLIENT names {client}, which is no valid API key.",
            hint="Take its id from the list of API keys: the part of a key before the dot.",
            id="asyncflow.E001",
        )
    ]
