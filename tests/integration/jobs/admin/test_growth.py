"""Pages of the admin take as many queries for fifty rows as for two, and no heavy columns."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, NamedTuple

import pytest
from django.test import Client

from apps.dispatch.models import Executor
from apps.flows.models import FlowRun
from apps.flows.services.flows import put_flow
from apps.flows.services.start import start
from apps.jobs.models import Job, JobType, Worker
from apps.jobs.services.slices import MAX_IN_LINE
from tests import callback, factories, history
from tests.flows import job as step_of
from tests.jobs import HERE, THERE, Holder, end, job_type, jobs, share, take
from tests.statements import sent_by

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("frozen_clock")]


class Page(NamedTuple):
    """`grow` makes so many rows more of what the page shows; `never` is what no statement says."""

    url: str
    grow: Callable[[int], object]
    # But of counts up to a limit, which end there.
    never: tuple[str, ...] = (r"(?<!LIMIT 1) OFFSET ",)


def groups(count: int) -> list[Executor]:
    """Groups of one member each, few of them."""
    made = {each.name: each for each in Executor.objects.filter(name__startswith="gid_")}
    names = [f"gid_{n % 5}" for n in range(count)]
    for name in {*names} - made.keys():
        made[name] = factories.group(name, [f"uid_{name}"])
    return [made[name] for name in names]


def plan_tasks(make: Callable[..., object], count: int) -> None:
    for group in groups(count):
        make(group, mode="multi", dispatch_times=3)
    callback.take_next(factories.member("uid_gid_1"))


def hand_out(count: int) -> None:
    names = [f"uid_{Executor.objects.count() + n}" for n in range(count)]
    group = factories.group(f"gid_of_{names[0]}", names)
    factories.once_task(group, mode="multi", dispatch_times=count)
    for name in names:
        callback.taken(factories.member(name))


def join(count: int) -> None:
    start = Executor.objects.count()
    factories.group(f"gid_{start}", [f"uid_{start + n}" for n in range(count)])


def use_templates(count: int) -> None:
    ann = Executor.objects.first() or factories.user()
    for n in range(count):
        made = factories.template(f"t-{count}-{n}", {"type": "object"})
        factories.once_task(ann, template=made)


def make_flows(count: int) -> None:
    """Each with an open run and one that has failed."""
    job_type()
    for n in range(count):
        flow = put_flow(
            name=f"flow-{count}-{n}", definition={"steps": [step_of("send")]}, actor="admin:ann"
        )
        first = start(flow.name)
        FlowRun.objects.filter(pk=first.id).update(status="failed")
        start(flow.name)


def submit(count: int) -> None:
    for name in ("mail", "web", "crm"):
        job_type(name)
        jobs(count, name, key="order-1")


def archive(count: int) -> None:
    job_type("mail")
    history.archived(count)


def make_types(count: int) -> None:
    for n in range(count):
        job_type(f"type-{JobType.objects.count()}-{n}", breaker_enabled=True)


def connect(count: int) -> None:
    start = Worker.objects.count()
    for n in range(start, start + count):
        factories.worker(f"pi-{n}", kind="http", client="ac_1", lanes=[], promises_beats=False)


def run(count: int) -> None:
    """By the one worker that there is."""
    if not Worker.objects.exists():
        factories.worker(HERE.name)
    job_type()
    jobs(count)
    take(count)


def try_again(count: int) -> None:
    """The one job that there is, on two hosts."""
    job_type(max_attempts=10_000, retry_delay_seconds=0)
    if not Job.objects.exists():
        jobs()
    for n in range(count):
        end(take(1, by=(HERE, THERE)[n % 2])[0], "failed", error="x")


def share_with(count: int) -> None:
    make_types(count)
    job_type()
    jobs(count)
    share(*(Holder(f"w{n}", "host") for n in range(count)))


PAGES = {
    "once tasks": Page("/admin/dispatch/oncetask/", lambda n: plan_tasks(factories.once_task, n)),
    "rotations": Page("/admin/dispatch/rotatetask/", lambda n: plan_tasks(factories.rotation, n)),
    # A join could begin at the executors.
    "dispatches": Page(
        "/admin/dispatch/dispatch/",
        hand_out,
        (r"COUNT\(", " OFFSET ", r"\bresult\b.* FROM dispatch_dispatch", "FROM dispatch_d.* JOIN"),
    ),
    "executors": Page("/admin/dispatch/executor/", join),
    "templates": Page("/admin/dispatch/template/", use_templates),
    "flows": Page("/admin/flows/flow/", make_flows, (r"flows_flowrun.* params",)),
    "jobs": Page("/admin/jobs/job/", submit, (r"\b(context|result)\b.* FROM jobs_job ",)),
    "older jobs": Page("/admin/jobs/archivedjob/", archive, (r"COUNT\(", " OFFSET ")),
    "types": Page("/admin/jobs/jobtype/", make_types),
    "workers": Page("/admin/jobs/worker/", connect),
    "page of a worker": Page("/admin/jobs/worker/{worker}/change/", run),
    "page of a job": Page("/admin/jobs/job/{job}/change/", try_again),
    "slices": Page("/admin/jobs/worker/slices/", share_with),
}


@pytest.mark.parametrize("name", PAGES)
def test_page_asks_as_often_for_fifty_rows_as_for_two(name: str, admin_client: Client) -> None:
    page = PAGES[name]
    counts, sent = [], list[str]()
    for count in (2, 48):
        page.grow(count)
        row = Job.objects.first(), Worker.objects.first()
        url = page.url.format(job=row[0] and row[0].pk, worker=row[1] and row[1].pk)
        answer: Any = admin_client.get(url)
        assert answer.status_code == 200
        sent = [re.sub('[`"]', "", sql) for sql in sent_by(lambda url=url: admin_client.get(url))]  # type: ignore[misc]
        # A template for each row would take half of the time of a page.
        counts.append(len(sent) + (len(answer.templates) if name == "jobs" else 0))
    assert counts[1] <= counts[0]
    for sql in sent:
        assert not [each for each in page.never if re.search(each, sql)], sql
    if name == "slices":
        [line] = [sql for sql in sent if "run_at" in sql]
        assert f"LIMIT {MAX_IN_LINE}" in line
    if "cl" in answer.context:
        assert len(answer.context["cl"].result_list) in (40, 50)
