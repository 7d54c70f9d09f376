"""Permissions of API keys: each view declares the scopes of its methods and its bindings."""

from __future__ import annotations

import functools
from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Any, cast

from django.core.exceptions import ImproperlyConfigured
from rest_framework.permissions import BasePermission
from rest_framework.request import Request

from apps.access.rules.clients import Binding, Client, Scope
from apps.common.errors import Forbidden

if TYPE_CHECKING:
    # The views module itself imports the default classes, this one among them.
    from rest_framework.views import APIView


class HasScope(BasePermission):
    """Grants a method to keys with the scope that the view names for it.

    A view says `scopes = {"GET": "read", "POST": "pull"}`; HEAD counts as GET, and OPTIONS is
    open to a key with any of the view's scopes. It also says `bindings = {Binding.EXECUTORS}`: by
    which bindings of a key it narrows what it shows and changes. A key with another binding than
    these cannot operate there, because it would change what belongs to others as well. A view that
    leaves out one of its methods, or its bindings, is a mistake in the code, so it answers nobody.
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
        if needed & _BEYOND_ONE and not client.bindings <= frozenset(_declared_bindings(view)):
            bound = " and ".join(sorted(client.bindings)).replace("_", " ")
            raise Forbidden(
                f"The key {client.client_id} is bound to {bound}, and this would concern others, "
                "too; use a key without that binding."
            )
        return True


# Scopes that reach what is shared, unless the view narrows it.
_BEYOND_ONE = {Scope.OPERATE, Scope.METRICS, Scope.HOLD}


def _declared_bindings(view: APIView) -> Collection[Binding]:
    declared: Collection[Binding] = cast(Any, view).bindings
    return declared


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
    if not hasattr(view, "bindings"):
        raise ImproperlyConfigured(
            f"{name} declares no bindings; write bindings = {{Binding.EXECUTORS}} with those that "
            "narrow what it shows and changes, or bindings = set() if none does."
        )
    return declared
