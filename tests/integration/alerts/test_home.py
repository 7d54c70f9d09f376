"""What fires stands on the home page, before everything else, for who may see alerts."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta

import pytest
from django.contrib.auth.models import Permission, User
from django.test import Client
from django.urls import reverse

from apps.alerts.models import Alert
from apps.common import clock
from apps.common.leases import sweep_lease
from apps.dispatch.models import OperatorScope
from tests import factories
from tests.alerts import rule
from tests.integration.reports.home import home, notices
from tests.pages import text_of

pytestmark = pytest.mark.django_db


def firing(name: str, severity: str, minutes: int, **values: object) -> Alert:
    """An alert of a rule of its own that began to fire so many minutes ago."""
    at = clock.now() - timedelta(minutes=minutes)
    columns = {"subject": f"job_type:{name}", "open_key": name, "since": at, "fired_at": at}
    made = rule(f"{name} fails", severity=severity)
    return Alert.objects.create(rule=made, value=0.4, **{**columns, **values})


def test_critical_alerts_come_first_each_with_a_button(admin_client: Client) -> None:
    with sweep_lease("jobs.scan", at_most=timedelta(seconds=30)):
        # Sweeps run: without any, that is the first trouble.
        pass
    firing("web", "warning", 1)
    late = firing("mail", "critical", 50)
    firing("night", "critical", 90, snoozed_until=clock.now() + timedelta(hours=1))
    firing("over", "critical", 90, resolved_at=clock.now(), open_key=None)

    html = home(admin_client)

    assert next(iter(notices(html))) == "alerts"
    words = notices(html)["alerts"]
    critical, told, warning = "Critical: mail fails:", "told nobody", "Warning: web fails:"
    assert 0 <= words.index(critical) < words.index(told) < words.index(warning)
    assert not {"night", "over"} & {*words.split()}
    assert "1 snoozed until" in html
    assert f'href="{reverse("admin:alerts_alert_change", args=[late.pk])}">Open the alert' in html


def test_alerts_stand_on_the_page_of_checks(admin_client: Client) -> None:
    assert "No alert fires" in text_of(admin_client.get(reverse("governance")))
    firing("mail", "critical", 50)
    assert "mail fails:" in text_of(admin_client.get(reverse("governance")))


@pytest.mark.both
def test_page_of_checks_names_alerts_to_who_sees_them_only(client: Client) -> None:
    firing("mail", "critical", 50)
    reader = User.objects.create_user("reader", is_staff=True)
    reader.user_permissions.add(Permission.objects.get(codename="view_rollup"))
    client.force_login(reader, backend="django.contrib.auth.backends.ModelBackend")
    page = client.get(reverse("governance"))
    assert page.status_code == 200
    # Neither that one fires, nor that none does.
    assert "mail fails" not in text_of(page)
    assert "No alert fires" not in text_of(page)


def test_who_sees_no_alerts_sees_none_at_home(role_client: Callable[[str], Client]) -> None:
    firing("mail", "critical", 50)
    assert "mail fails" in home(role_client("viewer"))
    limited = role_client("operator")
    group = factories.group("gid_a")
    OperatorScope.objects.create(operator_id=int(limited.session["_auth_user_id"]), executor=group)
    assert "mail fails" not in home(limited)
