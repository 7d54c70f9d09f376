"""Values of a wrong shape that somebody has written by SQL break nothing but their own row: pages,
lists and REST show it, say so and mend it, and all other work goes on."""

from __future__ import annotations

import json
import random
import re
from collections.abc import Callable, Collection, Iterator
from typing import Any, TypeAlias

import pytest
from django.apps import apps
from django.contrib.auth.models import User
from django.db import IntegrityError, OperationalError, connection, models
from django.test import Client

from apps.access.models import ApiClient
from apps.alerts import sweeps as of_alerts
from apps.bulk import sweeps as of_bulk
from apps.bulk.models import BulkRun
from apps.bulk.services.carry import Carrier
from apps.common import sweeps as of_all
from apps.common.errors import Invalid
from apps.dispatch import sweeps as of_dispatch
from apps.dispatch.models import ArchivedTask, OnceTask
from apps.flows import sweeps as of_flows
from apps.flows.models import FlowRun
from apps.jobs import sweeps as of_jobs
from apps.jobs.models import Bucket, Hold, JobType
from apps.jobs.services.type_snapshots import forget_type_snapshots
from apps.reports import sweeps as of_reports
from apps.schedules import sweeps as of_schedules
from apps.schedules.models import ScheduleRun
from tests import factories
from tests import flows as steps_of
from tests.caches import clear_caches
from tests.clients import JsonClient
from tests.emptying import undone
from tests.frozen import FrozenClock
from tests.integration.api.world import OWN_APPS
from tests.integration.test_rights import filled, one_of_each
from tests.integration.test_unknown_values import also_there, of_rest
from tests.jobs import end, take

pytestmark = [pytest.mark.django_db, pytest.mark.both]

# The last ones are wrong deeper inside.
SHAPES: tuple[Any, ...] = (None, "text", [], {}, 5, [5, None, []], {"steps": [{"name": 5}]})
ALWAYS = ("/admin/", "/admin/governance/", "/admin/search/?term=hidden", "/metrics")
ALWAYS += ("/admin/search/?term=hidden&part=hits",)
# Pages of another box that read the columns, too.
BESIDE = {"schedules": ("alerts/",), "access": ("bulk/",), "jobs": ("dispatch/",)}
SWEEPS = (
    *(of_alerts.evaluate, of_alerts.report, of_alerts.deliver, of_bulk.purge, of_all.tidy_up),
    *(of_dispatch.expire, of_dispatch.purge, of_flows.look, of_jobs.scan, of_jobs.move_inbox),
    *(of_jobs.admit, of_jobs.rescue, of_jobs.reorder_waiting, of_jobs.discard_exhausted),
    *(of_jobs.follow_workers, of_jobs.archive_ended, of_jobs.forget, of_jobs.warn_of_starving),
    *(of_reports.roll_up, of_schedules.make_jobs, of_schedules.purge),
)
Column: TypeAlias = "tuple[type[models.Model], models.Field[Any, Any]]"


def columns() -> Iterator[Column]:
    for app in ("common", *OWN_APPS, "alerts", "reports"):
        for model in apps.get_app_config(app).get_models():
            for field in model._meta.local_concrete_fields:
                if isinstance(field, models.JSONField):
                    yield model, field


