"""Permissions that people with limits never have, because they concern the work of others."""

from __future__ import annotations

from typing import Any

from django.core.exceptions import PermissionDenied

from apps.access.models import Limited
from taskplatform.capabilities import closed_to


class LimitsBackend:
    """Takes the permissions that the table of capabilities closes to people with limits.

    First of the backends that know permissions; it gives none, and signs nobody in.
    """

    def authenticate(self, request: Any, **credentials: Any) -> None:
        return None

    def has_perm(self, person: Any, permission: str, row: Any = None) -> bool:
        """PermissionDenied, at which Django asks no further backend; else False."""
        sides = closed_to(permission) if person.is_active else ()
        if any(Limited.names_of(person, side) is not None for side in sides):
            raise PermissionDenied
        return False
