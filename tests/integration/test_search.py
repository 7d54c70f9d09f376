"""The one search box: what it finds, what it hides, and what it costs."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest
from django.contrib import admin
from django.contrib.auth.models import User
from django.test import Client
from django.urls import reverse
from django.utils.html import escape

from apps.access import services as access
from apps.dispatch.models import Dispatch, OnceTask, OperatorScope, RotateTask
from apps.dispatch.services import pull
from apps.jobs.models import Job, JobScope
from apps.jobs.services import register
from apps.jobs.services.find import with_key
from apps.journal.models import JournalEntry
from taskplatform import search_kinds
from tests import callback, factories
from tests.frozen import FrozenClock
from tests.jobs import end, job_type, jobs, take
from tests.pages import form_of, inline_code_of, text_of
from tests.statements import explained, indexes_on, sent_by

pytestmark = pytest.mark.django_db


def ask(client: Client, term: str) -> Any:
    return client.get(reverse("admin:search"), {"term": term})


def found(client: Client, term: str) -> dict[str, list[str]]:
    """The titles of the hits by group."""
    page = ask(client, term)
    assert page.status_code == 200, page.get("Location")
    return {group.title: [hit.title for hit in group.hits] for group in page.context["groups"]}


def leads_to(client: Client, term: str, row: Any) -> bool:
    page = ask(client, term)
    model_admin: Any = admin.site.get_model_admin(type(row))
    return bool(page.get("Location") == model_admin.row_url(row.pk))


def handed_out(uid: str = "uid_alice", **fields: Any) -> Dispatch:
    factories.once_task(factories.user(uid), **fields)
    taken = pull.answer_pull(uid)
    assert isinstance(taken, Dispatch)
    return taken


def failed_job(error: str, **columns: Any) -> int:
    [number] = jobs(1, **columns)
    [held] = take(1, types=(columns.get("type", "mail"),))
    end(held, "failed", error=error, retry="never")
    return number


# --- what is found ------------------------------------------------------------------------------
def test_number_of_one_thing_leads_straight_to_its_page(admin_client: Client) -> None:
    dispatch = handed_out()
    job_type()
    [number] = jobs(1)
    entry = JournalEntry.objects.filter(event="handed_out").latest("id")

    for row in (dispatch, Job.objects.get(pk=number), entry):
        assert leads_to(admin_client, str(row.pk), row)
        assert leads_to(admin_client, f"  {row.pk} ", row)


def test_number_of_several_things_lists_them_by_kind(admin_client: Client) -> None:
    once = factories.once_task(factories.user(), title="Count the till")
    rotation = factories.rotation(factories.user("uid_bob"), title="Sweep the floor")
    RotateTask.objects.filter(pk=rotation.pk).update(id=once.pk)
    rotation = RotateTask.objects.get(pk=once.pk)

    assert found(admin_client, str(once.pk)) == {
        "once tasks": ["Count the till"],
        "repeating tasks": ["Sweep the floor"],
    }
    assert leads_to(admin_client, f"once:{once.pk}", once)
    assert leads_to(admin_client, f"once {once.pk}", once)
    assert leads_to(admin_client, f"rotate:{rotation.pk}", rotation)


@pytest.mark.both
def test_key_of_jobs_is_found_in_every_type_newest_first(admin_client: Client) -> None:
    for name in ("mail", "web"):
        job_type(name)
    old = jobs(1, "web", key="order-7")
    new = jobs(1, "mail", key="order-7")
    jobs(3, "mail", key="order-70")

    assert found(admin_client, "order-7") == {"jobs": [str(new[0]), str(old[0])]}
    assert ask(admin_client, "order").context["groups"] == []


@pytest.mark.both
def test_user_or_trace_of_a_job_is_found_among_the_newest(
    admin_client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    job_type()
    [of_user] = jobs(1, user_id="customer-9")
    [of_trace] = jobs(1, trace_id="4bf92f3577b34da6")
    assert leads_to(admin_client, "customer-9", Job.objects.get(pk=of_user))
    assert leads_to(admin_client, "4bf92f3577b34da6", Job.objects.get(pk=of_trace))

    monkeypatch.setattr(search_kinds, "MAX_JOBS", 1)
    assert ask(admin_client, "customer-9").context["groups"] == []


@pytest.mark.both
def test_uid_is_found_by_how_it_begins_with_and_without_its_prefix(admin_client: Client) -> None:
    ann = factories.user("uid_ann")
    anna = factories.user("uid_anna")
    factories.user("uid_bob")

    assert found(admin_client, "uid_an") == {"people and groups": ["uid_ann", "uid_anna"]}
    assert found(admin_client, "ann")["people and groups"] == ["uid_ann", "uid_anna"]
    assert leads_to(admin_client, "uid_anna", anna)
    assert not leads_to(admin_client, "UID_ANN", ann), "keys are compared as they are"


def test_types_templates_workers_and_keys_are_found_by_name(admin_client: Client) -> None:
    template = factories.template("photo-check")
    made = job_type("photo-mail")
    register.register(name="host-a:1", host="host-a")
    client, _key = access.create_client(name="Tills", scopes=["pull"], actor="test")

    assert found(admin_client, "photo") == {
        "job types": ["photo-mail"],
        "templates": ["photo-check"],
    }
    assert leads_to(admin_client, "photo-m", made)
    assert leads_to(admin_client, "photo-check", template)
    register.register(name="host-a:2", host="host-a")
    assert found(admin_client, "host-a") == {"workers": ["host-a:1", "host-a:2"]}
    assert leads_to(admin_client, client.client_id, client)


def errors(client: Client, term: str) -> Any:
    [group] = [each for each in ask(client, term).context["groups"] if each.title == "Errors"]
    return group.hits


@pytest.mark.both
def test_same_errors_are_found_together_whatever_their_case(
    admin_client: Client, frozen_clock: FrozenClock
) -> None:
    """S1.21."""
    job_type()
    job_type("web")
    trace = "Traceback (most recent call last):\n  …\n"
    lost = f"{trace}smtplib.SMTPServerDisconnected: Connection unexpectedly closed"
    for _time in range(3):
        failed_job(lost)
    failed_job(lost, type="web")
    failed_job("ValueError: 7 of 9")
    key = JournalEntry.objects.filter(error__contains="SMTP").latest("pk").error_key
    frozen_clock.advance(minutes=3)

    for term in ("connection UNEXPECTEDLY closed", "SMTPServer", key):
        hits = errors(admin_client, term)
        assert {each.title for each in hits} == {lost.splitlines()[-1]}, term
        assert [each.detail for each in hits] == [
            "web · 1 time · 3 min ago",
            "mail · 3 times · 3 min ago",
        ]
    assert ask(admin_client, "9").context["groups"] == [], "two characters stand in any text"
    rows = admin_client.get(hits[1].url).context["cl"].result_list
    assert {(row.type, row.error_key) for row in rows} == {("mail", key)} and len(rows) == 3


def test_error_leads_to_the_retry_of_all_that_failed_by_it(
    admin_client: Client, role_client: Any
) -> None:
    job_type()
    number = failed_job("ValueError: no address")
    [[words, url]] = errors(admin_client, "no address")[0].acts
    assert words == "Retry…"
    assert 'href="' + escape(url) in ask(admin_client, "no address").content.decode()
    page = admin_client.get(url)
    sent = {**form_of(page, "ids"), "reason": "It is back"}
    answer: Any = admin_client.post(page.context["url"], sent, follow=True)
    assert answer.redirect_chain[0][0] == f"{reverse('admin:search')}?term=no+address"
    assert Job.objects.get(pk=number).status == "ready"
    # Nothing is left to be retried, and a single hit is no list.
    alike = f"{reverse('admin:jobs_job_changelist')}?"
    assert ask(admin_client, "no address")["Location"].startswith(alike)
    Job.objects.update(status="failed")
    assert ask(role_client("viewer"), "no address")["Location"].startswith(alike)


def test_error_of_a_task_leads_to_its_failed_dispatches(admin_client: Client) -> None:
    dispatch = handed_out(title="Count the till")
    user = dispatch.executor
    callback.call_back(
        executor=user, number=dispatch.pk, outcome="failed", message="Door is closed"
    )
    page = ask(admin_client, "door is")
    where = f"?source=once&task={dispatch.task}&state=failed"
    assert page["Location"] == reverse("admin:dispatch_dispatch_changelist") + where


def test_errors_outside_of_the_limits_are_neither_found_nor_counted(
    role_client: Any, role_user: Any
) -> None:
    for name in ("mail", "sms"):
        job_type(name)
        failed_job("ValueError: no address", type=name)
    JobScope.objects.create(operator=role_user("operator"), type="mail")
    hits = errors(role_client("operator"), "no address")
    assert ["mail · 1 time" in each.detail for each in hits] == [True]


def test_secret_in_an_error_is_not_shown(admin_client: Client) -> None:
    job_type()
    failed_job("OSError: refused by https://ann:hunter2@example.org")
    assert "hunter2" not in ask(admin_client, "refused by").content.decode()


@pytest.mark.both
def test_errors_are_found_by_no_secret_and_masked_by_no_database(admin_client: Client) -> None:
    """MariaDB took 40 ms for each of 10 KB: half a minute for the errors of an outage."""
    for name in ("mail", "web"):
        job_type(name)
        for n in range(2):
            failed_job(f"OSError: password=hunter{n} refused", type=name)
    hits: list[Any] = []
    statements = sent_by(lambda: hits.extend(errors(admin_client, "REFUSED")))
    assert [each.detail.partition(" ·")[2][:8] for each in hits] == [" 2 times"] * 2
    assert not [sql for sql in statements if "redacted(" in sql or "REGEXP_REPLACE" in sql]
    for term in ("hunter", "hunter1", "password=hunter"):
        assert ask(admin_client, term).context["groups"] == []


@pytest.mark.both
def test_task_is_found_by_words_of_its_title_whatever_their_case(admin_client: Client) -> None:
    alice = factories.user("uid_alice")
    once = factories.once_task(alice, title="Pallet count, Harbour Street")
    rotation = factories.rotation(alice, "Shelf count", rule={"every_minutes": 10})
    chinese = factories.once_task(alice, title="夜间巡检")

    for term, task in (("harbour PALLET", once), ("shel", rotation), ("巡检", chinese)):
        assert leads_to(admin_client, term, task), term
    both = found(admin_client, "count")
    assert both == {"once tasks": [once.title], "repeating tasks": [rotation.title]}
    for term in ("pallet shelf", "ou", "检"):
        assert ask(admin_client, term).context["groups"] == [], term


def test_titles_are_searched_among_the_newest_tasks(
    admin_client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However many tasks there are, and where the list finds more."""
    monkeypatch.setattr(search_kinds, "MAX_TASKS", 12)
    alice = factories.user("uid_alice")
    factories.once_task(alice, title="Old round")
    for n in range(12):
        factories.once_task(alice, title=f"New round {n}")
    page = ask(admin_client, "round")
    [group] = page.context["groups"]
    assert group.has_more
    assert ask(admin_client, "old round").context["groups"] == []
    assert "12 tasks of each kind" in text_of(ask(admin_client, ""))
    assert "Old round" in text_of(admin_client.get(group.more_url))


