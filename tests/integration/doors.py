"""The doors at which secrets are edited and read: by a key without `payload`, and by a person who
may do everything."""

from __future__ import annotations

import csv
import io
import json
import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from django.test import Client

from apps.bulk.models import BulkRun
from apps.common import clock
from apps.common.logs import JsonFormatter, TextFormatter
from apps.common.masking import MASK
from apps.dispatch.models import Dispatch, OnceTask, RotateTask
from apps.dispatch.services import tasks
from apps.jobs.models import Job, JobType
from apps.jobs.rules.job_log import LogLines, line
from apps.jobs.services.type_snapshots import forget_type_snapshots
from apps.journal.models import JournalEntry, Sink, SinkReject
from apps.schedules.models import Schedule
from tests import callback, factories
from tests.clients import JsonClient
from tests.integration.bulk.conftest import carry_out
from tests.jobs import end, take
from tests.masks import SECRET
from tests.pages import form_of

# Hardly anything fits it, and each misfit is told.
STRICT = {
    "type": "object",
    "properties": {
        "note": {"maxLength": 3, "type": "string"},
        "name": {"const": "x", "pattern": "^x", "type": ["string", "boolean"]},
        "token": {"maxLength": 3, "type": "string"},
        "pin": {"type": "integer"},
        "list": {"type": "array", "maxItems": 1, "items": {"enum": ["-v"]}, "uniqueItems": True},
        "credentials": {"type": "object", "properties": {"a": {"const": 1}}},
    },
}
# Fits all of it.
LENIENT = {
    "type": "object",
    "properties": {
        "note": {"type": "string"},
        "list": {"type": "array", "items": {"type": "string"}},
        "token": {"type": "string"},
    },
}
SCHEMAS: tuple[Any, ...] = (None, LENIENT, STRICT)
ERROR = f"password: {SECRET}1 and X-Api-Key: {SECRET}2 at https://u:{SECRET}3@h?token={SECRET}4"
MODELS: dict[Any, str] = {
    OnceTask: "params",
    RotateTask: "params",
    Schedule: "context",
    Job: "context",
}


class World:
    """One of each that holds the secrets, and who edits them: a key without `payload`, and a person
    who may do everything."""

    def __init__(self, key: str, admin: Client) -> None:
        self.api, self.admin = JsonClient(key), admin
        ann = factories.user("uid_ann")
        self.pair = factories.group("gid_pair", ["uid_ann", "uid_bob", "uid_eve"])
        self.templates = [schema and factories.template("t", schema) for schema in SCHEMAS]
        factories.job("mail")
        [held] = take()
        end(held, "failed", error=ERROR, retry="never", log=LogLines([line(0, ERROR)]))
        self.rows: dict[Any, Any] = {
            OnceTask: factories.once_task(ann),
            RotateTask: factories.rotation(ann),
            Schedule: factories.schedule(),
            Job: factories.job("mail"),
        }
        self.failed = held.id
        sink = {"name": "s", "created_at": clock.now(), "after": 0, "checked": 0, "error": ERROR}
        Sink.objects.create(**sink)
        SinkReject.objects.create(sink="s", entry_id=1, at=clock.now(), error=ERROR, body="{}")

    def store(self, value: Any, schema: Any) -> None:
        """Begin again with the value in all of them."""
        template = self.templates[SCHEMAS.index(schema)]
        for model in (OnceTask, RotateTask):
            model.objects.update(params=value, template=template)  # type: ignore[attr-defined]
        Schedule.objects.update(context=value)
        Job.objects.update(context=value)
        Job.objects.filter(pk=self.failed).update(result=value, checkpoint=value)
        JobType.objects.filter(name="mail").update(params_schema=schema or {})
        forget_type_snapshots()

    def number(self, model: Any) -> int:
        row = self.rows[model]
        row.refresh_from_db()
        return int(row.pk)

    def fill(self, address: str, holding: str, **typed: str) -> list[Any]:
        """What a person sends after seeing the form, and both pages."""
        page = self.admin.get(address)
        form = {**form_of(page, holding), **typed}
        return [page, self.admin.post(address, form, follow=True)]


# Sends the edited params or contexts; returns what is shown.
Door = Callable[[World, Any], list[Any]]


# --- the doors ------------------------------------------------------------------------------------
def rest_tasks(world: World, edited: Any) -> list[Any]:
    once = f"/api/v1/once-tasks/{world.number(OnceTask)}/"
    body = {"title": "Shelf", "executor": "uid_ann", "params": edited}
    return [
        world.api.patch(once, {"params": edited}),
        world.api.put(once, body),
        world.api.post(f"{once}what-if/", {"params": edited}),
        world.api.patch(
            f"/api/v1/rotate-tasks/{world.number(RotateTask)}/", {"params": edited}
        ),
    ]  # fmt: skip


