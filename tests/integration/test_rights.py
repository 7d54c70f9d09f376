"""Who may what in the admin: every address for every role, with limits and without. I60."""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple
from urllib.parse import urljoin

import pytest
from axes.models import AccessAttempt, AccessLog
from django.contrib import admin
from django.contrib.auth.models import Group, User
from django.http import HttpRequest
from django.test import Client

from apps.access import services as access
from apps.access.models import ApiClient
from apps.bulk.models import BulkRun
from apps.common import clock
from apps.common.admin.actions import specs
from apps.dispatch.models import ArchivedTask, Dispatch, OperatorScope
from apps.flows.models import FlowRun
from apps.flows.services.flows import put_flow
from apps.flows.services.start import start
from apps.jobs.models import InboxRow, JobScope, JobType
from apps.journal.models import JournalEntry, Sink, SinkReject
from tests import callback, factories
from tests import flows as steps_of
from tests.addresses import every_address
from tests.alerts import delivery_about, report_plan
from tests.history import archived
from tests.integration.api.world import checksum
from tests.integration.dispatch.housekeeping import archived as archived_dispatches
from tests.pages import nothing_drawn
from tests.rights import (
    CONFIGURER,
    FRAME,
    MODELS,
    PAGES,
    ROLES,
    SUPERUSER,
)

pytestmark = pytest.mark.django_db

# What the page of governance finds, and offers to mend.
FINDING = "G1"
# Django's own action stands behind the button of its page.
_DJANGOS = "delete_selected"
HIDDEN = (
    "Hidden report",
    "the old shelf",
    "uid_alice",
    "gid_sales",
    "hidden.type",
    "hidden.flow",
    "hidden-0",
    "hidden-1",
    "hidden-2",
    "Hidden shelf",
    "Hidden till",
)


# --- the table ------------------------------------------------------------------------------------
class Address(NamedTuple):
    """An address of the admin: a URL of it, from which role on it opens, and whether it acts."""

    name: str
    url: str
    role: str
    acts: bool = False

    def __str__(self) -> str:
        return self.name


def addresses() -> Iterator[str]:
    """Below admin/, without those of FRAME."""
    for address, _view in every_address():
        name = address.removeprefix("admin/")
        if name != address and name not in FRAME and not name.startswith("^"):
            yield name


def label_of(name: str) -> str:
    return "/".join(name.split("/")[:2]) + "/"


def expected(name: str) -> str:
    """The role from which on the address opens. KeyError: a new address needs its row."""
    if name in PAGES:
        return PAGES[name]
    label = label_of(name)
    rights, rest = MODELS[label], name.removeprefix(label)
    own = {"": rights.see, "add/": rights.add, "<path:object_id>/delete/": rights.delete}
    own["views/"] = rights.see
    own |= {f"<path:object_id>/{page}": rights.see for page in ("", "change/", "history/")}
    return own[rest] if rest in own else rights.others[rest]


def filled(objects: Mapping[str, int]) -> Iterator[Address]:
    """Each address with the rows of `objects`; each action is one of its own."""
    request = HttpRequest()
    request.user = User(is_superuser=True, is_active=True)
    # Those of the list, and those of the page of a row.
    actions = {
        f"{model._meta.app_label}/{model._meta.model_name}/": {
            *page.get_actions(request),
            *specs(page),
        }
        for model, page in admin.site._registry.items()
    }
    for name in addresses():
        label = label_of(name)
        of = next((each for each in objects if name.startswith(f"{each}<int:pk>")), label)
        pk = objects[f"{label}why/" if name.endswith("/why/") else of] if label in MODELS else 0
        if name == f"{label}act/<slug:name>/":
            for action in sorted(actions[label] - {_DJANGOS}):
                url = f"/admin/{label}act/{action}/?ids={pk}"
                yield Address(label + action, url, MODELS[label].others[action], acts=True)
        elif "<slug:verb>" in name:
            yield Address(name, "/admin/bulk/new/jobs/cancel/", expected(name), acts=True)
        elif "<slug:name>" in name:
            query = f"?type=hidden.type&error_key={'e' * 32}"
            yield Address(name, f"/admin/{label}group/retry/{query}", expected(name), acts=True)
        else:
            path = re.sub(r"<[a-z:_]+>", str(pk or FINDING), name)
            yield Address(name, f"/admin/{path}", expected(name))


