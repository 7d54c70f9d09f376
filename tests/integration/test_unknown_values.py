"""Values that this release does not know, as a newer one may have written them beside it: pages,
lists, files and REST show them as they are."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from django.apps import apps
from django.contrib.auth.models import User
from django.db import connection, models, transaction
from django.test import Client

from apps.bulk.models import BulkRow, BulkRun
from apps.dispatch.models import Executor
from apps.jobs.models import JobType, TypeState
from tests.caches import clear_caches
from tests.clients import JsonClient
from tests.integration.api.world import OWN_APPS
from tests.integration.test_rights import filled, one_of_each

pytestmark = [pytest.mark.django_db, pytest.mark.sqlite]

UNKNOWN = "moon_mode"
# Words without choices, by model.
WORDS = {"JournalEntry": {"event"}, "BulkRun": {"kind", "verb"}}
# Pages of another box that read the column, too.
BESIDE = {"OnceTask": ("dispatch/", "flows/")}
# Shown nowhere, or only as what follows from it.
NOWHERE = {
    *("Problem.state", "Limited.side", "Stock.source", "Job.last_end", "ArchivedJob.last_end"),
    "Worker.state",
}
REST = (
    *("dispatches", "once-tasks", "rotate-tasks", "archived-tasks", "executors", "templates"),
    *("jobs", "job-types", "workers", "schedules", "flows", "flow-runs"),
)


def columns() -> Iterator[tuple[type[models.Model], str]]:
    for app in (*OWN_APPS, "alerts", "reports"):
        for model in apps.get_app_config(app).get_models():
            for field in model._meta.local_concrete_fields:
                is_word = field.name in WORDS.get(model.__name__, ())
                if field.get_internal_type() == "CharField" and (field.choices or is_word):
                    yield model, field.column


def write(model: type[models.Model], column: str) -> None:
    """Set the column of all rows, past all that this release allows."""
    quoted = connection.ops.quote_name
    with connection.cursor() as cursor:
        cursor.execute("PRAGMA ignore_check_constraints = 1")
        cursor.execute(
            f"UPDATE {quoted(model._meta.db_table)} SET {quoted(column)} = %s", [UNKNOWN]
        )


def also_there(objects: dict[str, int]) -> None:
    """Rows of parts that have no page of their own, and what leads to them."""
    kind = JobType.objects.get(name="hidden.type")
    JobType.objects.filter(pk=kind.pk).update(breaker_enabled=True)
    TypeState.objects.create(type=kind.name, breaker="open")
    run = BulkRun.objects.get(pk=objects["bulk/bulkrun/"])
    BulkRow.objects.create(run=run, number=0, target=objects["jobs/job/"])


def of_rest(objects: dict[str, int]) -> Iterator[str]:
    """The lists, and one row of each."""
    keys: dict[str, Any] = {
        "dispatches": objects["dispatch/dispatch/"],
        "once-tasks": objects["dispatch/oncetask/"],
        "rotate-tasks": objects["dispatch/rotatetask/"],
        "executors": Executor.objects.get(pk=objects["dispatch/executor/"]).name,
        "jobs": objects["jobs/job/"],
        "job-types": "hidden.type",
        "schedules": objects["schedules/schedule/"],
        "flows": "hidden.flow",
        "flow-runs": objects["flows/flowrun/"],
    }
    for name in REST:
        yield f"/api/v1/{name}/"
    yield from (f"/api/v1/{name}/{key}/" for name, key in keys.items())
    yield f"/api/v1/bulk/{objects['bulk/bulkrun/']}/rows/"
    yield f"/api/v1/jobs/{objects['jobs/job/']}/journal/"
    yield f"/api/v1/flow-runs/{objects['flows/flowrun/']}/steps/"
    yield f"/api/v1/schedules/{objects['schedules/schedule/']}/runs/"


@pytest.mark.parametrize("few", [2, pytest.param(None, marks=pytest.mark.long)])
def test_pages_and_rest_show_words_of_a_newer_release(
    admin_user: User,
    admin_client: Client,
    make_key: Callable[..., str],
    subtests: pytest.Subtests,
    few: int | None,
) -> None:
    """Asked are the addresses of the box of each column, and all of REST; in the short run those of
    a `few` columns that the seed draws."""
    objects = one_of_each(admin_user)
    also_there(objects)
    api = JsonClient(make_key())
    pages = [(f"{address}", address.url) for address in filled(objects)]
    unseen = set()
    asked_of = [*columns()]
    for model, column in random.sample(asked_of, few or len(asked_of)):
        boxes = BESIDE.get(model.__name__, f"{model._meta.app_label}/")
        with subtests.test(f"{model.__name__}.{column}"), transaction.atomic():
            write(model, column)
            clear_caches()
            asked = [admin_client.get(url) for name, url in pages if name.startswith(boxes)]
            asked += map(api.get, of_rest(objects))
            assert [each.request["PATH_INFO"] for each in asked if each.status_code >= 500] == []
            if not any(UNKNOWN.encode() in each.getvalue().lower() for each in asked):
                unseen.add(f"{model.__name__}.{column}")
            transaction.set_rollback(True)
    assert unseen <= NOWHERE if few else unseen == NOWHERE
