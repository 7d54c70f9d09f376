"""Nobody who sees masks learns a secret from what a schema of their own refuses of it."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from django.test import Client

from apps.common import clock
from apps.common.errors import PlatformError
from apps.common.masking import MASK, redact
from apps.dispatch.models import OnceTask
from apps.dispatch.services.fitting import fitting
from apps.flows.models import FlowStep
from apps.flows.services import control
from apps.jobs.models import InboxRow, Job
from apps.jobs.services import inbox
from apps.jobs.services.type_snapshots import forget_type_snapshots
from apps.schedules.models import Schedule
from tests import factories, flows
from tests.clients import JsonClient
from tests.emptying import undone
from tests.jobs import end, job_type, jobs, take
from tests.pages import change_url, form_of, text_of

pytestmark = pytest.mark.django_db

FITS, DIFFERS = "hunter2", "dragons"
# What a schema may ask about the secret, by which the two differ.
TOKEN: tuple[dict[str, Any], ...] = (
    {"properties": {"token": {"type": "string", "pattern": "^h"}}},
    {"properties": {"token": {"const": FITS}}},
    {"properties": {"token": {"enum": [FITS, "other"]}}},
    {"properties": {"note": {"pattern": f"={FITS}"}}},
    {"properties": {"list": {"items": {"pattern": "^--|^h"}}}},
    {"if": {"properties": {"token": {"pattern": "^h"}}}, "then": {"required": ["none"]}},
    {"anyOf": [{"properties": {"token": {"pattern": "^h"}}}, {"required": ["none"]}]},
    {"not": {"properties": {"token": {"const": FITS}}}},
    {"patternProperties": {"^to": {"pattern": "^h"}}},
)


def value_of(secret: str) -> dict[str, Any]:
    return {"token": secret, "note": f"pin={secret}", "list": ["--pin", secret], "a": 1}


# --- the doors: what they answer --------------------------------------------------------------
class World:
    """A row of each kind with the secret, and a key that sees masks."""

    def __init__(self, api: JsonClient, admin: Client, schema: Any) -> None:
        self.api, self.admin, self.schema = api, admin, schema
        self.ann = factories.user("uid_ann")
        job_type("mail")
        self.job, self.ended = jobs(2)
        self.task = factories.once_task(self.ann)
        self.schedule = factories.schedule()

    def store(self, secret: str) -> None:
        value = value_of(secret)
        Job.objects.update(context=value)
        OnceTask.objects.update(params=value)
        Schedule.objects.update(context=value)

    @property
    def edited(self) -> dict[str, Any]:
        shown: dict[str, Any] = redact(value_of(FITS))
        assert MASK in shown["token"]
        return {**shown, "a": 2}

    def ask_of_jobs(self) -> None:
        body = {"params_schema": self.schema}
        assert self.api.patch("/api/v1/job-types/mail/", body).status_code == 200
        forget_type_snapshots()


def said(answer: Any) -> Any:
    """The status, and the errors if there are some."""
    is_json = answer["Content-Type"].startswith(("application/json", "application/problem"))
    return answer.status_code, answer.json().get("errors") if is_json else None


def job_edit(world: World) -> Any:
    world.ask_of_jobs()
    version = Job.objects.get(pk=world.job).version
    body = {"version": version, "reason": "x", "context": world.edited}
    return said(world.api.patch(f"/api/v1/jobs/{world.job}/", body))


def schedule_edit(world: World) -> Any:
    world.ask_of_jobs()
    address = f"/api/v1/schedules/{world.schedule.pk}/"
    return [
        said(world.api.patch(address, changes))
        for changes in ({"context": world.edited}, {"title": "Other", "misfire_limit": 7})
    ]


def schedule_run(world: World) -> Any:
    world.ask_of_jobs()
    return said(world.api.post(f"/api/v1/schedules/{world.schedule.pk}/run/", {}))


def task_edit(world: World) -> Any:
    name = factories.template("own", world.schema).name
    address = f"/api/v1/once-tasks/{world.task.pk}/"
    return [
        said(send(body))
        for body in ({"template": name}, {"template": name, "params": world.edited})
        for send in (
            lambda body: world.api.post(f"{address}what-if/", body),
            lambda body: world.api.patch(address, body),
        )
    ]


def task_form(world: World) -> Any:
    """Another template, the params as fields and as JSON."""
    template = factories.template("own", world.schema)
    answers = []
    for raw in ({}, {"params-uses_raw": "on"}):
        world.task.refresh_from_db()
        form = form_of(world.admin.get(change_url(world.task)), "title")
        form.pop("params-uses_raw", None)
        page = world.admin.post(
            change_url(world.task), {**form, "template": template.pk, **raw}, follow=True
        )
        answers.append((page.redirect_chain != [], text_of(page).count("does not match")))
    return answers


def template_form(world: World) -> Any:
    """Which tasks the schema that is being written would fit."""
    OnceTask.objects.update(template=factories.template("old", {"type": "object"}))
    [fit] = fitting("old", world.schema, [OnceTask.objects.all()], below=2)
    return len(fit.fits), [each.errors for each in fit.misfits]


def flow_steps(world: World) -> Any:
    """Steps that begin when the job type and the template want something else than they did."""
    secret = Job.objects.get(pk=world.job).context
    factories.template("photo", {"type": "object"})
    run = flows.started(
        flows.wait("gate"),
        flows.job("one", context=secret, needs=["gate"]),
        flows.jobs("many", [secret, {"a": 2}], needs=["gate"]),
        flows.job("given", context={"token": flows.ref("params", "token")}, needs=["gate"]),
        flows.task("shown", "uid_ann", template="photo", params=secret, needs=["gate"]),
        params=secret,
    )
    world.ask_of_jobs()
    factories.template("photo", world.schema)
    control.finish(run=flows.run_of(run), step="gate", result=None, **flows.OLGA)
    return flows.states(run), [*FlowStep.objects.filter(run=run).values_list("name", "memo")]


def flow_edit(world: World) -> Any:
    """The next version of a flow, with masks where it has secrets, and a check of it."""
    secret = Job.objects.get(pk=world.job).context
    factories.template("photo", {"type": "object"})
    steps = [
        flows.job("one", context=secret),
        flows.task("shown", "uid_ann", template="photo", params=secret),
    ]
    address = "/api/v1/flows/night/"
    body = {"name": "night", "definition": {"steps": steps}}
    assert world.api.post("/api/v1/flows/", body).status_code == 201
    world.ask_of_jobs()
    factories.template("photo", world.schema)
    shown = world.api.get(address).json()["definition"]
    assert MASK in str(shown)
    return said(world.api.put(address, {"definition": shown, "title": "Night"}))


def inbox_row(world: World) -> Any:
    """A row that waited while the schema was changed, and its correction."""
    secret = Job.objects.get(pk=world.job).context
    number = InboxRow.objects.create(type="mail", context=json.dumps(secret)).pk
    wrong = InboxRow.objects.create(
        type="mail", context=json.dumps(secret), refused_at=clock.now(), error="was wrong"
    )
    world.ask_of_jobs()
    inbox.move(seconds=5)
    try:
        inbox.correct(row=wrong, version=None, changes={"priority": 1}, **flows.OLGA)
    except PlatformError as error:
        return error.detail
    return [*InboxRow.objects.filter(pk=number).values_list("error")]


DOORS: tuple[Callable[[World], Any], ...] = (
    *(job_edit, schedule_edit, schedule_run, task_edit, task_form, template_form),
    *(flow_steps, flow_edit, inbox_row),
)


@pytest.mark.parametrize("door", DOORS, ids=lambda door: door.__name__)
def test_answer_does_not_depend_on_the_secret(
    door: Callable[[World], Any],
    make_key: Any,
    admin_client: Client,
    subtests: pytest.Subtests,
) -> None:
    key = JsonClient(make_key(scopes=("read", "operate", "submit")))
    for schema in TOKEN:
        with subtests.test(str(schema)):
            answers = []
            for secret in (FITS, DIFFERS):
                with undone():
                    world = World(key, admin_client, {"type": "object", **schema})
                    world.store(secret)
                    answers.append(door(world))
            assert answers[0] == answers[1]


def test_what_is_typed_is_checked_whatever_was_stored(make_key: Any) -> None:
    """A new secret, and all that is none."""
    key = JsonClient(make_key(scopes=("read", "operate", "submit")))
    schema = {"properties": {"token": {"pattern": "^h"}, "a": {"maximum": 5}}}
    world = World(key, Client(), {"type": "object", **schema})
    world.store(DIFFERS)
    world.ask_of_jobs()
    address = f"/api/v1/jobs/{world.job}/"
    for change, field in (({"a": 6}, "context.a"), ({"token": "dragon"}, "context.token")):
        version = Job.objects.get(pk=world.job).version
        body = {"version": version, "reason": "x", "context": {**world.edited, **change}}
        answer = key.patch(address, body)
        assert answer.status_code == 400
        assert [each["field"] for each in answer.json()["errors"]] == [field]
    assert key.post("/api/v1/jobs/", {"type": "mail", "context": {"token": "d"}}).status_code == 400


def test_retry_with_another_context_keeps_secrets_unasked(make_key: Any) -> None:
    key = JsonClient(make_key(scopes=("read", "operate")))
    world = World(key, Client(), {"type": "object", **TOKEN[0]})
    end(take()[0], "failed", retry="never")
    failed = Job.objects.get(status="failed")
    world.store(DIFFERS)
    world.ask_of_jobs()
    answer = key.post(f"/api/v1/jobs/{failed.pk}/retry/", {"reason": "x", "context": world.edited})
    assert answer.status_code == 200
    failed.refresh_from_db()
    assert failed.context == {**value_of(DIFFERS), "a": 2}
