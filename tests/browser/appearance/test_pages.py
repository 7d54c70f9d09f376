"""Every main page fits narrow and wide screens and shuts nobody out, in both themes and languages.

A run walks each page once: a quarter of them in each look, and half of them for barriers. Its seed
draws in which look, with which data and which half; `make test-long` walks all in all looks.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import pytest
from django.contrib.auth.models import AnonymousUser, Group, User
from django.urls import reverse
from playwright.sync_api import Page

from apps.access.models import ApiClient
from apps.bulk.models import BulkRun
from apps.bulk.services import runs
from apps.bulk.services.selection import stored
from apps.bulk.services.targets import target_of
from apps.dispatch.models import Executor, OnceTask, OperatorScope, RotateTask, Template
from apps.flows.services.flows import put_flow
from apps.jobs.handlers import registry
from apps.jobs.models import Job, JobLog, JobScope, JobType, Worker, bounds_of
from apps.jobs.rules.job_log import LogLines
from apps.jobs.services import job_log, register
from apps.jobs.services.job_log import AttemptLines
from apps.journal.models import JournalEntry
from apps.reports.services import rollup
from taskplatform import beat
from tests.browser.layout import english_texts
from tests.browser.looks import Theme, faults
from tests.flows import task, wait
from tests.frozen import FrozenClock
from tests.integration.bulk.conftest import carry_out
from tests.job_scenes import Yard, fill_yard
from tests.jobs import Holder, job_type, jobs, share
from tests.pools import OPERATOR, OURS, assign, pool
from tests.scenes import Morning, play_morning

# In which language and theme.
Look = tuple[str, Theme]
LOOKS: list[Look] = [("en", "light"), ("zh-hans", "dark"), ("en", "dark"), ("zh-hans", "light")]
DATA = ("full", "full", "empty")
LISTS = (
    "dispatch_oncetask",
    "dispatch_rotatetask",
    "dispatch_dispatch",
    "dispatch_executor",
    "dispatch_template",
    "flows_flow",
    "jobs_job",
    "jobs_jobtype",
    "jobs_worker",
    "flows_flowrun",
    "journal_journalentry",
    "access_apiclient",
    "auth_user",
    "axes_accessattempt",
)
ADDED = (
    "dispatch_oncetask",
    "dispatch_rotatetask",
    "dispatch_executor",
    "dispatch_template",
    "flows_flow",
    "jobs_jobtype",
    "access_apiclient",
    "auth_user",
)
IMPORTED = ("dispatch_oncetask", "dispatch_rotatetask", "dispatch_executor")
# What is the same in every language, beside what people and programs have written.
SAME = (
    "English",
    "admin:ann",
    "en",
    "UTC",
    "zh-hans",
    "Ctrl K",
    "JSON",
    # Of results.
    "counted",
    "unit box",
    "checked",
    "wrong",
    "Shop",
    "KB",
    "MB",
    "GB",
    "Asyncflow",
    "admin",
    "demo",
    # Examples in the form of a flow.
    "gid_… / uid_…",
    "$list.photos",
    "shop = $params.shop",
    "list, check",
    "list.public = true",
)


def lists() -> dict[str, str]:
    """Pages that are there without any data: home, lists and forms for new rows."""
    pages = {
        "home": reverse("admin:index"),
        "search": reverse("admin:search"),
        "audit": reverse("audit"),
        "capacity": reverse("capacity"),
        "activity": reverse("activity"),
        "governance": reverse("governance"),
        "failures": reverse("failures"),
        "problems": reverse("problems"),
        "report": reverse("report"),
        "asyncflow": reverse("asyncflow"),
        "report-of-dispatches": reverse("report") + "?source=dispatch&period=7d",
        "handlers": reverse("admin:jobs_jobtype_handlers"),
        "pools": reverse("admin:jobs_jobtype_pools"),
        "slices": reverse("admin:jobs_worker_slices"),
    }
    for name in LISTS:
        pages[name.partition("_")[2]] = reverse(f"admin:{name}_changelist")
    for name in ADDED:
        pages[f"new-{name.partition('_')[2]}"] = reverse(f"admin:{name}_add")
    for name in IMPORTED:
        pages[f"import-{name.partition('_')[2]}"] = reverse(f"admin:{name}_import")
    return pages


def pages_of(morning: Morning) -> dict[str, str]:
    def page(name: str, pk: int) -> str:
        return reverse(f"admin:{name}_change", args=[pk])

    def act(name: str, source: str, pk: int) -> str:
        return reverse(f"admin:dispatch_{source}task_act", args=[name]) + f"?ids={pk}"

    return lists() | {
        "one-oncetask": page("dispatch_oncetask", morning.task.pk),
        "one-rotatetask": page("dispatch_rotatetask", morning.rotation.pk),
        "one-dispatch": page("dispatch_dispatch", morning.cancelled.pk),
        "one-open-dispatch": page("dispatch_dispatch", morning.opened.pk),
        "one-group": page("dispatch_executor", morning.group.pk),
        "one-user": page("dispatch_executor", morning.opened.executor_id) + "?ahead=3",
        "why-not": reverse("admin:dispatch_executor_explain")
        + f"?executor={morning.opened.executor.name}&task=rotate:{morning.rotation.pk}",
        "one-template": page("dispatch_template", morning.template.pk),
        **pages_of_flows(morning.group.name),
        "one-journalentry": page("journal_journalentry", morning.entry.pk),
        "one-apiclient": page("access_apiclient", morning.client),
        "cancel": reverse("admin:dispatch_dispatch_act", args=["cancel"])
        + f"?ids={morning.opened.pk}",
        "shift": act("shift", "rotate", morning.rotation.pk),
        "copy": act("copy", "once", morning.task.pk),
        "other-period": reverse("admin:dispatch_oncetask_changelist") + "?to_day=2026-03-31",
        "rotate": reverse("admin:access_apiclient_rotate", args=[morning.client]),
        "one-account": page("auth_user", limited_account().pk),
        "one-role": page("auth_group", Group.objects.get(name="viewer").pk),
        "filtered": reverse("admin:dispatch_dispatch_changelist") + "?state=open&executor=uid_ann",
        "people-added": reverse("admin:journal_journalentry_changelist")
        + "?event=executor_created",
        "nothing-found": reverse("admin:dispatch_oncetask_changelist") + "?q=nothing",
        "search-uids": reverse("admin:search") + "?term=uid_",
        "search-nothing": reverse("admin:search") + "?term=404+404",
    }


def pages_of_flows(group: str) -> dict[str, str]:
    steps = [task("photos", group, quota=2), wait("photos-2", needs=["photos"], seconds=60)]
    flow = put_flow(name="round", definition={"steps": steps}, actor="admin:ann")
    address = reverse("admin:flows_flow_page", args=[flow.pk])
    return {
        "one-flow": address,
        "flow-versions": f"{address}?tab=versions",
        "edit-flow": reverse("admin:flows_flow_change", args=[flow.pk]),
        "flow-as-json": reverse("admin:flows_flow_change", args=[flow.pk]) + "?tab=json",
        "start-flow": reverse("admin:flows_flow_start", args=[flow.pk]),
    }


def limited_account() -> User:
    account = User.objects.create_user("operator", is_staff=True)
    account.groups.add(Group.objects.get(name="operator"))
    OperatorScope.objects.create(operator=account, executor=Executor.objects.get(name="uid_ann"))
    JobScope.objects.create(operator=account, type="mail")
    return account


def pages_of_jobs(yard: Yard) -> dict[str, str]:
    def page(name: str, pk: int) -> str:
        return reverse(f"admin:jobs_{name}_change", args=[pk])

    def act(name: str, pk: int) -> str:
        return reverse("admin:jobs_job_act", args=[name]) + f"?ids={pk}"

    jobs = reverse("admin:jobs_job_changelist")
    for line in ("WARNING shop: mailbox is slow", f"ERROR shop: {'far-too-long-' * 30}"):
        job_log.write([AttemptLines(yard.running.pk, 1, 1, LogLines([line], None, 3))])
    return {
        f"one-{status}-job": page("job", getattr(yard, status).pk)
        for status in ("scheduled", "ready", "running", "failed", "succeeded", "cancelled")
    } | {
        "new-job": reverse("admin:jobs_job_add") + "?type=mail",
        "job-log": reverse("admin:jobs_job_log", args=[yard.running.pk]),
        "edit-job": reverse("admin:jobs_job_edit", args=[yard.scheduled.pk]),
        "force-cancel": act("force_cancel", yard.running.pk),
        "retry-on-host": act("retry_on_host", yard.failed.pk),
        "failed-jobs": f"{jobs}?status=failed",
        "found-jobs": f"{jobs}?q=mailbox",
        "search-errors": reverse("admin:search") + "?term=mailbox",
        "type-now": reverse("job_type_now", args=[yard.type.pk]),
        "one-jobtype": page("jobtype", yard.type.pk),
        "pause": reverse("admin:jobs_jobtype_act", args=["pause"]) + f"?ids={yard.type.pk}",
        "one-worker": page("worker", yard.worker.pk),
        "fix": reverse("governance_fix", args=["G6"]) + "?subject=jobs_job",
        "new-bulk-run": reverse("bulk_new", args=["jobs", "priority"])
        + "?type=webhook&set-priority=40",
        "one-bulk-run": reverse("admin:bulk_bulkrun_change", args=[bulk_run().pk]),
    }


def bulk_run() -> BulkRun:
    """One that is over, of jobs with a long key."""
    jobs(3, "webhook", key="order-with-a-rather-long-key-of-some-shop-in-the-north")
    run = runs.start(
        selection=stored(target_of("jobs"), {"type": "webhook"}),
        verb="priority",
        params={"priority": 7},
        at_most=None,
        actor="admin:admin",
        reason="The campaign begins",
        bounds=bounds_of(AnonymousUser()),
    )
    carry_out(run)
    return run


def pages_of_outside() -> dict[str, str]:
    """Those of a quiet worker over HTTP, with shards of a type and keys of a pool."""
    shops = pool({f"shop-{number}": number for number in range(40)}, handler="")
    job_type("video", handler="", title="Films to cut")
    jobs(3, "video")
    worker = register.register(
        name="pi-7", host="pi", client=OURS.client, kind=Worker.Kind.HTTP, types=["video"]
    )
    share(Holder(worker.name, worker.host, worker.client), types=["video"])
    assign(worker.name, limit=7)
    register.quiet(worker=worker, actor=OPERATOR, reason="New disk on Tuesday")
    return {
        "one-outside-worker": reverse("admin:jobs_worker_change", args=[worker.pk]),
        "one-pool": reverse("admin:jobs_jobtype_change", args=[shops.pk]),
        "rebuild": reverse("admin:jobs_jobtype_rebuild", args=[shops.pk]),
    }


def written() -> set[str]:
    """Every text that stands in the rows, and the ids that go with it."""
    rows: list[Any] = []
    own = (Executor, OnceTask, RotateTask, Template, JournalEntry, ApiClient, User)
    for model in (*own, Job, JobLog, JobType, Worker):
        rows += model.objects.values()  # type: ignore[attr-defined]
    return {text for row in rows for value in row.values() for text in _texts(value)}


def told_by_programs() -> set[str]:
    """The names of handlers, and what those who wrote others than ours say of them."""
    handlers = registry.known.handlers
    others = [each for each in handlers.values() if not each.location.startswith("apps.")]
    return {each.about for each in others} | set(handlers)


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str) and len(value) > 1:
        # Pages show a person without the kind, also in brackets.
        name = value.removeprefix("admin:")
        yield from (value, name, f"({name})")
    elif isinstance(value, dict):
        for name, inner in value.items():
            yield name
            yield from _texts(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _texts(inner)


def menu(page: Page) -> dict[str, str]:
    """The pages of the menu that have no name above."""
    page.goto(reverse("admin:index"))
    links = [link.get_attribute("href") or "" for link in page.locator(".pages a").all()]
    assert len(links) > 35
    return {address: address for address in {*filter(None, links), reverse("preferences")}}


@pytest.mark.parametrize("part", range(len(LOOKS)))
def test_pages_fit_speak_one_language_and_shut_nobody_out(
    walk: Callable[..., list[str]], part: int, pytestconfig: pytest.Config
) -> None:
    # The same for all parts, wherever they run.
    seed = random.Random(pytestconfig.getoption("randomly_seed", None))
    turn, data = seed.randrange(len(LOOKS)), seed.choice(DATA)
    look, some = LOOKS[(turn + part) % len(LOOKS)], slice(part, None, len(LOOKS))
    assert walk(data, look, some, heard=slice(seed.randrange(2), None, 2)) == []


@pytest.mark.long
@pytest.mark.parametrize("data", sorted(set(DATA)))
@pytest.mark.parametrize("look", LOOKS, ids="-".join)
def test_pages_do_so_in_each_look(walk: Callable[..., list[str]], data: str, look: Look) -> None:
    assert walk(data, look, slice(None), heard=slice(None)) == []


@pytest.fixture
def walk(browser_page: Page, frozen_clock: FrozenClock) -> Callable[..., list[str]]:
    """`walk(data, look, some, heard=…)` opens some of the pages so, looks for barriers on those of
    them that are heard, and says what is wrong."""
    return partial(look_at, browser_page, frozen_clock)


def look_at(
    page: Page, frozen_clock: FrozenClock, data: str, look: Look, some: slice, *, heard: slice
) -> list[str]:
    language, theme = look
    pages = lists()
    if data == "full":
        pages = pages_of(play_morning(frozen_clock)) | pages_of_jobs(fill_yard(frozen_clock))
        pages |= pages_of_outside()
        frozen_clock.advance(minutes=2)
        rollup.roll_up(until=frozen_clock() + rollup.MAX_TIME)
    known_addresses = set(pages.values())
    pages |= {
        name: address for name, address in menu(page).items() if address not in known_addresses
    }
    # Sweeps are named as logs and metrics name them.
    known = written() | {*SAME, *beat.periods()} | told_by_programs()
    page.set_extra_http_headers({"Accept-Language": language})
    # The theme is chosen while a page loads.
    page.emulate_media(color_scheme=theme, reduced_motion="reduce")
    wrong: list[str] = []

    names = sorted(pages)[some]
    for name in names:
        page.goto(pages[name])
        root = page.locator("html")
        assert root.get_attribute("lang") == language
        assert ("dark" in (root.get_attribute("class") or "").split()) == (theme == "dark")
        if language == "zh-hans":
            wrong += [f"{name} says {text!r}" for text in english_texts(page, known)]
        wrong += [
            f"{name}: {fault}" for fault in faults(page, theme, with_barriers=name in names[heard])
        ]
    return wrong