# --- the rows -------------------------------------------------------------------------------------
@pytest.fixture
def objects(admin_user: User) -> dict[str, int]:
    return one_of_each(admin_user)


def one_of_each(admin_user: User) -> dict[str, int]:
    """The id of a row of each model."""
    sales = factories.group("gid_sales", ["uid_alice"])
    alice = factories.member("uid_alice")
    access.create_client(name="Shop", scopes=["read"], actor="ann")
    attempt = {"user_agent": "x", "ip_address": "127.0.0.1", "username": "x", "path_info": "/"}
    facts = {"status": "failed", "error_key": "e" * 32}
    [old] = archived(type="hidden.type", key="hidden-0", user_id="uid_alice", **facts)
    job = factories.job("hidden.type", key="hidden-1", user_id="uid_alice", into=facts)
    task = factories.once_task(alice, "Hidden shelf")
    taken = callback.take_next(alice)
    assert isinstance(taken, Dispatch)
    factories.archived_task("once", alice)
    [old_dispatch] = archived_dispatches(executor_id=alice.pk, title="Hidden shelf")
    steps = [steps_of.job("look", type="hidden.type"), steps_of.task("check", "gid_sales")]
    flow = put_flow(name="hidden.flow", definition={"steps": steps}, actor="admin:ann")
    run = FlowRun.objects.get(pk=start("hidden.flow", key="hidden-2").id)
    delivery = delivery_about("job_type:hidden.type")
    assert delivery.alert is not None
    rows: dict[str, Any] = {
        "alerts/alert/": delivery.alert,
        "alerts/alertrule/": delivery.alert.rule,
        "alerts/channel/": delivery.channel,
        "alerts/delivery/": delivery,
        "alerts/reportplan/": report_plan(admin_user, "Hidden report"),
        "access/apiclient/": ApiClient.objects.get(),
        "auth/user/": admin_user,
        "auth/group/": Group.objects.order_by("pk")[0],
        "axes/accessattempt/": AccessAttempt.objects.create(**attempt, failures_since_start=1),
        "axes/accesslog/": AccessLog.objects.create(**attempt),
        "bulk/bulkrun/": BulkRun.objects.create(
            kind="jobs",
            verb="cancel",
            filter={"type": ["hidden.type"]},
            rate=200,
            reason="Hidden report",
            actor="admin:ann",
            created_at=clock.now(),
        ),
        "dispatch/dispatch/": taken,
        "dispatch/archivedtask/": ArchivedTask.objects.get(),
        "dispatch/executor/": sales,
        "dispatch/executor/why/": alice,
        "dispatch/oncetask/": task,
        "dispatch/rotatetask/": factories.rotation(alice, "Hidden till"),
        "dispatch/template/": factories.template(),
        "flows/flow/": flow,
        "flows/flowrun/": run,
        "jobs/inboxrow/": InboxRow.objects.create(
            type="hidden.type", refused_at=clock.now(), error="Hidden report"
        ),
        "jobs/job/": job,
        "jobs/jobtype/": JobType.objects.get(name="hidden.type"),
        "jobs/worker/": factories.worker(types=["hidden.type"]),
        "journal/journalentry/": JournalEntry.objects.filter(subject_id=taken.pk)[0],
        "schedules/schedule/": factories.schedule("hidden.type", "Hidden report"),
        "journal/sink/": Sink.objects.create(
            name="lake", created_at=clock.now(), after=0, checked=0
        ),
        "journal/sinkreject/": SinkReject.objects.create(
            sink="lake",
            entry_id=1,
            at=clock.now(),
            error="mapping",
            body='{"executor":"uid_alice"}',
        ),
    }
    numbers = {"jobs/archivedjob/": old, "dispatch/archiveddispatch/": old_dispatch}
    return {label: row.pk for label, row in rows.items()} | numbers