class Company:
    """One of each with values that are to be broken, and beside it what is to go on: carl has a
    task `Good` behind a broken one, and of the type `good` there are a job, a schedule and a flow.
    """

    def __init__(self, admin_user: User, make_key: Callable[[], str]) -> None:
        self.objects = one_of_each(admin_user)
        also_there(self.objects)
        self.carl = factories.user("uid_carl")
        for made in (factories.once_task, factories.rotation):
            made(self.carl, "Bad", priority=9)
        Hold.objects.create(client="c", request_id="r", expires_at="2999-01-01T00:00Z")
        Bucket.objects.create(type="hidden.type", worker="w", seen_at="2999-01-01T00:00Z")
        self.broken = {
            model: [*model._base_manager.values_list("pk", flat=True)] for model, _ in columns()
        }
        self.api = JsonClient(make_key())
        factories.once_task(self.carl, "Good")
        factories.job("good")
        self.schedule = factories.schedule("good", "Good")
        self.run = steps_of.started(steps_of.job("look", type="good"))
        self.rest = [*of_rest(self.objects)]
        self.pages = [(f"{each}", each.url) for each in filled(self.objects)]

    def write(self, value: Any, asked: Collection[Column]) -> None:
        """Store the value in these columns, past all that the product does."""
        quoted = connection.ops.quote_name
        for model, field in asked:
            for pk in self.broken[model]:
                with connection.cursor() as cursor:
                    cursor.execute(
                        f"UPDATE {quoted(model._meta.db_table)} SET {quoted(field.column or '')} "
                        f"= %s WHERE {quoted(model._meta.pk.column or '')} = %s",
                        [json.dumps(value), pk],
                    )
        # Of a person's edit the queues hear by the version of the plan.
        self.carl.__class__.objects.raise_plan_version()
        clear_caches()

    def works(self, title: str) -> list[str]:
        """All that does not go on; the title is that of the task for carl."""
        said = []
        pulled = self.api.post("/api/v1/dispatch/", {"uid": "uid_carl"}).json()
        if pulled.get("title") != title:
            said.append(f"carl gets {pulled}")
        worker = {"worker": "pi-1", "types": ["good", "hidden.type"]}
        held = self.api.post("/api/v1/jobs/hold/", worker).json()
        good = [each for each in held["jobs"] if each["type"] == "good"]
        if len(good) != 2:
            said.append(f"of the good jobs are held {len(good)}")
        outcomes = [
            {"id": each["id"], "lease_token": each["lease_token"], "outcome": "succeeded"}
            for each in good
        ]
        settled = self.api.post("/api/v1/jobs/settle/", {"worker": "pi-1", "outcomes": outcomes})
        if settled.status_code != 200:
            said.append(f"settling is answered {settled.content}")
        for sweep in SWEEPS:
            sweep()
        of_flows.bring_on(self.run)
        if FlowRun.objects.get(pk=self.run).status != "succeeded":
            said.append("the good flow does not end")
        if not ScheduleRun.objects.filter(schedule=self.schedule).exclude(job=None).exists():
            said.append("the good schedule makes no job")
        return said


@pytest.fixture
def company(admin_user: User, make_key: Callable[..., str], frozen_clock: FrozenClock) -> Company:
    made = Company(admin_user, make_key)
    frozen_clock.advance(minutes=2)
    return made


def failing(company: Company, client: Client, pages: Collection[str]) -> list[str]:
    client.raise_request_exception = False
    asked = [*map(client.get, pages), *map(company.api.get, company.rest)]
    return [each.request["PATH_INFO"] for each in asked if each.status_code >= 500]


@pytest.mark.parametrize("few", [3, pytest.param(None, marks=pytest.mark.long)])
def test_pages_of_each_value(
    company: Company, admin_client: Client, subtests: pytest.Subtests, few: int | None
) -> None:
    """Asked are the addresses of the box of each column, and all of REST; in the short run those of
    a `few` columns and one shape of each, in the long one three of all; the seed draws."""
    known = [*columns()]
    for model, field in random.sample(known, few or len(known)):
        app = model._meta.app_label
        boxes = (f"{app}/", *BESIDE.get(app, ()))
        pages = [url for name, url in company.pages if name.startswith(boxes)]
        for value in random.sample(SHAPES, 1 if few else 3):
            with subtests.test(f"{model.__name__}.{field.name} = {value}"), undone():
                company.write(value, [(model, field)])
                assert failing(company, admin_client, [*pages, *ALWAYS]) == []


@pytest.mark.parametrize("value", SHAPES, ids=json.dumps)
def test_work_goes_on_beside_each_value(company: Company, value: Any) -> None:
    company.write(value, [*columns()])
    # An object may have any content.
    assert company.works("Bad" if isinstance(value, dict) else "Good") == []


