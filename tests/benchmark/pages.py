"""Every page of the admin that shows history, with its filters, and what it costs."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime, timedelta
from typing import Any, NamedTuple
from urllib.parse import urlencode

from django.conf import settings
from django.contrib.auth.models import User
from django.core.management.base import CommandError
from django.db import connection
from django.test import Client, override_settings
from django.urls import reverse

from apps.common.ttl_cache import TTLCache
from apps.dispatch.models import Dispatch, Executor, OnceTask, RotateTask
from apps.jobs.models import Job, JobType, Worker
from apps.journal.models import JournalEntry
from apps.reports.admin.failures import SORTS
from apps.reports.models import ErrorGroup
from apps.reports.rules.outcomes import DISPATCH, JOB
from apps.reports.services.choice import GROUPS, PRESETS, stamp
from apps.reports.services.summary import TIMES
from tests.benchmark.figures import median
from tests.benchmark.past import KINDS

OK = 200


class Page(NamedTuple):
    """What it is called, and its address."""

    name: str
    url: str


class Cost(NamedTuple):
    """How long a page took (milliseconds, the middle one of several times), and its queries."""

    page: Page
    ms: float
    queries: int


@contextmanager
def open_doors() -> Iterator[None]:
    """Serve pages under the name localhost and without collected static files."""
    plain = {"BACKEND": "django.contrib.staticfiles.storage.StaticFilesStorage"}
    with override_settings(
        ALLOWED_HOSTS=["localhost"], STORAGES={**settings.STORAGES, "staticfiles": plain}
    ):
        yield


class Visitor:
    """A person who may see everything, in this process: what is measured is the server's part."""

    def __init__(self) -> None:
        self._client = Client(SERVER_NAME="localhost")
        person, _ = User.objects.get_or_create(
            username="benchmark", is_staff=True, is_superuser=True
        )
        self._client.force_login(person)

    def cost(self, page: Page, *, times: int, without: Sequence[TTLCache[Any]] = ()) -> Cost:
        """Request it once to fill caches, then so often; 0: the first is what counts. What is in
        the caches `without` is forgotten before each request, as if nobody had asked just now."""
        first = self._get(page, without)
        costs = [self._get(page, without) for _ in range(times)] or [first]
        return Cost(page, median([ms for ms, _ in costs]), max(queries for _, queries in costs))

    def _get(self, page: Page, without: Sequence[TTLCache[Any]]) -> tuple[float, int]:
        queries = 0
        for cache in without:
            cache.forget()

        def count(execute: Any, *arguments: Any) -> Any:
            nonlocal queries
            queries += 1
            return execute(*arguments)

        with connection.execute_wrapper(count):
            begun = time.perf_counter()
            answer = self._client.get(page.url, secure=True)
            took = time.perf_counter() - begun
        if answer.status_code != OK:
            raise CommandError(f"{page.name}: {page.url} answered {answer.status_code}.")
        return took * 1000, queries


def every(until: datetime) -> Iterator[Page]:
    """All of them; the journal ends at `until`."""
    yield Page("overview", reverse("admin:index"))
    yield from reports()
    yield from failures()
    yield from jobs()
    yield from journal(until)
    yield from dispatches()


def reports() -> Iterator[Page]:
    """Reports by every group and time, of every period."""
    for source, groups in GROUPS.items():
        for by in (*groups, *TIMES):
            for preset in PRESETS:
                yield report(source, by, preset)
    for source, groups in GROUPS.items():
        yield report(source, groups[0], "90d", sort="-run_p95")
        yield report(source, groups[-1], "90d", zone="Asia/Kathmandu")
    yield report(JOB, "day", "90d", only=f"type:{KINDS[0].name}")
    yield report(JOB, "hour", "7d", only="host:worker-01")
    query = urlencode({"source": DISPATCH, "by": "executor", "period": "90d"})
    yield Page("CSV of dispatches by executor, 90d", f"{reverse('report_csv')}?{query}")


def report(source: str, by: str, preset: str, **more: str) -> Page:
    """One report."""
    query = urlencode({"source": source, "by": by, "period": preset, **more})
    options = "".join(f", {name} {value}" for name, value in more.items())
    return Page(f"report of {source} by {by}, {preset}{options}", f"{reverse('report')}?{query}")


def failures() -> Iterator[Page]:
    """Failures of every period, and a group of them."""
    for preset in PRESETS:
        yield Page(f"failures, {preset}", f"{reverse('failures')}?period={preset}")
    for sort in SORTS:
        query = urlencode({"period": "30d", "type": "webhook", "sort": sort})
        yield Page(f"failures of a type by {sort}, 30d", f"{reverse('failures')}?{query}")
    group = _failed_group()
    query = urlencode({"type": group.type_or_task, "error_key": group.error_key})
    yield Page("retry of a group", f"{reverse('admin:jobs_job_group', args=['retry'])}?{query}")
    yield _rows(Job, "of a group", type=group.type_or_task, error_key=group.error_key)
    yield Page("search for an error", f"{reverse('admin:search')}?term=Error")
    yield Page("search for a user", f"{reverse('admin:search')}?term=uid_10")


def _failed_group() -> ErrorGroup:
    """One that jobs are left of."""
    failed = Job.objects.filter(status=Job.Status.FAILED).exclude(error_key="").order_by("-pk")[:50]
    for job in failed:
        group = ErrorGroup.objects.filter(type_or_task=job.type, error_key=job.error_key).first()
        if group is not None:
            return group
    raise CommandError("No error of the history left a failed job; give it more rows.")


