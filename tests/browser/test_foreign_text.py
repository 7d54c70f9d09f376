"""Text from outside is shown as text: it neither runs, nor turns around, nor overflows."""

from __future__ import annotations

from collections.abc import Callable

from django.urls import reverse
from playwright.sync_api import Dialog, Page, ViewportSize, expect

from apps.dispatch.services import executors, pull
from taskplatform.sdk import Client, Nothing
from tests import factories
from tests.alerts import rule
from tests.browser.layout import hidden_columns, sideways
from tests.factories import OPERATOR, once_task, user
from tests.jobs import end, job_type, jobs, take

HEAD = "<script>alert(1)</script><img src=x onerror=alert(2)>{{7*7}}{% now 'Y' %}a\u202eb\u2066c"
TEXT = HEAD + "W" * (200 - len(HEAD))
OWN_TEXTS = """
elements => elements.flatMap(element => [...element.childNodes])
  .filter(node => node.nodeType === Node.TEXT_NODE).map(node => node.textContent)
"""
SHOWN = HEAD.replace("\u202e", "\\u202e").replace("\u2066", "\\u2066")


def test_text_of_clients_and_operators_is_inert_on_every_page(
    page_as: Callable[[str | None], Page], make_key: Callable[..., str], live_site: str
) -> None:
    """S0.7, S0.29: title, params, result, message and reason, on lists, pages and timelines."""
    person = user("uid_ava", title=TEXT)
    task = once_task(person, title=TEXT, params={"note": TEXT, TEXT: [TEXT]})
    with Client(live_site, make_key(scopes=["pull"])) as client:
        offer = client.pull("uid_ava")
        assert not isinstance(offer, Nothing)
        client.callback("uid_ava", offer.number, "failed", {"said": TEXT}, TEXT)
    executors.update_executor(
        executor=person, changes={"enabled": False}, actor=OPERATOR, reason=TEXT
    )
    page = page_as("superuser")
    dialogs: list[str] = []
    page.on("dialog", lambda dialog: _note(dialog, dialogs))
    page.set_viewport_size(ViewportSize(width=390, height=800))

    for address in (
        reverse("admin:dispatch_oncetask_changelist"),
        reverse("admin:dispatch_oncetask_change", args=[task.pk]),
        reverse("admin:dispatch_dispatch_changelist"),
        reverse("admin:dispatch_dispatch_change", args=[offer.number]),
        reverse("admin:dispatch_executor_changelist"),
        reverse("admin:dispatch_executor_change", args=[person.pk]),
        reverse("admin:journal_journalentry_changelist"),
    ):
        page.goto(address)
        expect(page.get_by_text(SHOWN[:40]).first).to_be_attached()
        assert not {"\u202e", "\u2066"} & {*text_beside_isolates(page)}, address
        assert sideways(page) == 0, address

    assert dialogs == []


def test_text_of_workers_and_submitters_is_inert_on_every_page_of_jobs(
    page_as: Callable[[str | None], Page], transactional_db: None
) -> None:
    """S1.21: contexts, errors, memos, results, checkpoints, titles and reasons of jobs."""
    kind = job_type(title=TEXT, paused=True, pause_reason=TEXT)
    worker = factories.worker(version=HEAD[:60])
    (waiting,) = jobs(context={TEXT: TEXT}, submitted_by=TEXT[:160], memo=TEXT)
    kind.paused = False
    kind.save()
    (failed,) = jobs(context={TEXT: TEXT}, checkpoint=[TEXT], priority=50)
    end(take(1)[0], "failed", error=f"{TEXT}\n{TEXT}", memo=TEXT, retry="never")
    kind.paused = True
    kind.save()
    page = page_as("superuser")
    dialogs: list[str] = []
    page.on("dialog", lambda dialog: _note(dialog, dialogs))
    page.set_viewport_size(ViewportSize(width=390, height=800))

    for address in (
        reverse("admin:jobs_job_changelist"),
        reverse("admin:jobs_job_change", args=[waiting]),
        reverse("admin:jobs_job_change", args=[failed]),
        reverse("admin:jobs_job_edit", args=[waiting]),
        reverse("admin:jobs_job_add"),
        reverse("admin:jobs_jobtype_changelist"),
        reverse("admin:jobs_jobtype_change", args=[kind.pk]),
        reverse("admin:jobs_worker_changelist"),
        reverse("admin:jobs_worker_change", args=[worker.pk]),
    ):
        page.goto(address)
        assert not {"\u202e", "\u2066"} & {*text_beside_isolates(page)}, address
        assert sideways(page) == 0, address
    page.goto(reverse("admin:jobs_job_change", args=[failed]))
    expect(page.get_by_text(SHOWN[:40]).first).to_be_attached()

    assert dialogs == []


def text_beside_isolates(page: Page) -> str:
    """What stands neither in <bdi>, within which text may turn as it likes, nor in a form."""
    return "".join(page.locator("body :not(bdi, textarea)").evaluate_all(OWN_TEXTS))


def _note(dialog: Dialog, dialogs: list[str]) -> None:
    dialogs.append(dialog.message)
    dialog.dismiss()


def test_lists_of_long_names_fit_beside_the_menu(browser_page: Page) -> None:
    long = "W" * 150
    people = [f"uid_{letter * 56}" for letter in "abc"]
    for name in people:
        factories.user(name, title=long)
    group = factories.group("gid_long", people, title=long)
    factories.once_task(group, long, mode="multi", dispatch_times=3)
    factories.rotation(group, long, rule={"cron": "0 9 * * 1,4"})
    for name in people:
        pull.answer_pull(name)
    rule("Nobody works", kind="worker_silent", threshold=None)
    rule("Price recognition fails", target="price-recognise", severity="critical", for_seconds=120)
    page = browser_page
    page.set_viewport_size({"width": 1280, "height": 900})
    for address in (
        "dispatch/executor/?kind=user",
        "dispatch/oncetask/",
        "dispatch/rotatetask/",
        "dispatch/dispatch/",
        "journal/journalentry/",
        "alerts/alertrule/",
    ):
        page.goto(f"/admin/{address}")
        assert page.locator("#result_list .data-row").count() > 0
        assert hidden_columns(page) == 0, address