def test_half_of_a_pair_goes_out_as_it_is_stored(company: Company, admin_client: Client) -> None:
    """Some programs cut an emoji in two. The answer with all jobs of a hold was lost by it."""
    half = {"shop": "\ud83d"}
    asked = [each for each in columns() if each[1].name in ("params", "context")]
    if connection.vendor == "mysql":
        # These refuse to store it: MariaDB by a constraint, MySQL by its type.
        with pytest.raises((IntegrityError, OperationalError)):
            company.write(half, asked)
        return
    company.write(half, asked)
    pulled = company.api.post("/api/v1/dispatch/", {"uid": "uid_carl"})
    assert pulled.json()["params"] == half
    worker = {"worker": "pi-1", "types": ["good", "hidden.type"]}
    held = company.api.post("/api/v1/jobs/hold/", worker).json()["jobs"]
    assert [each["context"] for each in held if each["type"] == "hidden.type"] == [half]
    assert [each["type"] for each in held].count("good") == 2
    shown = company.api.get(f"/api/v1/once-tasks/{company.objects['dispatch/oncetask/']}/")
    assert shown.json()["params"] == half
    boxes = ("dispatch/oncetask", "jobs/job/")
    pages = [url for name, url in company.pages if name.startswith(boxes)]
    assert pages
    assert failing(company, admin_client, pages) == []


ROWS = ("dispatch/oncetask/", "dispatch/rotatetask/", "schedules/schedule/", "jobs/jobtype/")


@pytest.mark.parametrize("value", ["text", 5, [5]])
def test_each_row_says_so_and_can_be_mended(
    company: Company, admin_client: Client, subtests: pytest.Subtests, value: Any
) -> None:
    """By its page, the checks and REST."""
    right: dict[str, Any] = {"params": {"shop": "9"}, "context": {"a": 1}, "stages": ["a"]}
    asked = [each for each in columns() if each[1].name in right]
    company.write(value, asked)
    checks = admin_client.get("/admin/governance/").content.decode()
    pages = ("once-tasks", "rotate-tasks", "schedules", "job-types")
    for label, name in zip(ROWS, pages, strict=True):
        with subtests.test(name):
            pk = company.objects[label]
            row = apps.get_model(*label.split("/")[:2]).objects.get(pk=pk)
            [field] = [each.name for _model, each in asked if each.model is type(row)]
            page = admin_client.get(f"/admin/{label}{pk}/change/").content.decode()
            assert "is stored, which is not" in page
            if name != "schedules":
                assert f"{row} cannot be read: {field} is not" in checks
            url = f"/api/v1/{name}/{row if name == 'job-types' else pk}/"
            shown = company.api.get(url).json()
            assert shown[field] == value
            change = {field: right[field], "version": shown["version"]}
            mended = company.api.patch(url, change)
            assert mended.status_code == 200, mended.content
            assert company.api.get(url).json()[field] == right[field]


@pytest.mark.parametrize("name", ["stages", "allowed_hosts"])
def test_type_whose_lists_cannot_be_read_counts_as_paused(
    make_key: Callable[..., str], admin_client: Client, name: str
) -> None:
    """Without them its jobs would go to anybody."""
    factories.job("mail")
    JobType.objects.filter(name="mail").update(**{name: [5]})
    forget_type_snapshots()
    worker = {"worker": "pi-1", "types": ["mail"]}
    api = JsonClient(make_key())
    assert api.post("/api/v1/jobs/hold/", worker).json()["jobs"] == []
    # Neither is of use before it is mended.
    offered = re.compile(r"act/(?:pause|resume)/\?")
    assert not offered.search(admin_client.get("/admin/jobs/jobtype/").content.decode())
    JobType.objects.filter(name="mail").update(**{name: []})
    forget_type_snapshots()
    assert offered.search(admin_client.get("/admin/jobs/jobtype/").content.decode())
    assert len(api.post("/api/v1/jobs/hold/", worker).json()["jobs"]) == 1