def rest_jobs(world: World, edited: Any) -> list[Any]:
    address, version = f"/api/v1/jobs/{world.number(Job)}/", world.rows[Job].version
    body = {"version": version, "reason": "why", "context": edited}
    schedule = f"/api/v1/schedules/{world.number(Schedule)}/"
    return [world.api.patch(address, body), world.api.patch(schedule, {"context": edited})]


def rest_new(world: World, edited: Any) -> list[Any]:
    task = {"title": "Shelf", "executor": "uid_ann", "params": edited}
    job = {"type": "mail", "context": edited}
    answers = [
        world.api.post("/api/v1/once-tasks/", task),
        world.api.post("/api/v1/once-tasks/what-if/", task),
        world.api.post("/api/v1/jobs/", job),
        world.api.post("/api/v1/jobs/", {"jobs": [job, job]}),
        world.api.post("/api/v1/schedules/", {"title": "S", "job_type": "mail", "context": edited}),
    ]
    if MASK in json.dumps(edited, ensure_ascii=False):
        assert {answer.status_code for answer in answers} == {400}
    return answers


def forms(world: World, edited: Any) -> list[Any]:
    text = json.dumps(edited, ensure_ascii=False)
    raw = {"params-raw": text, "params-uses_raw": "on"}
    return [
        *world.fill(f"/admin/dispatch/oncetask/{world.number(OnceTask)}/change/", "title", **raw),
        *world.fill(
            f"/admin/dispatch/rotatetask/{world.number(RotateTask)}/change/", "title", **raw
        ),
        *world.fill(
            f"/admin/schedules/schedule/{world.number(Schedule)}/change/", "title", **raw
        ),
        *world.fill(
            f"/admin/jobs/job/{world.number(Job)}/edit/", "priority", context=text, reason="why"
        ),
    ]  # fmt: skip


def fields(world: World, edited: Any) -> list[Any]:
    """The fields of the schema in place of the raw JSON, as far as they are texts."""
    page = world.admin.get(f"/admin/dispatch/oncetask/{world.number(OnceTask)}/change/")
    form = form_of(page, "title")
    form.pop("params-uses_raw", None)
    for name in ("note", "name", "token"):
        if f"params-value/{name}" in form and isinstance(edited.get(name), str):
            form[f"params-value/{name}"] = edited[name]
    return [page, world.admin.post(page.request["PATH_INFO"], form, follow=True)]


def files(world: World, edited: Any) -> list[Any]:
    """Out as CSV, edited, tried and imported."""
    out = world.admin.get("/admin/dispatch/oncetask/export/")
    rows = list(csv.DictReader(io.StringIO(out.content.decode("utf-8-sig"))))
    lines = io.StringIO()
    writer = csv.DictWriter(lines, list(rows[0]))
    writer.writeheader()
    for row in rows:
        cells = {**row, "params": json.dumps(edited, ensure_ascii=False)}
        writer.writerow(cells if row["id"] == str(world.number(OnceTask)) else row)
    trial = world.admin.post("/admin/dispatch/oncetask/import/", {"text": lines.getvalue()})
    if trial.context.get("refused"):
        return [out, trial]
    sent = form_of(trial, "confirmed")
    return [out, trial, world.admin.post("/admin/dispatch/oncetask/import/", sent, follow=True)]


def bulk(world: World, _edited: Any) -> list[Any]:
    """Each is changed with all that it has: what is copied has the secrets where they were."""
    task = {"verb": "copy", "filter": {"executor": ["uid_ann"]}, "params": {"executor": "uid_ann"}}
    job = {"verb": "priority", "filter": {"type": ["mail"]}, "params": {"priority": 5}}
    answers = []
    for kind, body in (("once-tasks", task), ("jobs", job)):
        answers.append(world.api.post(f"/api/v1/{kind}/bulk/", {**body, "dry_run": True}))
        started = world.api.post(
            f"/api/v1/{kind}/bulk/", {**body, "reason": f"token={SECRET}", "all": True}
        )
        answers.append(started)
        if started.status_code == 202:
            run = BulkRun.objects.get(pk=started.json()["id"])
            carry_out(run)
            answers += [world.api.get(f"/api/v1/bulk/{run.pk}/{part}") for part in ("", "rows/")]
            answers.append(world.admin.get(f"/admin/bulk/bulkrun/{run.pk}/change/"))
    return answers