@pytest.mark.both
def test_wildcards_in_a_text_mean_themselves(admin_client: Client) -> None:
    job_type()
    failed_job("disk 100% full")
    failed_job("disk 100 of 100 full")
    assert len(errors(admin_client, "100% f")) == 1
    assert ask(admin_client, "disk_100").context["groups"] == []


@pytest.mark.both
def test_number_of_a_gone_subject_leads_to_its_entry(admin_client: Client) -> None:
    dispatch = handed_out()
    entry = JournalEntry.objects.get(source="dispatch", subject_id=dispatch.pk)
    assert leads_to(admin_client, str(dispatch.pk), dispatch)

    Dispatch.objects.filter(pk=entry.subject_id).delete()

    assert leads_to(admin_client, str(entry.subject_id), entry)


def test_pages_of_the_menu_are_found_by_name(admin_client: Client) -> None:
    page = ask(admin_client, "rotation")
    assert page["Location"] == reverse("admin:dispatch_rotatetask_changelist")
    assert found(admin_client, "task")["Entries of the menu"] == [
        "Once tasks",
        "Repeating tasks",
        "Older tasks",
    ]
    assert ask(admin_client, "executors")["Location"].startswith("/admin/dispatch/executor/")
    # By the title of its tab, and by the name that it had.
    for term in ("checks", "governance"):
        assert ask(admin_client, term)["Location"] == reverse("governance")


