"""A channel for all rules takes the alerts of rules that name none."""

from __future__ import annotations

import pytest
from django.test import Client
from django.urls import reverse

from apps.alerts.models import Alert, Delivery, Event
from apps.alerts.services import settings
from apps.alerts.services.notify import notify
from apps.common import clock
from tests.alerts import channel, rule
from tests.pages import text_of

pytestmark = pytest.mark.django_db


def sent(name: str, **values: object) -> list[str]:
    """The channels that take an alert of a new rule."""
    now = clock.now()
    made = rule(name, **values)
    columns = {"subject": f"job_type:{name}", "open_key": name, "since": now, "fired_at": now}
    alert = Alert.objects.create(rule=made, value=0.4, unsent=Event.FIRING, **columns)
    notify(now=now)
    return list(Delivery.objects.filter(alert=alert).values_list("channel__name", flat=True))


def test_rules_without_a_channel_use_it_unless_they_say_otherwise() -> None:
    own, off = channel("own"), channel("off", enabled=False)
    assert sent("before") == []
    assert [each.name for each in settings.rules_without_channel()] == ["before"]
    channel("all", is_default=True)
    assert sent("plain") == ["all"]
    assert sent("named", channels=[own]) == ["own"]
    assert sent("nowhere", channels=[off]) == []
    assert [each.name for each in settings.rules_without_channel()] == ["nowhere"]


def test_lists_say_where_alerts_go_and_how_bad_they_are(admin_client: Client) -> None:
    rule("alone", severity="critical")
    url = reverse("admin:alerts_alertrule_changelist")
    assert "tells nobody" in text_of(admin_client.get(url))
    channel("all", is_default=True)
    page = text_of(admin_client.get(url))
    assert "tells nobody" not in page
    assert "all" in page.split()
    sent("bad", severity="critical")
    page = admin_client.get(reverse("admin:alerts_alert_changelist"))
    assert "Critical" in text_of(page)


def test_firing_alert_leads_to_its_rows(admin_client: Client) -> None:
    sent("mail")
    page = admin_client.get(reverse("admin:alerts_alert_change", args=[Alert.objects.get().pk]))
    assert "/admin/jobs/job/?type=mail&amp;status=failed" in page.content.decode()


def test_first_channel_is_offered_for_all_rules(admin_client: Client) -> None:
    url = reverse("admin:alerts_channel_add")

    def is_offered() -> bool:
        form = admin_client.get(url).context["adminform"].form
        return bool(form["is_default"].value())

    channel("own")
    assert is_offered()
    channel("all", is_default=True)
    assert not is_offered()