@pytest.mark.parametrize("name", ["executors", "job_types", "scopes"])
def test_key_whose_bindings_cannot_be_read_opens_nothing(
    company: Company, make_key: Callable[..., str], name: str
) -> None:
    key = make_key(executors=["uid_carl"], job_types=["good"])
    company.broken[ApiClient] = [ApiClient.objects.latest("pk").pk]
    company.write("uid_carl", [(ApiClient, ApiClient._meta.get_field(name))])
    assert JsonClient(key).get("/api/v1/jobs/").status_code == 403
    assert company.api.get("/api/v1/jobs/").status_code == 200


def test_key_whose_rate_cannot_be_read_opens_nothing(make_key: Callable[..., str]) -> None:
    key = make_key()
    ApiClient.objects.update(rate="often")
    assert JsonClient(key).get("/api/v1/jobs/").status_code == 403


def test_bulk_run_whose_filter_cannot_be_read_changes_nothing(company: Company) -> None:
    """An empty one would mean all rows."""
    company.write("text", [(BulkRun, BulkRun._meta.get_field("filter"))])
    with pytest.raises(Invalid, match="is stored, which is not an object"):
        Carrier(BulkRun.objects.get())


@pytest.mark.parametrize("body", [5, {"start_at": [], "template_id": {}}])
def test_older_task_that_cannot_be_read_stays(
    company: Company, admin_client: Client, body: Any
) -> None:
    company.write(body, [(ArchivedTask, ArchivedTask._meta.get_field("body"))])
    row = ArchivedTask.objects.get()
    assert admin_client.get(f"/admin/dispatch/archivedtask/{row.pk}/change/").status_code == 200
    restored = company.api.post(f"/api/v1/once-tasks/{row.task}/restore/", {"reason": "again"})
    assert restored.status_code == 409
    assert "cannot be read, so it stays" in restored.json()["detail"]


def test_run_whose_definition_cannot_be_read_waits(company: Company) -> None:
    """It is not over for want of steps; it is cancelled, or goes on once it is mended."""
    run = FlowRun.objects.get(pk=company.objects["flows/flowrun/"])
    company.write({"steps": 5}, [(FlowRun, FlowRun._meta.get_field("definition"))])
    of_flows.bring_on(run.pk)
    assert FlowRun.objects.get(pk=run.pk).status == "running"
    company.write(run.definition, [(FlowRun, FlowRun._meta.get_field("definition"))])
    [held] = take(types=("hidden.type",))
    end(held)
    of_flows.bring_on(run.pk)
    assert steps_of.states(run.pk)["look"] == "succeeded"


def test_queue_leaves_out_what_cannot_be_read(company: Company) -> None:
    company.write("text", [(OnceTask, OnceTask._meta.get_field("params"))])
    bad = OnceTask.objects.get(title="Bad")
    asked = f"/api/v1/explain/?executor=uid_carl&source=once&task={bad.pk}"
    assert company.api.get(asked).json()["reasons"][0]["code"] == "unreadable"
    coming = company.api.get("/api/v1/executors/uid_carl/preview/").json()["items"]
    assert {each["title"] for each in coming if each["source"] == "once"} == {"Good"}


def test_numbers_and_times_beyond_all_bounds_stop_nothing_else(
    company: Company, admin_client: Client
) -> None:
    JobType.objects.filter(name="hidden.type").update(
        expires_after_seconds=2**62, retry_max_seconds=1e300
    )
    start = {"start_at": "9999-12-31T23:59:59Z", "end_at": None}
    OnceTask.objects.exclude(title="Good").update(**start)
    company.carl.__class__.objects.raise_plan_version()
    clear_caches()
    boxes = ("dispatch/oncetask/", "jobs/jobtype/")
    pages = [url for name, url in company.pages if name.startswith(boxes)]
    assert failing(company, admin_client, [*pages, *ALWAYS]) == []
    assert company.works("Bad") == []