@pytest.fixture
def people(role_client: Callable[[str], Client], admin_client: Client) -> dict[str, Client]:
    """One signed in with each role."""
    return {role: role_client(role) for role in ROLES[:-1]} | {SUPERUSER: admin_client}


@pytest.fixture
def zoe(role_user: Callable[[str], User], role_client: Callable[[str], Client]) -> Client:
    """A configurer who is limited to other executors and types than those of `objects`."""
    other = factories.group("gid_other", ["uid_bob"])
    factories.job_type("sms")
    person = role_user(CONFIGURER)
    OperatorScope.objects.create(operator=person, executor=other)
    JobScope.objects.create(operator=person, type="sms")
    return role_client(CONFIGURER)


@pytest.fixture
def undrawn() -> Iterator[None]:
    with nothing_drawn():
        yield


# --- with a role ----------------------------------------------------------------------------------
@pytest.mark.parametrize("is_each_asked", [False, pytest.param(True, marks=pytest.mark.long)])
def test_each_address_opens_from_one_role_on(
    objects: dict[str, int], people: dict[str, Client], undrawn: None, is_each_asked: bool
) -> None:
    """Asked are all roles, or the last that may not, the first that may, and one drawn."""
    wrong = []
    for address in filled(objects):
        first = ROLES.index(address.role) if address.role in ROLES else len(ROLES)
        drawn = random.randrange(len(ROLES))
        for number, role in enumerate(ROLES):
            if not is_each_asked and number not in (first - 1, first, drawn):
                continue
            opened = people[role].get(address.url).status_code not in (403, 404)
            # Without a page: the way of a bookmark to the page itself, which refuses.
            if opened != (number >= first) and not address.name.endswith("/<path:object_id>/"):
                wrong.append(f"{address} {'opens' if opened else 'is closed'} for the {role}")
    assert not wrong


def test_nothing_opens_for_who_has_not_signed_in(objects: dict[str, int], client: Client) -> None:
    for address in filled(objects):
        answer = client.get(address.url)
        assert answer.status_code == 302, address
        assert "/login/" in answer["Location"], address


def test_nobody_acts_without_the_right_to(
    objects: dict[str, int], people: dict[str, Client], undrawn: None
) -> None:
    before = checksum(but=[JournalEntry])
    for address in filled(objects):
        if address.acts:
            for role in ROLES[: ROLES.index(address.role)]:
                answer = people[role].post(
                    address.url, {"ids": address.url.partition("ids=")[2], "reason": "Mine"}
                )
                assert answer.status_code == 403, (address, role)
    assert checksum(but=[JournalEntry]) == before


# --- with limits ----------------------------------------------------------------------------------
def test_no_page_shows_what_is_outside_of_the_limits(objects: dict[str, int], zoe: Client) -> None:
    leaks, seen = [], set()
    asked = [(str(address), address.url) for address in filled(objects)]
    for name, url in asked:
        if url not in seen:
            seen.add(url)
            answer = zoe.get(url)
            if answer.status_code == 302:
                # Where many of them lead, once.
                asked.append((name, urljoin(url, answer["Location"])))
            text = answer.content.decode()
            leaks += [f"{name} shows {word}" for word in HIDDEN if word in text]
    assert "/admin/" in seen
    assert not leaks


def test_nothing_outside_of_the_limits_is_changed(
    objects: dict[str, int], zoe: Client, undrawn: None
) -> None:
    """By no action, and by no form of a page."""
    before = checksum(but=[JournalEntry])
    for address in filled(objects):
        ids = address.url.partition("ids=")[2]
        if address.acts or address.name.endswith(("change/", "edit/", "delete/", "rebuild/")):
            zoe.post(address.url, {"ids": ids, "reason": "Mine", "confirmed": "yes", "post": "yes"})
    assert checksum(but=[JournalEntry]) == before
