"""What the tests over all endpoints find in the database, and whether they have changed it."""

from __future__ import annotations

import functools
import hashlib
import re
from collections.abc import Collection
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from django.apps import apps
from django.db import connection, models

from apps.bulk.models import BulkRow, BulkRun
from apps.common import clock
from apps.dispatch.models import (
    ArchivedTask,
    Dispatch,
    Executor,
    Membership,
    OnceTask,
    RotateTask,
    Stock,
)
from apps.flows.models import Flow, FlowRun, FlowStep
from apps.flows.services import flows
from apps.flows.services.start import start
from apps.jobs.models import Job
from tests import callback, factories

# Counters that a request which changes nothing may still move.
COUNTERS = {"apiclient": {"last_used_at"}, "executor": {"last_seen_at"}}
NIGHT = {
    "steps": [
        {"name": "gate", "kind": "wait"},
        {"name": "send", "kind": "jobs", "type": "mail", "each": [1, 2], "needs": ["gate"]},
    ]
}
OWN_APPS = ("dispatch", "jobs", "schedules", "flows", "bulk", "journal", "access")
CHANGES = re.compile(r"\b(INSERT|UPDATE|DELETE|REPLACE|TRUNCATE)\b", re.IGNORECASE)


@dataclass(frozen=True)
class World:
    """alice in the group gid_sales and bob in gid_other; each has an open dispatch. A task and a
    rotation of alice are in the archive.

    Of the type mail alice has a job in each kind of state, of sms bob has one that waits and one
    has no user. The pool points is empty. The schedule makes jobs of type mail from an hour on.
    Of the flow night, of jobs of type mail, one run waits at its gate and one has failed. Two bulk
    runs are over alice's mails.
    """

    number: str
    task: int
    group_task: int
    rotation: int
    old_task: int
    old_rotation: int
    bobs_number: str
    bobs_task: int
    waiting_job: int
    running_job: int
    failed_job: int
    sms_job: int
    nobodys_job: int
    schedule: int
    flow_run: int
    failed_flow_run: int
    acting_run: int
    stopped_run: int


def build_world() -> World:
    """The rows; the template is photo-check, both open dispatches have a lease of an hour."""
    sales = factories.group("gid_sales", ["uid_alice"])
    factories.group("gid_other", ["uid_bob"])
    factories.template("photo-check")
    factories.job_type("unused.type")
    factories.job_type("mail", handler="echo")
    factories.job_type("points", pool=True)
    task, number = _handed_out("uid_alice")
    bobs_task, bobs_number = _handed_out("uid_bob")
    failed_job = _alices(key="order-3", into={"status": "failed", "attempts": 3})
    return World(
        number=number,
        task=task,
        group_task=factories.once_task(sales, "For the group", priority=-1).pk,
        rotation=factories.rotation(
            factories.member("uid_alice"), "For uid_alice, daily", status="paused"
        ).pk,
        old_task=factories.archived_task("once", factories.member("uid_alice")),
        old_rotation=factories.archived_task("rotate", factories.member("uid_alice")),
        bobs_number=bobs_number,
        bobs_task=bobs_task,
        waiting_job=_alices(key="order-1", delay=timedelta(hours=1)),
        running_job=factories.running_job(key="order-2", user_id="uid_alice").pk,
        failed_job=failed_job,
        sms_job=factories.job("sms", key="order-1", user_id="uid_bob").pk,
        nobodys_job=factories.job("sms", key="order-5").pk,
        schedule=factories.schedule(start_at=clock.now() + timedelta(hours=1)).pk,
        flow_run=_flow_run(),
        failed_flow_run=_flow_run(status="failed"),
        acting_run=_run("acting", failed_job),
        stopped_run=_run("stopped", failed_job),
    )


def _alices(**fields: Any) -> int:
    return factories.job(user_id="uid_alice", **fields).pk


def _run(state: str, job: int) -> int:
    run = BulkRun.objects.create(
        kind="jobs",
        verb="cancel",
        filter={"type": ["mail"]},
        rate=200,
        reason="wrong address",
        actor=factories.OPERATOR,
        bound={"types": ["mail"], "users": ["uid_alice"], "takes_nobodys": False},
        job=job,
        state=state,
        collected=1,
        done=1,
        created_at=clock.now(),
        ended_at=clock.now() if state == "stopped" else None,
    )
    BulkRow.objects.create(run=run, number=0, target=job)
    return run.pk


def _flow_run(status: str = "") -> int:
    """A run that waits, or one whose gate nobody opened in time."""
    flows.put_flow(name="night", definition=NIGHT, actor=factories.OPERATOR)
    number = start("night").id
    if status:
        FlowStep.objects.filter(run=number, name="gate").update(state=status, look_at=None)
        FlowRun.objects.filter(pk=number).update(status=status, finished_at=clock.now())
    return number


def _handed_out(uid: str) -> tuple[int, str]:
    user = factories.member(uid)
    task = factories.once_task(user, f"For {uid}")
    taken = callback.take_next(user)
    assert isinstance(taken, Dispatch)
    return task.pk, str(taken.pk)


def erase_all_but(names: Collection[str]) -> None:
    """Take away, as if it had never been, whatever belongs to other executors than these."""
    Job.objects.exclude(user_id__in=names).delete()
    Dispatch.objects.exclude(executor__name__in=names).delete()
    OnceTask.objects.exclude(executor__name__in=names).delete()
    RotateTask.objects.exclude(executor__name__in=names).delete()
    ArchivedTask.objects.exclude(executor__name__in=names).delete()
    Stock.objects.exclude(task__in=OnceTask.objects.values("pk")).delete()
    BulkRun.objects.all().delete()
    FlowRun.objects.all().delete()
    Flow.objects.all().delete()
    Membership.objects.exclude(user__name__in=names, group__name__in=names).delete()
    Executor.objects.exclude(name__in=names).delete()


def checksum(*, but: Collection[type[models.Model]] = ()) -> dict[str, str]:
    """A digest of every table of the platform, its counters left out."""
    return {
        model._meta.label: _digest(model)
        for label in OWN_APPS
        for model in apps.get_app_config(label).get_models()
        if model not in but
    }


class Untouched:
    """Whether the rows are as they were as the block began: `with Untouched() as rows`.

    They are read again only after a statement that may have changed some.
    """

    def __enter__(self) -> Untouched:
        self._before, self._may_differ = checksum(), False
        self._watch = connection.execute_wrapper(self._note)
        self._watch.__enter__()
        return self

    def __exit__(self, *raised: Any) -> None:
        self._watch.__exit__(*raised)

    def __bool__(self) -> bool:
        if self._may_differ:
            self._may_differ = checksum() != self._before
        return not self._may_differ

    def _note(self, execute: Any, sql: str, *args: Any) -> Any:
        self._may_differ = self._may_differ or CHANGES.search(sql) is not None
        return execute(sql, *args)


def _digest(model: type[models.Model]) -> str:
    with connection.cursor() as cursor:
        cursor.execute(_content(model))
        return hashlib.sha256(repr(cursor.fetchall()).encode()).hexdigest()


@functools.cache
def _content(model: type[models.Model]) -> str:
    """The query of all rows, composed once: these tests digest thousands of tables."""
    counters = COUNTERS.get(model._meta.model_name or "", set())
    fields = [field for field in model._meta.concrete_fields if field.attname not in counters]
    rows = model._base_manager.order_by("pk").values_list(*(field.attname for field in fields))
    return str(rows.query)
