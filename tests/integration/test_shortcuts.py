"""Which keys a page offers: those of the pages that its reader may see, unless turned off."""

from __future__ import annotations

import re
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client
from django.urls import reverse

from apps.common.models import Preference

pytestmark = pytest.mark.django_db

EVERYWHERE = {"g o": reverse("admin:index")}


def offered(client: Client) -> dict[str, str]:
    """The address to which each of the keys leads."""
    html = client.get(reverse("preferences")).content.decode()
    links = re.findall(r'<a class="text-link" href="([^"]*)" data-key="([^"]*)"', html)
    return {keys: url for url, keys in links}


def test_keys_lead_to_what_an_account_may_see(role_client: Any, client: Client) -> None:
    assert offered(role_client("viewer")) == EVERYWHERE | {
        "g j": reverse("admin:jobs_job_changelist"),
        "g d": reverse("admin:dispatch_dispatch_changelist"),
        "g t": reverse("admin:dispatch_oncetask_changelist"),
        "g l": reverse("admin:flows_flow_changelist"),
        "g w": reverse("admin:jobs_worker_changelist"),
        "g f": reverse("failures"),
        "g r": reverse("report"),
    }
    client.force_login(User.objects.create(username="new", is_staff=True))
    assert offered(client) in ({}, EVERYWHERE)


def test_who_turns_them_off_gets_none_in_later_sessions_either(db: None) -> None:
    User.objects.create_superuser("olga", password="Lamp4-Harbour")
    client = Client()
    sign_in = {"username": "olga", "password": "Lamp4-Harbour", "next": "/admin/"}
    client.post(reverse("admin:login"), sign_in)
    assert offered(client)
    client.post(reverse("preferences"), {"time_zone": ""})
    assert offered(client) == {}
    assert not Preference.objects.get().shortcuts
    again = Client()
    again.post(reverse("admin:login"), sign_in)
    assert offered(again) == {}
    again.post(reverse("preferences"), {"time_zone": "", "shortcuts": "on"})
    assert offered(again)
