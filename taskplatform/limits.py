"""What people with limits may not do, whatever their roles say: it would concern the work of
others."""

from __future__ import annotations

from typing import Any

from django.core.exceptions import PermissionDenied

from apps.access.models import Limited
from taskplatform.capabilities import CLOSED


class LimitsBackend:
    """Takes the permissions that the table of capabilities closes to the limits of a person. First
    of the backends that know permissions; it gives none and signs nobody in."""

    def authenticate(self, request: Any, **credentials: Any) -> None:
        return None

    def has_perm(self, person: Any, permission: str, row: Any = None) -> bool:
        """PermissionDenied, at which Django asks no further backend; else False."""
        for side in CLOSED.get(permission, ()):
            if Limited.names_of(person, side) is not None:
                raise PermissionDenied
        return False