def test_more_hits_than_are_shown_lead_to_the_list_of_all(admin_client: Client) -> None:
    job_type()
    jobs(search_kinds.MAX_SHOWN + 1, key="same")
    page = ask(admin_client, "same")
    [group] = page.context["groups"]
    assert len(group.hits) == search_kinds.MAX_SHOWN
    assert group.more_url == f"{reverse('admin:jobs_job_changelist')}?q=same"
    assert admin_client.get(group.more_url).status_code == 200
    assert "Show all in their list" in text_of(page)


# --- what is hidden -----------------------------------------------------------------------------
def test_nobody_finds_what_the_lists_do_not_show(
    client: Client, role_client: Any, role_user: Any
) -> None:
    """ASVS 8.2.2: permissions and limits of view hold here, too."""
    factories.once_task(factories.user("uid_alice"))
    dispatch = handed_out("uid_bob", title="Of Bob")
    made, _key = access.create_client(name="Tills", scopes=["pull"], actor="test")
    job_type("photo-mail")
    viewer: User = role_user("viewer")
    bounded = Client()
    bounded.force_login(viewer, backend="django.contrib.auth.backends.ModelBackend")
    assert leads_to(bounded, str(dispatch.pk), dispatch)
    assert leads_to(bounded, "Of Bob", OnceTask.objects.get(title="Of Bob"))

    OperatorScope.objects.create(operator=viewer, executor=factories.member("uid_alice"))
    for term in (str(dispatch.pk), "uid_bob", "Of Bob"):
        assert ask(bounded, term).context["groups"] == [], term

    nobody = User.objects.create_user("nora", is_staff=True)
    plain = Client()
    plain.force_login(nobody, backend="django.contrib.auth.backends.ModelBackend")
    for term in (str(dispatch.pk), "uid_alice", "photo", made.client_id):
        assert ask(plain, term).context["groups"] == [], term
    assert ask(client, "uid_alice")["Location"].startswith("/admin/login/")


