"""API keys in the OpenAPI document."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from drf_spectacular.extensions import OpenApiAuthenticationExtension

if TYPE_CHECKING:
    from drf_spectacular.openapi import AutoSchema


class ApiKeyScheme(OpenApiAuthenticationExtension):  # type: ignore[no-untyped-call]
    """The two ways to send a key."""

    target_class = "apps.access.authentication.ApiKeyAuthentication"
    name = ["bearerKey", "basicKey"]

    def get_security_requirement(self, auto_schema: AutoSchema) -> list[dict[str, list[Any]]]:
        # Either of the two; one mapping would require both.
        return [{name: []} for name in self.name]

    def get_security_definition(self, auto_schema: AutoSchema) -> list[dict[str, str]]:
        return [
            {
                "type": "http",
                "scheme": "bearer",
                "description": "`Authorization: Bearer <client-id>.<secret>`",
            },
            {
                "type": "http",
                "scheme": "basic",
                "description": "The client id as user name, the secret as password.",
            },
        ]
