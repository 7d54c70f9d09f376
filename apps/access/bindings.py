"""The API key of a request: its bindings, its name, and whether it sees secrets."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, cast

from rest_framework.request import Request

from apps.access.rules.clients import Binding, Client, Scope
from apps.common.masking import merge


def executors_of(request: Request) -> Collection[str] | None:
    """The executors that the key is bound to; None for all, none for a key of some job types."""
    client = key_of(request)
    return client.executors if client.bindings else None


def is_bound_to_executors(request: Request) -> bool:
    """Whether the key reaches only rows of some executors, jobs included."""
    return Binding.EXECUTORS in key_of(request).bindings


def job_types_of(request: Request) -> Collection[str] | None:
    """The job types that the key is bound to; None for all."""
    return key_of(request).job_types or None


def masks_payload(request: Request) -> bool:
    """Whether secrets in params, contexts and results are masked for the key."""
    return Scope.PAYLOAD not in key_of(request).scopes


def unmask(
    request: Request, body: dict[str, Any], name: str, stored: Any = None, *, field: str = ""
) -> None:
    """Put the stored secrets in place of the masks that the key was shown, if the body has a field
    of that name. Invalid, below `field`, where a mask is left over.

    Without masks in its answers, a key means what it sends.
    """
    if name in body and masks_payload(request):
        body[name] = merge(body[name], stored, field=field or name)


def client_of(request: Request) -> str:
    """The client id of the key."""
    return key_of(request).client_id


def actor_of(request: Request) -> str:
    """The name of the key in the journal: `key:<client-id>`."""
    return key_of(request).actor


def key_of(request: Request) -> Client:
    """The caller behind the key."""
    return cast(Client, request.auth)
