"""The executors, job types and name of a request's API key."""

from __future__ import annotations

from collections.abc import Collection
from typing import cast

from rest_framework.request import Request

from apps.access.rules.clients import Client


def executors_of(request: Request) -> Collection[str] | None:
    """The executors that the key is bound to; None for all."""
    client = _client(request)
    return None if client.may_see_all else client.executors


def job_types_of(request: Request) -> Collection[str] | None:
    """The job types that the key is bound to; None for all."""
    return _client(request).job_types or None


def actor_of(request: Request) -> str:
    """The name of the key in the journal: `key:<client-id>`."""
    return _client(request).actor


def _client(request: Request) -> Client:
    return cast(Client, request.auth)