def jobs() -> Iterator[Page]:
    """The list with the usual filters, single jobs, and the lists beside it."""
    yield _rows(Job, "")
    for status in Job.Status.values:
        yield _rows(Job, status, status=status)
        yield _rows(Job, f"{status} of a type", status=status, type=KINDS[2].name)
    job = Job.objects.filter(status=Job.Status.FAILED).order_by("-pk")[0]
    yield _rows(Job, "of a type", type=KINDS[0].name)
    yield _rows(Job, "of a rare type", type=KINDS[-1].name)
    yield _rows(Job, "of a user", user=job.user_id)
    yield _rows(Job, "of a key", key=job.key)
    yield _rows(Job, "of a host", host=job.host)
    yield _rows(Job, "of a worker", worker=job.worker)
    yield _rows(Job, "of a lane", lane="slow")
    yield _rows(Job, "of a day", from_day=_day(job.created_at), to_day=_day(job.created_at))
    yield _rows(Job, "with a text", q="locked door")
    yield _rows(Job, "with a payload", where="context.order.city:北京")
    yield _rows(Job, "with a payload that none has", where="context.items[4].sku:none")
    yield _rows(
        Job, "of a type with a payload", type=KINDS[0].name, where="context.order.number:-1"
    )
    yield _rows(Job, "with a number", q=str(job.pk))
    # The past that is played limits no keys, so none of its jobs is blocked.
    for status in [each for each in Job.Status.values if each != Job.Status.BLOCKED]:
        yield _row(f"job that is {status}", Job.objects.filter(status=status).order_by("-pk")[0])
    yield _rows(JobType, "")
    yield _row("job type", JobType.objects.get(name=KINDS[0].name))
    yield _rows(Worker, "")
    yield _row("worker", Worker.objects.order_by("pk")[0])


def journal(until: datetime) -> Iterator[Page]:
    """The list, and what figures of reports lead to."""
    end = {"until": stamp(until)}
    since = {
        name: {"since": stamp(until - length), **end}
        for name, length in (("1h", timedelta(hours=1)), ("90d", timedelta(days=90)))
    }
    entry = JournalEntry.objects.exclude(worker="").order_by("-pk")[0]
    yield _rows(JournalEntry, "")
    yield _rows(JournalEntry, "of a subject", q=str(entry.subject_id))
    yield _rows(JournalEntry, "of an executor", q="uid_1007")
    yield _rows(JournalEntry, "of nobody", executor="uid_nobody")
    yield _rows(JournalEntry, "of a rare event", event="purged")
    for name, bounds in since.items():
        yield _rows(JournalEntry, f"of jobs, {name}", source=JOB, **bounds)
        yield _rows(
            *(JournalEntry, f"of failures of a type, {name}"),
            **{"source": JOB, "type_or_task": KINDS[0].name, "counted": "failed", **bounds},
        )
        yield _rows(JournalEntry, f"of a host, {name}", source=JOB, host=entry.host, **bounds)
        yield _rows(JournalEntry, f"of a worker, {name}", worker=entry.worker, **bounds)
        yield _rows(JournalEntry, f"of slow runs, {name}", run_from="600000", **bounds)
    yield _row("journal entry", entry)


def dispatches() -> Iterator[Page]:
    """Tasks, executors and what was handed out."""
    for model in (OnceTask, RotateTask):
        name = str(model._meta.verbose_name)
        task = model.objects.order_by("-pk")[0]
        yield _rows(model, "")
        yield _rows(model, "of an executor", executor=task.executor.name)
        yield _rows(model, "with a text", q="shelf")
        yield _rows(model, "with a payload that none has", where="params.order.city:none")
        yield _row(name, task)
        yield _rows(Dispatch, f"of a {name}", source=model.source, task=str(task.pk))
    last = Dispatch.objects.order_by("-pk")[0]
    yield _rows(Dispatch, "")
    for state in Dispatch.State.values:
        yield _rows(Dispatch, state, state=state)
    yield _rows(Dispatch, "of an executor", executor=last.executor.name)
    yield _rows(Dispatch, "with a payload that none has", where="params.order.city:none")
    yield _row("dispatch", last)
    yield _rows(Executor, "")
    yield _row("user", last.executor)
    yield _row("group", Executor.objects.groups()[0])


def plans() -> Iterator[Page]:
    """What bulk runs would change, by an index, by a comparison of rows, and of all."""
    yield _plan("to cancel all jobs of a type", "cancel", {"type": KINDS[0].name})
    yield _plan("to retry all that failed", "retry", {"status": "failed"})
    waiting = {"status": "ready", "set-priority": "9"}
    yield _plan("to raise the priority of all that wait", "priority", waiting)
    yield _plan("over rare payloads", "cancel", {"where": "context.items[4].sku:none"})
    yield _plan("over every job", "cancel", {})


def _plan(name: str, verb: str, query: Mapping[str, str]) -> Page:
    url = reverse("bulk_new", kwargs={"kind": "jobs", "verb": verb})
    return Page(f"plan {name}", f"{url}?{urlencode(query)}")


def _rows(model: Any, filtered: str, **query: str) -> Page:
    url = reverse(f"admin:{model._meta.app_label}_{model._meta.model_name}_changelist")
    name = f"list of {model._meta.verbose_name_plural}"
    return Page(f"{name} {filtered}".strip(), f"{url}?{urlencode(query)}")


def _row(name: str, row: Any) -> Page:
    url = f"admin:{row._meta.app_label}_{row._meta.model_name}_change"
    return Page(name, reverse(url, args=[row.pk]))


def _day(at: datetime) -> str:
    return at.date().isoformat()
