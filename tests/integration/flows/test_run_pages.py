"""The list of runs, the page of one with its tabs, and what operators do there."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import timedelta
from functools import partial
from typing import Any

import pytest
from django.contrib.auth.models import Permission, User
from django.test import Client
from django.urls import reverse
from django.utils.timezone import localtime

from apps.common import clock
from apps.dispatch.models import Dispatch, OnceTask
from apps.dispatch.services import executors, tasks
from apps.flows.models import Flow, FlowRun
from apps.flows.services import control, lately
from apps.flows.services.advance import advance
from apps.jobs.models import Job, JobScope, JobType
from apps.jobs.services import control as of_jobs
from apps.journal.models import JournalEntry
from tests import factories
from tests import flow_scenes as scenes
from tests.flows import (
    OLGA,
    failing,
    job,
    jobs,
    run_of,
    started,
    states,
    step_of,
    task,
    wait,
    work,
)
from tests.frozen import FrozenClock
from tests.jobs import job_type
from tests.pages import change_url, english_in, page_of, rows_of, tables_of, text_of
from tests.statements import sent_by

pytestmark = [pytest.mark.django_db]

LIST = "admin:flows_flowrun_changelist"
OF_ALL_GOING = {"stop", "skip", "finish", "stop_by_force"}


@pytest.fixture
def rounds(frozen_clock: FrozenClock) -> scenes.Rounds:
    return scenes.play_rounds()


def act(client: Client, name: str, run: FlowRun, **fields: str) -> Any:
    url = reverse("admin:flows_flowrun_act", args=[name])
    return client.post(url, {"ids": run.pk, "reason": "as agreed", **fields}, follow=True)


def live(client: Client, run: FlowRun) -> Any:
    return client.get(reverse("admin:flows_flowrun_live", args=[run.pk]))


def pages_of(run: FlowRun) -> list[str]:
    """The pages of the run and their parts that are fetched by themselves."""
    names = ("change", "live", "results", "history")
    return [reverse(f"admin:flows_flowrun_{name}", args=[run.pk]) for name in names]


def cells_by_name(page: Any) -> dict[str, list[str]]:
    """The cells of each row of the first table, by the name in it."""
    return {row[1].text: [cell.text for cell in row] for row in tables_of(page)[0][1:]}


def actions_on(page: Any) -> set[str]:
    return set(re.findall(r"/flowrun/act/(\w+)/", page.content.decode()))


# --- the page -------------------------------------------------------------------------------------
@pytest.mark.both
def test_page_says_what_a_run_waits_for(admin_client: Client, rounds: scenes.Rounds) -> None:
    page = page_of(admin_client, rounds.running)
    text = text_of(page)

    assert "Waits for 4 people for Aisle 7 , 1 failed job of recognise" in text
    assert "2 jobs of recognise , somebody to finish goods-in ; 11 of 22 parts" in text
    assert "Weekly price round v1 · shop Nanjing Road · photos 12 · started" in text
    lines = cells_by_name(page)
    assert lines["recognise"][2:5] == [
        "1 failed",
        "price-recognise",
        "1 failed, 9 of 12 done, 1 open",
    ]
    assert lines["review"][2:5] == ["Waiting", "gid_round", "waits for steps 1, 2"]
    assert "HTTP 503 from prices.example.com &lt;script&gt;" in page.content.decode()
    assert "&lt;b&gt;Bold&lt;/b&gt;" in page.content.decode()
    assert {"retry", "pause", "stop", "skip", "finish", "stop_by_force"} == actions_on(page)


@pytest.mark.parametrize(
    ("name", "said", "offered"),
    [
        ("paused", "Paused Waits for", OF_ALL_GOING | {"resume"}),
        ("stopping", "It is being stopped and waits for", {"stop_by_force"}),
        ("failed", "1 failed job of look ; 0 of 2 parts are done after", {"retry", "skip"}),
        ("succeeded", "All is done after 0 s : 2 of 2 parts.", set()),
        ("own", "Definition of its own · started", OF_ALL_GOING | {"pause"}),
    ],
)
def test_states_of_runs(
    admin_client: Client, rounds: scenes.Rounds, name: str, said: str, offered: set[str]
) -> None:
    run = getattr(rounds, name)
    page = page_of(admin_client, run)
    assert said in text_of(page)
    assert actions_on(page) == offered
    # Of a failed one a job may be retried elsewhere.
    renews = run.is_open or run.status == "failed"
    assert ("data-final" in live(admin_client, run).content.decode()) is not renews


def test_failure_of_what_may_fail_holds_nothing_up(
    admin_client: Client, frozen_clock: FrozenClock
) -> None:
    job_type(max_attempts=1)
    run = started(job("glance", optional=True), wait("gate", needs=["glance"]))
    work(run, "glance", failing)
    page = page_of(admin_client, run_of(run))
    assert "Waits for somebody to finish gate ; 0 of 2 parts" in text_of(page)
    assert "step=gate" in page.content.decode()
    assert "step=glance" not in page.content.decode()
    assert text_of(page).startswith(f"Definition of its own · {run} | ")

    log = text_of(admin_client.get(reverse("admin:flows_flowrun_history", args=[run])))
    assert "Step failed" in log
    assert "Step ended" not in log

    control.finish(run=run_of(run), step="gate", **OLGA)
    assert "Done after 0 s ; 1 of 2 parts succeeded." in text_of(page_of(admin_client, run_of(run)))


@pytest.mark.both
def test_step_that_is_tried_again_began_when_it_began_first(
    admin_client: Client, frozen_clock: FrozenClock
) -> None:
    job_type(max_attempts=1)
    factories.group("gid_qa", ["uid_ann"])
    asked = task("photos", executor="gid_qa", within=600)
    run = started(job("look"), asked)
    first = clock.now()
    frozen_clock.advance(minutes=5)
    work(run, "look", failing)
    frozen_clock.advance(minutes=20)
    advance(run)
    assert states(run) == {"look": "failed", "photos": "failed"}
    frozen_clock.advance(hours=2)
    again = clock.now()
    control.retry(run=run_of(run), **OLGA)
    frozen_clock.advance(minutes=3)

    page = page_of(admin_client, run_of(run))

    lines = cells_by_name(page)
    since = f"{localtime(again):%H:%M}"
    for name in ("look", "photos"):
        assert lines[name][5:7] == [f"{localtime(first):%H:%M}", f"3 min try since {since}"]
    work(run, "look")
    lines = cells_by_name(page_of(admin_client, run_of(run)))
    assert lines["look"][5:7] == [f"{localtime(first):%H:%M}", f"3 min try since {since}"]


def test_page_of_a_hundred_steps(admin_client: Client, frozen_clock: FrozenClock) -> None:
    page = page_of(admin_client, scenes.hundred_steps())
    assert len(tables_of(page)[0]) == 101
    assert page.content.decode().count('class="graph-box') == 100
    assert "7 more steps" in text_of(page)


def test_pages_are_in_chinese(admin_client: Client, rounds: scenes.Rounds) -> None:
    admin_client.cookies["django_language"] = "zh-hans"
    # The title is the planner's.
    own = {"Weekly price round", "Weekly price round v"}
    for page in (*(page_of(admin_client, run) for run in rounds), admin_client.get(reverse(LIST))):
        assert {*english_in(page)} <= own


def test_statements_do_not_grow_with_jobs_and_people(
    admin_client: Client, frozen_clock: FrozenClock
) -> None:
    job_type("mail", max_attempts=1)
    scenes.prepare()
    counts = []
    for many in (3, 60):
        each = [{"n": number} for number in range(many)]
        run = run_of(started(jobs("a", each), jobs("b", each), task("c", "gid_round", quota=many)))
        work(run.pk, "a", lambda held: "failed")
        looks = [partial(admin_client.get, url) for url in pages_of(run)]
        for look in looks:
            # What caches keep is in them from now on.
            look()
        counts.append([len(sent_by(look)) for look in looks])
    assert all(more <= few for few, more in zip(*counts, strict=True)), counts
    assert "and 55 more" in text_of(page_of(admin_client, run))


def test_how_long_a_run_takes_say_the_last_ones_that_went_well(frozen_clock: FrozenClock) -> None:
    began = clock.now()
    # The oldest of seven is one too many; those that failed or were stopped say nothing.
    for number, (minutes, status) in enumerate(
        (
            *((900, "succeeded"), (10, "succeeded"), (20, "succeeded"), (1, "failed")),
            *((30, "succeeded"), (40, "succeeded"), (2, "cancelled"), (50, "succeeded")),
            *((60, "succeeded"), (None, "running"), (5, "succeeded")),
        ),
        start=1,
    ):
        end = None if minutes is None else began + timedelta(minutes=minutes)
        FlowRun.objects.create(
            id=number,
            flow="night",
            definition={"steps": []},
            status=status,
            created_at=began,
            finished_at=end,
        )
    usual = {run.pk: lately.usual(run) for run in FlowRun.objects.all()}
    assert usual[10] == (6, timedelta(minutes=35))
    assert usual[2] == (1, timedelta(minutes=900))
    assert usual[1] is None
    assert lately.usual(FlowRun(pk=12, flow="")) is None


def test_first_job_that_waits_is_explained(admin_client: Client, mail: FrozenClock) -> None:
    run = run_of(started(job("a")))
    assert "Start a worker with its handler" in text_of(page_of(admin_client, run))


def test_task_that_nobody_can_take_is_explained(admin_client: Client, mail: FrozenClock) -> None:
    group = factories.group(members=["uid_ann"])
    run = run_of(started(task("check")))
    tasks.update_task(task=OnceTask.objects.get(), changes={"status": "paused"}, actor="admin:olga")
    assert "Nobody has it now. The task is: Paused" in text_of(page_of(admin_client, run))
    executors.change_members(group=group, remove=["uid_ann"], actor="admin:olga")
    words = "Nobody has it now, and nobody can: gid_sales has no members."
    assert words in text_of(page_of(admin_client, run))


# --- what operators do ----------------------------------------------------------------------------
def test_acts_of_operators(admin_client: Client, mail: FrozenClock) -> None:
    run = run_of(started(wait("gate"), job("a"), jobs("b", [1, 2]), job("c", needs=["gate", "b"])))

    act(admin_client, "pause", run)
    assert run_of(run.pk).is_paused
    act(admin_client, "resume", run)
    assert not run_of(run.pk).is_paused
    assert "is not JSON" in text_of(act(admin_client, "finish", run, step="gate", result="{"))
    # Nested without end, and a mask in the place of a value.
    for result, why in (
        ("[" * 100_000, "levels deep"),
        ('{"token": "••••••"}', "write the value"),
    ):
        assert why in text_of(act(admin_client, "finish", run, step="gate", result=result))
    assert step_of(run.pk, "gate").state == "active"
    act(admin_client, "finish", run, step="gate", result='{"ok": true}')
    assert step_of(run.pk, "gate").result == {"ok": True}
    # A failed job of a step that goes on is tried again, too.
    [first, _second] = Job.objects.filter(part_of=step_of(run.pk, "b").pk).order_by("pk")
    work(run.pk, "b", lambda held: "failed" if held.id == first.pk else "released")
    assert states(run.pk)["b"] == "active"
    act(admin_client, "retry", run)
    assert Job.objects.get(pk=first.pk).status == "ready"
    work(run.pk, "a", "failed")
    act(admin_client, "skip", run, step="a")
    assert step_of(run.pk, "a").by == "admin:admin"
    act(admin_client, "stop", run)
    assert run_of(run.pk).status == "cancelled"
    entry = JournalEntry.objects.filter(subject_id=run.pk, event="cancel_asked").get()
    assert (entry.actor, entry.reason) == ("admin:admin", "as agreed")


def test_force_takes_what_people_have_in_hand(admin_client: Client, rounds: scenes.Rounds) -> None:
    act(admin_client, "stop", rounds.running)
    assert run_of(rounds.running.pk).status == "cancelling"
    act(admin_client, "stop_by_force", rounds.running)
    advance(rounds.running.pk)
    assert run_of(rounds.running.pk).status == "cancelled"
    of_run = rounds.running.steps.values("pk")
    assert not Dispatch.objects.filter(part_of__in=of_run, state="open").exists()


def test_who_may_only_look_has_no_buttons(
    role_client: Callable[[str], Client], rounds: scenes.Rounds
) -> None:
    page = page_of(role_client("viewer"), rounds.running)
    assert actions_on(page) == set()
    assert not re.search(r"/give/|job/act/", page.content.decode())
    assert "shop Nanjing Road" not in text_of(page)
    operator = page_of(role_client("operator"), rounds.running)
    assert actions_on(operator) == {"retry", "pause", "stop"}
    assert re.search(r"/give/", operator.content.decode())


def test_without_sight_of_jobs_and_people_there_are_numbers_only(
    admin_client: Client, rounds: scenes.Rounds
) -> None:
    person = User.objects.create_user("vera", is_staff=True)
    person.user_permissions.set(Permission.objects.filter(codename="view_flowrun"))
    client = Client()
    client.force_login(person)
    html = page_of(client, rounds.running).content.decode()
    assert "9 of 12 done" in html
    assert "HTTP 503" not in html and "uid_round" not in html and "/jobs/job/" not in html


# --- results --------------------------------------------------------------------------------------
def test_results_are_masked_and_for_who_may_see_them(
    role_client: Callable[[str], Client], rounds: scenes.Rounds
) -> None:
    url = reverse("admin:flows_flowrun_results", args=[rounds.succeeded.pk])
    text = text_of(role_client("operator").get(url))
    assert "token" in text and "s3cret" not in text
    viewer = role_client("viewer")
    assert viewer.get(url).status_code == 403
    assert url not in page_of(viewer, rounds.succeeded).content.decode()


# --- the list -------------------------------------------------------------------------------------
def test_list_of_runs(admin_client: Client, rounds: scenes.Rounds) -> None:
    page = admin_client.get(reverse(LIST))
    text = text_of(page)
    assert "Running 4 Failed 1 Ended" in text
    rows = cells_by_name(page)
    assert rows["Weekly price round 2026-48"][0] == "Paused"
    assert rows["Weekly price round 2026-47"][2] == "Aisle 7, recognise, goods-in"

    found = {"2026-47": [rounds.running], str(rounds.own.pk): [rounds.own], "2026": []}
    for term, runs in found.items():
        assert rows_of(admin_client, reverse(LIST), q=term) == runs
    assert rows_of(admin_client, reverse(LIST), status="failed") == [rounds.failed]
    ended = rows_of(admin_client, reverse(LIST), status="succeeded,cancelled")
    assert ended == [rounds.succeeded]
    own = {row.pk for row in rows_of(admin_client, reverse(LIST), flow="price-round")}
    assert own == {rounds.running.pk, rounds.paused.pk, rounds.stopping.pk}


# --- ways to the page -----------------------------------------------------------------------------
@pytest.mark.both
def test_ways_to_the_page_of_a_run(admin_client: Client, rounds: scenes.Rounds) -> None:
    run, step = rounds.running, step_of(rounds.running.pk, "recognise")
    of_step = Job.objects.filter(part_of=step.pk).order_by("pk")
    photos = step_of(run.pk, "shelf-photos")
    rows: list[Any] = [of_step[0], OnceTask.objects.get(pk=photos.task)]
    rows.append(Dispatch.objects.filter(part_of=photos.pk).first())
    for row in rows:
        assert (
            f"{change_url(run)}#step-{row.part_of}" in page_of(admin_client, row).content.decode()
        )
    listed = rows_of(admin_client, reverse("admin:jobs_job_changelist"), part_of=str(step.pk))
    assert {row.pk for row in listed} == {*of_step.values_list("pk", flat=True)}

    entry = JournalEntry.objects.filter(subject_id=run.pk).first()
    assert change_url(run) in page_of(admin_client, entry).content.decode()
    for url in (f"{reverse('activity')}?by=olga", f"{reverse('admin:search')}?term=2026-47"):
        answer = admin_client.get(url, follow=True)
        assert change_url(run) in answer.content.decode() or answer.request[
            "PATH_INFO"
        ] == change_url(run)


def test_retried_job_of_a_part_is_seen(admin_client: Client, rounds: scenes.Rounds) -> None:
    failed = Job.objects.filter(type="price-recognise", status="failed").first()
    assert failed is not None
    of_jobs.retry(job=failed, actor="admin:olga")
    assert "1 failed job of price-recognise" not in text_of(page_of(admin_client, rounds.running))


# --- limits ---------------------------------------------------------------------------------------
@pytest.mark.both
def test_people_with_limits_see_runs_within_them(
    role_user: Callable[[str], User], role_client: Callable[[str], Client], mail: FrozenClock
) -> None:
    job_type("sms")
    scenes.prepare()
    mails, texts = run_of(started(job("a"))), run_of(started(job("a", type="sms"), job("b")))
    people = run_of(started(task("a", "gid_round")))
    JobScope.objects.create(operator=role_user("configurer"), type="mail")
    client = role_client("configurer")

    assert rows_of(client, reverse(LIST)) == [mails]
    for run in (texts, people):
        assert page_of(client, run).status_code == 404
        assert live(client, run).status_code == 404
        for name in ("pause", "stop", "skip"):
            act(client, name, run, step="a")
        assert run_of(run.pk).status == "running" and not run_of(run.pk).is_paused
    act(client, "pause", mails)
    assert run_of(mails.pk).is_paused


# --- tabs -----------------------------------------------------------------------------------------
def test_history_is_the_open_tab(admin_client: Client, rounds: scenes.Rounds) -> None:
    flow = Flow.objects.get(name=rounds.running.flow)
    for row in (rounds.running, flow, JobType.objects.get(name="price-recognise")):
        url = reverse(f"admin:{row._meta.db_table}_history", args=[row.pk])
        tabs = admin_client.get(url).context_data["header_tabs"]["tabs"]
        assert [link for _title, link, is_open in tabs if is_open] == [url]
