"""The statements of a page: few, and none twice."""

from __future__ import annotations

from collections import Counter

import pytest
from django.test import Client
from django.urls import reverse

from tests.statements import sent_by

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("history")]


@pytest.mark.parametrize(
    ("address", "at_most"),
    [
        (f"{reverse('report')}?source=job&by=type&period=24h", 9),
        (f"{reverse('report')}?source=job&by=hour&period=7d", 5),
        (f"{reverse('report')}?source=dispatch&by=task&period=24h", 15),
        (f"{reverse('report')}?source=dispatch&by=executor&period=1h", 11),
        (reverse("failures"), 7),
        (reverse("capacity"), 20),
        (reverse("governance"), 25),
        (reverse("metrics"), 40),
    ],
)
def test_page_sends_no_statement_twice(admin_client: Client, address: str, at_most: int) -> None:
    admin_client.get(address)
    sent = Counter(sent_by(lambda: admin_client.get(address)))
    assert {sql: count for sql, count in sent.items() if count > 1} == {}
    assert len(sent) <= at_most
