"""A stored rule that cannot be read any more, such as one in a zone that the tz database has lost:
it is never due, is said to be unreadable and can be corrected, and stops nothing beside it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client

from apps.dispatch.models import Executor, RotateTask
from apps.schedules.models import Schedule
from tests import factories
from tests.caches import clear_caches
from tests.clients import JsonClient
from tests.integration.test_rights import filled, one_of_each

pytestmark = [pytest.mark.django_db, pytest.mark.sqlite]

LOST = {"time_zone": "Gone/City"}
UNREADABLE = [LOST, {"rule": {"cron": "@nope"}}, {"rule": "daily"}]


@pytest.mark.parametrize("columns", UNREADABLE)
def test_others_of_the_queue_are_handed_out(
    make_key: Callable[..., str], columns: dict[str, Any]
) -> None:
    api = JsonClient(make_key())
    group = factories.group("gid_shops", ["uid_ann"])
    rotation = factories.rotation(group)
    factories.once_task(group, title="Good")
    RotateTask.objects.update(**columns)
    Executor.objects.raise_plan_version()
    clear_caches()
    assert api.post("/api/v1/dispatch/", {"uid": "uid_ann"}).json()["title"] == "Good"
    told = api.get(f"/api/v1/explain/?executor=uid_ann&source=rotate&task={rotation.pk}")
    assert told.json()["eligible"] is False
    [row] = api.get("/api/v1/rotate-tasks/").json()["results"]
    assert (row["next_due"], row["summary"][:14]) == ([], "cannot be read")
    change = {"rule": {"every_minutes": 30}, "time_zone": "UTC", "version": row["version"]}
    mended = api.patch(f"/api/v1/rotate-tasks/{rotation.pk}/", change)
    assert (mended.status_code, len(mended.json()["next_due"])) == (200, 10)


@pytest.mark.parametrize("columns", UNREADABLE)
def test_pages_and_lists_say_so(
    admin_user: User,
    admin_client: Client,
    make_key: Callable[..., str],
    columns: dict[str, Any],
) -> None:
    objects = one_of_each(admin_user)
    RotateTask.objects.update(**columns)
    Schedule.objects.update(**columns)
    Executor.objects.raise_plan_version()
    clear_caches()
    boxes = ("dispatch/", "schedules/")
    pages = [each.url for each in filled(objects) if f"{each}".startswith(boxes)]
    api = JsonClient(make_key())
    asked = {url: admin_client.get(url) for url in ["/admin/", *pages]}
    for url in ("rotate-tasks/", "schedules/", f"schedules/{objects['schedules/schedule/']}/"):
        asked[url] = api.get(f"/api/v1/{url}")
    failed = {url: each.status_code for url, each in asked.items() if each.status_code >= 400}
    assert {url for url in failed if failed[url] not in (403, 404, 405)} == set()
    for url in ("rotate-tasks/", "schedules/", "/admin/dispatch/rotatetask/"):
        assert b"cannot be read" in asked[url].content
