"""The statements of a page: few, and none twice."""

from __future__ import annotations

from collections import Counter
from functools import partial

import pytest
from django.test import Client
from django.urls import reverse

from tests.statements import sent_by

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("history"), pytest.mark.both]


def test_page_sends_no_statement_twice(admin_client: Client, subtests: pytest.Subtests) -> None:
    for address, at_most in [
        (f"{reverse('report')}?source=job&by=type&period=24h", 9),
        (f"{reverse('report')}?source=job&by=hour&period=7d", 5),
        (f"{reverse('report')}?source=dispatch&by=task&period=24h", 15),
        (f"{reverse('report')}?source=dispatch&by=executor&period=1h", 11),
        (reverse("failures"), 7),
        (reverse("capacity"), 20),
        (reverse("governance"), 37),
        (reverse("metrics"), 43),
    ]:
        with subtests.test(address=address):
            admin_client.get(address)
            sent = Counter(sent_by(partial(admin_client.get, address)))
            assert {sql: count for sql, count in sent.items() if count > 1} == {}
            assert len(sent) <= at_most