def acts(world: World, _edited: Any) -> list[Any]:
    """Schedules make jobs, and jobs are controlled."""
    schedule, job = world.number(Schedule), world.number(Job)
    return [
        world.api.post(f"/api/v1/schedules/{schedule}/run/", {}),
        world.api.post(f"/api/v1/jobs/{job}/run-now/", {"reason": "why"}),
        world.api.post(f"/api/v1/jobs/{world.failed}/retry/", {"reason": "why"}),
    ]


def hands(world: World, _edited: Any) -> list[Any]:
    """An open dispatch is given on, by the page and the API, and asked for again."""
    stored = {"params": OnceTask.objects.get(pk=world.number(OnceTask)).params}
    task = factories.once_task(world.pair, mode="multi", dispatch_times=1, priority=99)
    OnceTask.objects.filter(pk=task.pk).update(**stored)
    first = callback.taken(factories.member("uid_ann"))
    page, reason = f"/admin/dispatch/dispatch/{first.pk}/give/", f"token={SECRET}"
    answers = [world.admin.get(page), world.admin.get(page, {"q": "bob"})]
    answers.append(world.admin.post(page, {"to": "uid_bob", "reason": reason}, follow=True))
    given = Dispatch.objects.open_of(factories.member("uid_bob").pk)
    assert given is not None
    address, to = f"/api/v1/dispatches/{given.pk}/", {"executor": "uid_eve", "reason": reason}
    answers += [world.api.post(f"{address}hand-over/", to) for _again in range(2)]
    last = Dispatch.objects.open_of(factories.member("uid_eve").pk)
    assert last is not None
    words: Any = {"result": stored["params"], "message": ERROR}
    callback.call_back(executor=last.executor, number=last.pk, outcome="failed", **words)
    address = f"/api/v1/dispatches/{last.pk}/ask-again/"
    answers += [world.api.post(address, {"reason": reason}) for _again in range(2)]
    answers.append(world.admin.get(f"/admin/dispatch/dispatch/{last.pk}/change/"))
    tasks.delete_task(task=OnceTask.objects.get(pk=task.pk), actor="admin:o")
    callback.finish(last.executor)
    return answers


DOORS: tuple[Door, ...] = (
    *(rest_tasks, rest_jobs, rest_new, forms, fields, files, bulk, acts, hands),
)


# --- what is read ---------------------------------------------------------------------------------
def everything(world: World) -> Iterator[Any]:
    """What the key and the person are shown of all of it."""
    once, job = world.number(OnceTask), world.number(Job)
    for path in (
        *("once-tasks/", f"once-tasks/{once}/", "rotate-tasks/", "schedules/", "jobs/"),
        *(f"jobs/{job}/", f"jobs/{world.failed}/", f"jobs/{world.failed}/journal/"),
        *(f"jobs/{job}/journal/", f"jobs/{world.failed}/log/", "templates/", "job-types/"),
    ):
        yield world.api.get(f"/api/v1/{path}")
    last = JournalEntry.objects.order_by("-pk").values_list("pk", flat=True)[:8]
    for path in (
        *("dispatch/oncetask/", f"dispatch/oncetask/{once}/change/", "dispatch/rotatetask/"),
        *(f"schedules/schedule/{world.number(Schedule)}/change/", "jobs/job/", "jobs/job/export/"),
        *(f"jobs/job/{job}/change/", f"jobs/job/{world.failed}/change/", "journal/journalentry/"),
        *("journal/journalentry/export/", "journal/sink/", "journal/sinkreject/"),
        *("reports/failures/", f"jobs/job/{world.failed}/log/"),
        f"journal/sink/{Sink.objects.get().pk}/change/",
        f"journal/sinkreject/{SinkReject.objects.get().pk}/change/",
        *(f"journal/journalentry/{number}/change/" for number in last),
    ):  # fmt: skip
        yield world.admin.get(f"/admin/{path}", follow=True)


@contextmanager
def logged() -> Iterator[Callable[[], str]]:
    """All that is logged meanwhile, in both forms."""
    lines = io.StringIO()
    handlers: list[logging.Handler] = []
    for formatter in (JsonFormatter(), TextFormatter()):
        handler = logging.StreamHandler(lines)
        handler.setFormatter(formatter)
        handlers.append(handler)
        logging.getLogger().addHandler(handler)
    try:
        yield lines.getvalue
    finally:
        for handler in handlers:
            logging.getLogger().removeHandler(handler)


def text_of(answer: Any) -> str:
    content = b"".join(answer.streaming_content) if answer.streaming else answer.content
    assert answer.status_code < 500
    return str(content.decode("utf-8", "replace"))
