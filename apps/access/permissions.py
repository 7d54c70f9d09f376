"""Permissions of API keys: each view declares the scope that each of its methods needs."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, cast

from django.core.exceptions import ImproperlyConfigured
from rest_framework.permissions import BasePermission
from rest_framework.request import Request

from apps.access.rules.clients import Client, Scope
from apps.common.errors import Forbidden

if TYPE_CHECKING:
    # The views module itself imports the default classes, this one among them.
    from rest_framework.views import APIView


class HasScope(BasePermission):
    """Grants a method to keys with the scope that the view names for it.

    A view says `scopes = {"GET": "read", "POST": "pull"}`; HEAD counts as GET, and OPTIONS is
    open to a key with any of the view's scopes. A view that leaves out one of its methods is a
    mistake in the code, so it answers nobody.
    """

    def has_permission(self, request: Request, view: APIView) -> bool:
        declared = _declared_scopes(cast(Any, type(view)))
        client = cast("Client | None", request.auth)
        if client is None:
            return False
        method = "GET" if request.method == "HEAD" else request.method or ""
        if method in declared:
            needed = {declared[method]}
        elif method == "OPTIONS":
            needed = set(declared.values())
        else:
            # No such method here; the view itself answers 405.
            return True
        if needed.isdisjoint(client.scopes):
            raise Forbidden(
                f"The key {client.client_id} lacks the scope {' or '.join(sorted(needed))}; "
                "ask an operator to add it."
            )
        return True


@functools.cache
def _declared_scopes(view: type[APIView]) -> Mapping[str, str]:
    declared: object = getattr(view, "scopes", None)
    name = view.__qualname__
    if not isinstance(declared, Mapping):
        raise ImproperlyConfigured(
            f"{name} declares no scopes; write scopes = {{'GET': 'read'}} with one of "
            f"{', '.join(Scope)} for each method, or permission_classes = [] if it is open."
        )
    methods = {name.upper() for name in view.http_method_names if hasattr(view, name)}
    missing = methods - {"HEAD", "OPTIONS", *declared}
    unknown = set(declared.values()) - set(Scope)
    if missing or unknown:
        raise ImproperlyConfigured(
            f"The scopes of {name} leave out {sorted(missing)} and name the unknown "
            f"{sorted(unknown)}; every method needs one of {', '.join(Scope)}."
        )
    return declared
