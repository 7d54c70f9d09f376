"""A time that a person writes means the same instant at whichever door it comes in."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any
from urllib.parse import urlencode

import pytest
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from apps.dispatch.models import OnceTask, RotateTask
from apps.schedules.models import Schedule
from tests import factories
from tests.integration.dispatch.test_admin_rotate_tasks import ADD, form
from tests.integration.dispatch.test_admin_task_csv import ONCE, ROTATE, as_csv, import_it, try_it
from tests.pages import form_of, text_of

pytestmark = pytest.mark.django_db

SCHEDULE = "/admin/schedules/schedule/"
# Zone, local time, the instant that it means or what is said instead.
TIMES: list[tuple[str, str, str]] = [
    ("Asia/Shanghai", "2027-03-02 09:00", "2027-03-02T01:00"),
    ("Europe/Berlin", "2027-03-28 01:59:59", "2027-03-28T00:59:59"),
    (
        "Europe/Berlin",
        "2027-03-28 02:30",
        "Clocks in Europe/Berlin skip 2027-03-28 02:30:00; write 2027-03-28 03:00:00 or later.",
    ),
    # Shown twice: the first time counts.
    ("Europe/Berlin", "2026-10-25 02:30", "2026-10-25T00:30"),
    ("America/New_York", "2026-11-01 01:30", "2026-11-01T05:30"),
]


def started(model: Any) -> datetime | None:
    task = model.objects.order_by("-pk").first()
    model.objects.all().delete()
    return None if task is None else task.start_at


def by_form(client: Client, zone: str, local: str) -> Any:
    day, _blank, time = local.partition(" ")
    sent = form(every_minutes="5", time_zone=zone, start_at_0=day, start_at_1=time)
    page = client.post(reverse(ADD), sent)
    return started(RotateTask) or page.context["adminform"].form.errors["start_at"][0]


def by_form_of_once_tasks(client: Client, zone: str, local: str) -> Any:
    with timezone.override(zone):
        sent = typed_in(client, ONCE, local, executor="uid_alice", repeats="date")
    return started(OnceTask) or sent.context["adminform"].form.errors["start_at"][0]


def by_form_of_schedules(client: Client, zone: str, local: str) -> Any:
    rule = {"every": "every_minutes", "every_minutes": "30", "time_zone": zone}
    sent = typed_in(client, SCHEDULE, local, job_type="mail", **rule)
    return started(Schedule) or sent.context["adminform"].form.errors["start_at"][0]


def typed_in(client: Client, address: str, local: str, **values: str) -> Any:
    """The answer to a form to add something, with that start."""
    day, _blank, time = local.partition(" ")
    values |= {"title": "A", "start_at_0": day, "start_at_1": time, "params-raw": "{}"}
    form = form_of(client.get(f"{address}add/"), "title")
    return client.post(f"{address}add/", {**form, **values})


def by_csv_of_rotations(client: Client, zone: str, local: str) -> Any:
    row = {"title": "A", "executor": "uid_alice", "start_at": local}
    text = as_csv({**row, "every_minutes": "5", "time_zone": zone})
    if refused := try_it(client, text, ROTATE).context["refused"]:
        return refused[0].errors[0].removeprefix("start_at: ")
    import_it(client, text, ROTATE)
    return started(RotateTask)


def by_csv_of_once_tasks(client: Client, zone: str, local: str) -> Any:
    """The zone of the page is the only one that there is."""
    with timezone.override(zone):
        text = as_csv({"title": "A", "executor": "uid_alice", "start_at": local})
        if refused := try_it(client, text, ONCE).context["refused"]:
            return refused[0].errors[0].removeprefix("start_at: ")
        import_it(client, text, ONCE)
    return started(OnceTask)


def by_address_of_a_report(client: Client, zone: str, local: str) -> Any:
    asked = {"from": local, "to": "2027-06-01T00:00Z", "zone": zone}
    page = client.get(f"/admin/reports/?{urlencode(asked)}")
    choice = page.context["choice"]
    return choice.problems[0] if choice.problems else choice.period.start


DOORS = (
    *(by_form, by_form_of_once_tasks, by_form_of_schedules),
    *(by_csv_of_rotations, by_csv_of_once_tasks, by_address_of_a_report),
)


def test_local_time_means_one_instant_at_every_door(
    admin_client: Client, subtests: pytest.Subtests
) -> None:
    factories.user()
    factories.job_type()
    for zone, local, meant in TIMES:
        for door in DOORS:
            with subtests.test(f"{door.__name__}: {local} in {zone}"):
                found = door(admin_client, zone, local)
                if " " in meant:
                    assert found == meant
                else:
                    assert found == datetime.fromisoformat(meant).replace(tzinfo=UTC)


def test_page_says_whose_clocks_are_read(admin_client: Client) -> None:
    for address, whose in ((ROTATE, "of the repeating task"), (ONCE, "of the page")):
        said = f"Times without an offset are read in the time zone {whose}."
        assert said in text_of(admin_client.get(f"{address}import/"))
