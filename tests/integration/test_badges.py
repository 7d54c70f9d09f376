"""The numbers beside the entries of the menu: what each person sees of what needs somebody."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import timedelta

import pytest
from django.contrib.auth.models import User
from django.test import Client
from django.urls import reverse

from apps.alerts.models import Alert
from apps.common import clock
from apps.common.leases import sweep_lease
from apps.dispatch.models import Executor, OperatorScope
from apps.dispatch.services import pull
from apps.jobs.models import JobScope
from apps.reports.services import fact_sheet
from apps.reports.watches import troubles
from taskplatform import badges
from tests import factories
from tests.alerts import rule
from tests.frozen import FrozenClock
from tests.jobs import job_type, jobs
from tests.statements import sent_by

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("with_badges")]


@pytest.fixture(autouse=True)
def scene(frozen_clock: FrozenClock) -> None:
    for name in ("mail", "sms"):
        job_type(name)
    jobs(3)
    jobs(2, "sms")
    group = factories.group("gid_a", members=["uid_ann"])
    factories.group("gid_b", members=["uid_bob"])
    for each in (group, Executor.objects.get(name="gid_b")):
        factories.once_task(each, lease_seconds=3600)
    for uid in ("uid_ann", "uid_bob"):
        pull.answer_pull(uid)
    frozen_clock.advance(minutes=31)
    factories.worker("w1", last_heartbeat_at=clock.now() - timedelta(minutes=3))
    at = clock.now()
    columns = {"subject": "job_type:mail", "open_key": "x", "since": at, "fired_at": at}
    Alert.objects.create(rule=rule("Bad", severity="critical"), value=0.4, **columns)
    with sweep_lease("jobs.scan", at_most=timedelta(seconds=30)):
        pass


def shown(client: Client) -> dict[str, str]:
    """What is read aloud beside each entry."""
    html = client.get(reverse("admin:bulk_bulkrun_changelist")).content.decode()
    found = re.findall(
        r"<span>([^<]+)</span>\s*<span class=\"[^\"]+\">\s*"
        r"<span class=\"menu-badge menu-badge-(\w+)\" aria-hidden=\"true\">"
        r"([^<]+)</span><span class=\"unseen\">, ([^<]+)</span>",
        html,
    )
    return {title: f"{tone} {text}: {spoken}" for title, tone, text, spoken in found}


def test_numbers_are_those_of_the_person(
    admin_client: Client, role_user: Callable[[str], User], role_client: Callable[[str], Client]
) -> None:
    # The alert; both types wait; both lack a worker; the worker; nobody is told.
    assert shown(admin_client) == {
        "Problems": "bad 6: 6 open, 1 critical",
        "Dispatches": "calm 2: 2 open",
        "People": "warn 2: 2 silent with work in hand",
        "Jobs": "calm 5: 5 waiting",
        "Workers": "warn 1: 1 silent",
    }
    of_group = OperatorScope(
        operator=role_user("operator"), executor=Executor.objects.get(name="gid_a")
    )
    of_group.save()
    assert shown(role_client("operator")) == {
        "Dispatches": "calm 1: 1 open",
        "People": "warn 1: 1 silent with work in hand",
    }
    of_group.delete()
    JobScope.objects.create(operator=role_user("viewer"), type="sms")
    # Of the type: it waits, and nobody serves it.
    assert shown(role_client("viewer")) == {
        "Problems": "warn 2: 2 open",
        "Jobs": "calm 2: 2 waiting",
    }


def test_another_page_asks_for_nothing_more(
    admin_client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = reverse("admin:bulk_bulkrun_changelist")
    for kept in (badges.counted, fact_sheet.sheets, troubles.found):
        monkeypatch.setattr(kept, "seconds", 600.0)
    shown(admin_client)
    with_numbers = len(sent_by(lambda: admin_client.get(url)))
    monkeypatch.setattr(badges, "_READ", {})
    assert len(sent_by(lambda: admin_client.get(url))) == with_numbers


def test_numbers_are_short(subtests: pytest.Subtests) -> None:
    for count, text in [(14, "14"), (999, "999"), (1_204, "1.2k"), (3_000, "3k"), (5_000, "5k+")]:
        with subtests.test(count=count):
            assert badges.short(count) == text