@pytest.mark.both
def test_hostile_terms_are_shown_as_text_and_find_nothing(admin_client: Client) -> None:
    for term in ("<script>alert(1)</script>", "a\0b", "x" * 20_000, "9" * 40, "٣", "'\"\\%_"):
        page = ask(admin_client, term)
        assert page.status_code == 200, term[:20]
        assert inline_code_of(page) == []
        assert b"<script>alert" not in page.content
        assert len(page.context["term"]) <= 100
    assert admin_client.get(reverse("admin:search"), {"page": "abc", "s": "x"}).status_code == 200


# --- what it costs ------------------------------------------------------------------------------
def test_search_takes_a_handful_of_statements_however_many_types_there_are(
    admin_client: Client,
) -> None:
    terms = ("4711", "249849267093741568", "order-7", "some words")

    def statements() -> dict[str, int]:
        return {term: len(sent_by(partial(ask, admin_client, term))) for term in terms}

    job_type("type-0")
    few = statements()
    for n in range(1, 60):
        job_type(f"type-{n}")
        jobs(1, f"type-{n}", key=f"k-{n}")

    assert statements() == few
    assert max(few.values()) <= 31


@pytest.mark.both
def test_keys_are_found_by_index_in_every_type() -> None:
    job_type()
    jobs(40, key="other")
    jobs(3, key="same")
    found: list[Any] = []
    sent = sent_by(lambda: found.extend(with_key("same", limit=2)))
    assert len(found) == 2
    [sql] = [each for each in sent if "LIMIT 2" in each]
    assert indexes_on(Job, sql) == {"job_type_key"}
    assert "TEMP B-TREE" not in explained(sql)


@pytest.mark.both
def test_more_types_than_one_statement_takes_are_all_searched() -> None:
    for n in range(410):
        job_type(f"type-{n}")
    jobs(1, "type-0", key="same")
    jobs(1, "type-409", key="same")
    assert len(with_key("same", limit=5)) == 2
