"""Whose jobs only code submits: the platform's own types, and those of Django's Tasks API."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any
from unittest.mock import patch

import pytest
from django.apps import AppConfig, apps
from django.test import Client
from django.urls import reverse

from apps.common import clock
from apps.common.errors import Invalid
from apps.jobs.handlers import registry
from apps.jobs.models import Job
from apps.jobs.services import types
from apps.jobs.services.submit import submit
from apps.jobs.services.types import ensure_types
from apps.jobs.tasks_backend import HANDLER, register_tasks
from apps.schedules.models import Schedule
from tests.integration.api.contract import ContractClient
from tests.integration.asyncflow.worker_calls import Calls
from tests.pages import form_of

pytestmark = pytest.mark.django_db

QUEUE, FUNCTION, OPEN = "task.default", "shop.add", "shop.greet"
TASK = {"task": "tests.shop.tasks.add", "backend": "default", "args": [1], "kwargs": {}}
CONTEXTS = {QUEUE: TASK, FUNCTION: TASK, "bulk": {"run": 1}, "deliver": {"delivery": 1}}


@pytest.fixture(autouse=True)
def made(settings: Any) -> Iterator[None]:
    """The closed types as workers make them, and the type of a task that a deployer has opened."""
    backend = settings.TASKS["default"] | {"OPTIONS": {"OPEN": [OPEN]}}
    settings.TASKS = {"default": backend}
    settings.EXTRA_APPS = ["tests.shop"]
    shop_app: Any = AppConfig.create("tests.shop")
    shop_app.apps = apps
    known = registry.known
    with (
        patch.dict(apps.app_configs, shop=shop_app),
        patch.dict(known.handlers),
        patch.dict(known.types),
    ):
        known.handlers.pop(HANDLER)
        register_tasks()
        own = {name: known.handlers[name].settings for name in ("bulk", "deliver", QUEUE)}
        ensure_types([*CONTEXTS, OPEN], {**known.types, **own})
        yield


def test_no_door_submits_them(
    api: ContractClient, make_key: Callable[..., str], admin_client: Client, subtests: Any
) -> None:
    wire = Calls("g2", make_key())
    schedule = {"title": "x", "rule": {"every_minutes": 60}, "start_at": "2026-03-03T00:00:00Z"}
    job_page, schedule_page = reverse("admin:jobs_job_add"), reverse("admin:schedules_schedule_add")

    def page(url: str, field: str, name: str) -> int:
        answer: Any = admin_client.get(url)
        offered = {value for value, _ in answer.context["adminform"].form.fields[field].choices}
        assert (name in offered) == (name == OPEN)
        filled = {**form_of(answer, field), field: name, "title": "x"}
        answer = admin_client.post(url, filled)
        if answer.status_code == 302:
            return 201
        return 201 if field not in answer.context["adminform"].form.errors else 400

    doors: dict[str, Callable[[str, Any], Any]] = {
        "one": lambda name, context: api.post("/api/v1/jobs/", {"type": name, "context": context}),
        "many": lambda name, context: api.post(
            "/api/v1/jobs/", {"jobs": [{"type": name, "context": context}]}
        ),
        "schedule": lambda name, context: api.post(
            "/api/v1/schedules/", {**schedule, "job_type": name, "context": context}
        ),
        "asyncflow": lambda name, context: wire.ask(
            "create", {"task_type": name, "task_context": "{}"}
        )[0],
        "form of a job": lambda name, context: page(job_page, "type", name),
        "form of a schedule": lambda name, context: page(schedule_page, "job_type", name),
    }
    for name, context in CONTEXTS.items():
        for door, ask in doors.items():
            with subtests.test(door, type=name):
                answer = ask(name, context)
                if isinstance(answer, int):
                    assert answer not in (0, 201)
                else:
                    assert answer.status_code == 400
                    assert "choose another job type" in answer.content.decode()
    assert not Job.objects.exists()
    assert not Schedule.objects.exists()
    assert doors["one"](OPEN, TASK).status_code == 201
    assert page(job_page, "type", OPEN) == page(schedule_page, "job_type", OPEN) == 201


def test_no_door_changes_what_they_do(api: ContractClient, admin_client: Client) -> None:
    later = clock.now() + timedelta(hours=1)
    for name, context in CONTEXTS.items():
        job = Job.objects.get(pk=submit(name, context, run_at=later).id)
        other = {**context, "args": [2]} if "args" in context else dict.fromkeys(context, 2)

        answer = api.patch(
            f"/api/v1/jobs/{job.pk}/", {"version": 1, "reason": "x", "context": other}
        )

        assert (answer.status_code, answer.json()["errors"][0]["field"]) == (400, "context")
        page = reverse("admin:jobs_job_edit", args=[job.pk])
        form = form_of(admin_client.get(page), "priority")
        typed = {**form, "context": json.dumps(other), "reason": "x"}
        shown: Any = admin_client.post(page, typed)
        assert "context" in shown.context["adminform"].form.errors
        job.refresh_from_db()
        assert (job.context, job.version) == (context, 1)
        same = {"version": 1, "reason": "x", "context": context, "priority": 3}
        assert api.patch(f"/api/v1/jobs/{job.pk}/", same).status_code == 200


def test_no_other_type_borrows_their_handlers(admin_client: Client) -> None:
    page: Any = admin_client.get(reverse("admin:jobs_jobtype_add"))
    _, _, said = page.context["adminform"].form.fields["handler"].help_text.partition(" here: ")
    listed = {*said.rstrip(".").split(", ")}
    handlers = (HANDLER, QUEUE, "bulk", "deliver")
    assert "sleep" in listed
    assert not listed & {*handlers}
    for name in handlers:
        with pytest.raises(Invalid, match="of its own types alone"):
            types.create_type(name=f"my-{name}", handler=name, actor="test")


def test_workers_elsewhere_hold_none_of_their_jobs(
    api: ContractClient, make_key: Callable[..., str]
) -> None:
    """Whoever settled it as done would have sent nothing."""
    wire = Calls("g2", make_key())
    for name, context in CONTEXTS.items():
        submit(name, context)
        answer = api.post("/api/v1/jobs/hold/", {"worker": "pi", "types": [name]})
        assert (answer.status_code, answer.json()["code"]) == (404, "not_found")
        assert wire.ask("hold", task_type=name, limit=1)[0] != 0
        assert wire.ask("register", {"task_type": name})[0] != 0
