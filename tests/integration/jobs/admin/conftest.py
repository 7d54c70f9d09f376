"""What the tests of the pages of jobs stand on."""

from __future__ import annotations

import pytest

from apps.access.models import ApiClient
from apps.access.services import create_client


@pytest.fixture
def key() -> ApiClient:
    """The key of workers over HTTP."""
    create_client(name="Warehouse", scopes=["hold"], actor="ann")
    return ApiClient.objects.get()
