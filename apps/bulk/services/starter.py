"""The rights that the person or key that started a run has now: a run never goes beyond them."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from django.contrib.auth import get_user_model

from apps.access.directory import Users
from apps.access.models import ApiClient, State
from apps.access.rules.clients import Scope
from apps.common import clock
from apps.jobs.models import Bounds, bounds_of


def bounds_now(actor: str, permissions: Collection[str], scopes: frozenset[Scope]) -> Bounds | None:
    """The rows that the actor may change now; None when the actor may change none.

    `permissions` are those that a person needs, `scopes` those of a key.
    """
    kind, _colon, name = actor.partition(":")
    return _of_key(name, scopes) if kind == "key" else _of_person(name, permissions)


def _of_person(name: str, permissions: Collection[str]) -> Bounds | None:
    people: Any = get_user_model()
    person = people.objects.filter(username=name, is_active=True, is_staff=True).first()
    if person is None or not person.has_perms(permissions):
        return None
    return bounds_of(person)


def _of_key(client_id: str, scopes: frozenset[Scope]) -> Bounds | None:
    row = ApiClient.objects.filter(client_id=client_id).first()
    client = row.as_client() if row is not None and row.state(clock.now()) == State.LIVE else None
    return Bounds.of_key(client) if client is not None and scopes <= client.scopes else None


def wire(bounds: Bounds) -> dict[str, Any]:
    """The bounds as JSON."""
    return {
        "types": None if bounds.types is None else sorted(bounds.types),
        "users": None if bounds.users is None else sorted(bounds.users.names),
        "takes_nobodys": bounds.takes_nobodys,
    }


def read(data: dict[str, Any]) -> Bounds:
    """The bounds that `wire` wrote."""
    users = data.get("users")
    return Bounds(
        types=data.get("types"),
        users=None if users is None else Users(frozenset(users)),
        takes_nobodys=data.get("takes_nobodys", False),
    )


def covers(bounds: Bounds, other: Bounds) -> bool:
    """Whether these bounds contain all that lies within the other bounds."""
    if bounds.types is not None and (other.types is None or not {*other.types} <= {*bounds.types}):
        return False
    if bounds.users is None:
        return True
    is_within = other.users is not None and other.users.names <= bounds.users.names
    return is_within and not other.takes_nobodys
