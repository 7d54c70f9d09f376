"""The admin pages of API clients, as a browser opens, fills and reads them."""

from __future__ import annotations

import re
from typing import Any

from django.urls import reverse

from apps.access import services
from apps.access.models import ApiClient
from apps.access.rules import keys
from tests.integration.access.conftest import START, bearer

LIST = reverse("admin:access_apiclient_changelist")
ADD = reverse("admin:access_apiclient_add")


def page_of(client: ApiClient) -> str:
    return reverse("admin:access_apiclient_change", args=[client.pk])


def rotate_page_of(client: ApiClient) -> str:
    return reverse("admin:access_apiclient_rotate", args=[client.pk])


def revoke_page() -> str:
    return reverse("admin:access_apiclient_act", args=["revoke"])


def make(**changes: Any) -> tuple[ApiClient, str]:
    return services.create_client(
        **{"name": "Shop scanners", "scopes": ["pull", "read"], "actor": "shell", **changes}
    )


def form_of(client: ApiClient | None = None, **changes: Any) -> dict[str, Any]:
    """What the browser sends for the form as it was opened, with the changes typed in."""
    terms = client.terms() if client else None
    expires_at = terms.expires_at if terms else None
    filled: dict[str, Any] = {
        "name": terms.name if terms else "Shop scanners",
        "scopes": terms.scopes if terms else ["pull"],
        "executors": "\n".join(terms.executors if terms else []),
        "job_types": "\n".join(terms.job_types if terms else []),
        "rate": terms.rate if terms else "",
        "expires_at_0": f"{expires_at:%Y-%m-%d}" if expires_at else "",
        "expires_at_1": f"{expires_at:%H:%M:%S}" if expires_at else "",
        "version": client.version if client else "",
    }
    return {**filled, **changes}


def key_on(response: Any) -> str:
    found = re.search(r'id="new-key"[^>]*>([^<]+)<', response.content.decode())
    assert found, response.content.decode()[:3000]
    return found[1]


def opens(key: str) -> bool:
    credentials = keys.read_header(bearer(key))
    client = ApiClient.objects.get(client_id=credentials.client_id)
    return client.opens_with(credentials.digest, START)
