"""Every time on a page shows its zone; each person reads in a zone of their own."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client, override_settings
from django.urls import reverse
from django.utils import timezone

from apps.common.models import Preference
from apps.dispatch.models import RotateTask
from apps.reports.services import rollup
from apps.schedules.models import Schedule
from tests import factories
from tests.frozen import FrozenClock
from tests.pages import form_of, text_of

PASSWORD = "correct horse battery"
pytestmark = pytest.mark.usefixtures("frozen_clock")
START = datetime(2026, 3, 2, 18, 30, tzinfo=UTC)


@pytest.fixture(autouse=True)
def olga(db: None) -> User:
    return User.objects.create_superuser("olga", password=PASSWORD)


def sign_in(name: str, **more: str) -> Client:
    client = Client()
    answer = client.post(
        reverse("admin:login"), {"username": name, "password": PASSWORD, "next": "/admin/", **more}
    )
    assert answer.status_code == 302
    return client


def errors_of(page: Any) -> Any:
    return page.context and page.context["adminform"].form.errors


def page_of_task(client: Client) -> str:
    """With the tooltips, which have whole instants."""
    return str(client.get(reverse("admin:dispatch_oncetask_changelist")).content.decode())


def test_first_sign_in_takes_the_zone_of_the_browser_and_later_ones_leave_it(olga: User) -> None:
    sign_in("olga", time_zone="Asia/Shanghai")
    client = sign_in("olga", time_zone="Europe/Berlin")
    assert Preference.objects.get(user=olga).time_zone == "Asia/Shanghai"
    form = form_of(client.get(reverse("preferences")), "time_zone")
    assert form["time_zone"] == "Asia/Shanghai"


def test_zone_that_is_none_leaves_that_of_the_server(subtests: pytest.Subtests) -> None:
    for name in ["", "Mars/Olympus", "x" * 10_000, "../etc/passwd"]:
        with subtests.test(name=name):
            client = sign_in("olga", time_zone=name)
            assert not Preference.objects.exists()
            with override_settings(TIME_ZONE="UTC"):
                assert client.get(reverse("preferences")).status_code == 200


def test_two_people_read_one_instant_in_their_zones() -> None:
    User.objects.create_superuser("otto", password=PASSWORD)
    factories.once_task(factories.user("uid_ann"), start_at=START)
    shanghai = page_of_task(sign_in("olga", time_zone="Asia/Shanghai"))
    adelaide = page_of_task(sign_in("otto", time_zone="Australia/Adelaide"))
    assert "2026-03-03 02:30:00 UTC+8" in shanghai
    assert "2026-03-03 05:00:00 UTC+10:30" in adelaide
    # Each list says it once, with the way to another.
    assert "Times in Asia/Shanghai, UTC+8" in shanghai
    assert "Times in Australia/Adelaide, UTC+10:30" in adelaide
    # The zone of one request is not that of the next.
    assert timezone.get_current_timezone_name() == "UTC"


def test_zone_is_chosen_on_a_page_and_holds_at_once(olga: User) -> None:
    factories.once_task(factories.user("uid_ann"), start_at=START)
    client = sign_in("olga")
    assert "2026-03-02 18:30:00 UTC" in page_of_task(client)
    address = reverse("preferences")
    form = form_of(client.get(address), "time_zone")
    answer = client.post(address, {**form, "time_zone": "Europe/Berlin"}, follow=True)
    assert form_of(answer, "time_zone")["time_zone"] == "Europe/Berlin"
    assert "Your settings were saved." in text_of(answer)
    assert "2026-03-02 19:30:00 UTC+1" in page_of_task(client)
    assert Preference.objects.get(user=olga).time_zone == "Europe/Berlin"
    # Also in the next session, whatever its browser says.
    assert "UTC+1" in page_of_task(sign_in("olga", time_zone="Asia/Tokyo"))


def test_zone_that_there_is_not_is_refused_with_the_nearest() -> None:
    client = sign_in("olga", time_zone="Europe/Berlin")
    answer = client.post(reverse("preferences"), {"time_zone": "Shanghai"})
    assert answer.status_code == 400
    assert "did you mean Asia/Shanghai?" in text_of(answer)
    assert Preference.objects.get().time_zone == "Europe/Berlin"


@pytest.mark.both
def test_empty_zone_is_that_of_the_server_and_stays_so() -> None:
    client = sign_in("olga", time_zone="Europe/Berlin")
    client.post(reverse("preferences"), {"time_zone": ""})
    assert Preference.objects.get().time_zone == ""
    sign_in("olga", time_zone="Europe/Berlin")
    assert Preference.objects.get().time_zone == ""


def test_typed_times_are_of_the_zone_that_the_form_names() -> None:
    task = factories.once_task(factories.user("uid_ann"), start_at=START)
    client = sign_in("olga", time_zone="Asia/Shanghai")
    address = reverse("admin:dispatch_oncetask_change", args=[task.pk])
    page = client.get(address)
    form = form_of(page, "start_at_0")
    assert (form["start_at_0"], form["start_at_1"]) == ("2026-03-03", "02:30:00")
    assert "Time zone: Asia/Shanghai" in text_of(page)
    client.post(address, {**form, "start_at_1": "09:00:00"})
    task.refresh_from_db()
    assert task.start_at == datetime(2026, 3, 3, 1, tzinfo=UTC)


def test_start_of_a_rotation_is_typed_and_shown_in_its_own_zone() -> None:
    """As API and everybody else see it, whatever zone its planner is in."""
    factories.group("gid_shops", ["uid_ann"])
    client = sign_in("olga", time_zone="Europe/Berlin")
    add = reverse("admin:dispatch_rotatetask_add")
    page = client.get(add)
    assert form_of(page, "time_zone")["time_zone"] == "Europe/Berlin"
    given = {"title": "Till", "executor": "gid_shops", "every_days": "1", "at": "09:00"}
    zone = {"time_zone": "Asia/Shanghai", "start_at_0": "2026-03-05", "start_at_1": "09:00:00"}
    answer = client.post(add, {**form_of(page, "title"), **given, **zone})
    assert answer.status_code == 302, errors_of(answer)
    task = RotateTask.objects.get()
    assert task.start_at == datetime(2026, 3, 5, 1, tzinfo=UTC)
    url = reverse("admin:dispatch_rotatetask_change", args=[task.pk])
    page = client.get(url)
    assert form_of(page, "title")["start_at_1"] == "09:00:00"
    assert "Time zone of this form: Asia/Shanghai" in text_of(page)
    # Sent untouched it changes nothing; in another zone the same text is another instant.
    client.post(url, form_of(page, "title"))
    task.refresh_from_db()
    assert (task.version, task.start_at) == (1, datetime(2026, 3, 5, 1, tzinfo=UTC))
    client.post(url, {**form_of(page, "title"), "time_zone": "Europe/Berlin"})
    task.refresh_from_db()
    assert task.start_at == datetime(2026, 3, 5, 8, tzinfo=UTC)


def test_start_of_a_schedule_is_typed_and_shown_in_its_own_zone(
    role_client: Callable[[str], Client],
) -> None:
    factories.job_type()
    client = sign_in("olga", time_zone="Europe/Berlin")
    add = reverse("admin:schedules_schedule_add")
    page = client.get(add)
    given = {"title": "Night", "every": "every_minutes", "every_minutes": "30"}
    zone = {"time_zone": "Asia/Shanghai", "start_at_0": "2026-03-05", "start_at_1": "09:00:00"}
    sent = {**form_of(page, "title"), **given, **zone, "params-raw": "{}"}
    assert client.post(add, sent).status_code == 302
    made = Schedule.objects.get()
    assert made.start_at == datetime(2026, 3, 5, 1, tzinfo=UTC)
    url = reverse("admin:schedules_schedule_change", args=[made.pk])
    assert form_of(client.get(url), "title")["start_at_1"] == "09:00:00"
    shown = text_of(role_client("viewer").get(url))
    assert "2026-03-05 01:00:00 UTC 09:00:00 UTC+8 Asia/Shanghai" in shown


def test_rotation_shows_its_instants_in_its_own_zone_too() -> None:
    task = factories.rotation(
        factories.user("uid_ann"),
        rule={"every_days": 1, "at": "02:00"},
        time_zone="Europe/Berlin",
        start_at=START,
    )
    assert isinstance(task, RotateTask)
    client = sign_in("olga", time_zone="Asia/Shanghai")
    for address in (
        reverse("admin:dispatch_rotatetask_changelist"),
        reverse("admin:dispatch_rotatetask_change", args=[task.pk]),
        reverse("admin:dispatch_executor_change", args=[task.executor_id]),
    ):
        text = re.sub(
            r"<[^>]* title=\"([^\"]*)\"[^>]*>", r"\1 ", client.get(address).content.decode()
        )
        text = re.sub(r"<[^>]*>", "", text)
        assert "2026-03-03 09:00:00 UTC+8" in text, address
        assert "02:00:00 UTC+1 Europe/Berlin" in text, address


def test_times_of_accounts_and_sign_ins_are_shown_as_all_others(olga: User) -> None:
    client = sign_in("olga", time_zone="Asia/Kolkata")
    for address in (
        reverse("admin:auth_user_changelist"),
        reverse("admin:auth_user_change", args=[olga.pk]),
        reverse("admin:axes_accesslog_changelist"),
    ):
        page = text_of(client.get(address))
        assert "UTC+5:30" in page
        assert "UTC+0530" not in page


def test_days_of_filters_and_the_overview_name_the_zone_too(frozen_clock: FrozenClock) -> None:
    factories.job_type()
    client = sign_in("olga", time_zone="Asia/Shanghai")
    assert "Created Asia/Shanghai" in text_of(client.get(reverse("admin:jobs_job_changelist")))
    rollup.roll_up(until=frozen_clock.advance(minutes=3))
    text = text_of(client.get("/admin/"))
    assert re.search(r"17:03:00 UTC\+8", text)
