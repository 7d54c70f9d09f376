"""Parts of a form that are drawn anew while it is filled in: late answers, failures, a sign-out."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from django.contrib.auth.models import User
from django.contrib.sessions.models import Session
from django.urls import reverse
from playwright.sync_api import Page, Route, expect

from apps.dispatch.models import OnceTask
from apps.flows.services.flows import put_flow
from tests import factories
from tests.browser.conftest import Watch
from tests.flows import job
from tests.jobs import job_type
from tests.pages import change_url

SCHEMA = {
    "type": "object",
    "properties": {"shop": {"type": "string", "title": "Shop"}},
    "additionalProperties": False,
}
LATE = "may be out of date"
SIGNED_OUT = "You are signed out"
PASSWORD = "Long-3-enough"


def sign_in(page: Page, name: str) -> None:
    page.goto(reverse("admin:login"))
    page.get_by_label("Username").fill(name)
    page.get_by_label("Password").fill(PASSWORD)
    page.get_by_role("button", name="Log in").click()
    expect(page.get_by_role("heading", name="Home")).to_be_visible()


def test_who_is_signed_out_while_a_form_is_open_loses_nothing_of_it(
    page_as: Callable[..., Page], watch: Watch
) -> None:
    factories.template("photo-check", SCHEMA)
    factories.user("uid_ann")
    page = page_as("operator")
    page.goto(reverse("admin:dispatch_oncetask_add"))
    page.locator("#id_executor").fill("uid_ann")
    page.get_by_label("Template").select_option(label="photo-check v1")
    page.get_by_label("Shop").fill("Nanjing Road")
    expect(page.locator("#task-said")).to_contain_text("Not right yet: Title")

    Session.objects.all().delete()
    page.get_by_label("Title").fill("Photograph the shelf")
    expect(page.get_by_text(SIGNED_OUT)).to_be_visible()
    # The params would be drawn anew, and there are none on the page of the sign-in.
    with page.expect_response("**/login/**"):
        page.get_by_label("Template").dispatch_event("change")
    expect(page.get_by_label("Password")).to_have_count(0)
    expect(page.get_by_label("Shop")).to_have_value("Nanjing Road")

    account = User.objects.get(username="operator")
    account.set_password(PASSWORD)
    account.save()
    with page.expect_popup() as opened:
        page.get_by_role("link", name="Sign in").click()
    sign_in(opened.value, "operator")
    opened.value.close()
    page.evaluate("dispatchEvent(new Event('focus'))")
    expect(page.get_by_text(SIGNED_OUT)).to_be_hidden()
    page.get_by_role("button", name="Save", exact=True).click()
    expect(page.get_by_text("was added successfully")).to_be_visible()
    [task] = OnceTask.objects.all()
    assert (task.title, task.params) == ("Photograph the shelf", {"shop": "Nanjing Road"})


def test_form_that_is_saved_after_its_session_ended_stays_as_it_is(
    page_as: Callable[..., Page], watch: Watch
) -> None:
    """Also where no part of the form has asked the server before."""
    account = User.objects.create_superuser("vera", password=PASSWORD)
    executor = factories.user("uid_ann")
    page = page_as("superuser")
    page.goto(change_url(executor))
    page.get_by_label("Title").fill("Ann of the harbour")
    Session.objects.all().delete()
    page.get_by_role("button", name="Save", exact=True).click()
    expect(page.get_by_text(SIGNED_OUT)).to_be_visible()
    expect(page.get_by_label("Title")).to_have_value("Ann of the harbour")

    # Somebody else signs in: what was typed is not saved in their name.
    with page.expect_popup() as opened:
        page.get_by_role("link", name="Sign in").click()
    sign_in(opened.value, account.username)
    # So that it is said anew.
    page.locator("[data-why=signed-out]").evaluate("note => { note.hidden = true; }")
    page.get_by_role("button", name="Save", exact=True).click()
    expect(page.get_by_text(SIGNED_OUT)).to_be_visible()
    executor.refresh_from_db()
    assert executor.title != "Ann of the harbour"


def test_form_is_saved_when_its_writer_has_signed_in_again_elsewhere(
    page_as: Callable[..., Page], watch: Watch
) -> None:
    """That makes the token of the form void; and a second click sends it once."""
    executor = factories.user("uid_ann")
    page = page_as("superuser")
    account = User.objects.get(username="admin")
    account.set_password(PASSWORD)
    account.save()
    other = page.context.new_page()
    sign_in(other, "admin")
    other.close()
    page.goto(change_url(executor))
    Session.objects.all().delete()
    other = page.context.new_page()
    sign_in(other, "admin")
    other.close()
    page.get_by_label("Title").fill("Ann of the harbour")
    posts: list[str] = []
    page.on("request", lambda request: posts.append(request.method))
    page.get_by_role("button", name="Save", exact=True).dblclick()
    expect(page.get_by_text("was changed successfully")).to_be_visible()
    assert posts.count("POST") == 1
    executor.refresh_from_db()
    assert executor.title == "Ann of the harbour"


def test_form_of_one_account_is_not_saved_by_another(
    page_as: Callable[..., Page], watch: Watch
) -> None:
    User.objects.create_superuser("other", password=PASSWORD)
    page = page_as("operator")
    page.goto(reverse("admin:dispatch_oncetask_add"))
    Session.objects.all().delete()
    page.get_by_label("Title").fill("Photograph the shelf")
    with page.expect_popup() as opened:
        page.get_by_role("link", name="Sign in").click()
    sign_in(opened.value, "other")
    with page.expect_response("**/signed-in/"):
        page.evaluate("dispatchEvent(new Event('focus'))")
    expect(page.get_by_text(SIGNED_OUT)).to_be_visible()


@pytest.mark.parametrize("status", [0, 500, 503])
def test_draft_that_fails_says_so_until_one_succeeds(
    page_as: Callable[..., Page], watch: Watch, status: int
) -> None:
    watch.allow("htmx:|Failed to load|Response Status Error")
    page = page_as("operator")
    page.goto(reverse("admin:dispatch_oncetask_add"))
    fail: Callable[[Route], None] = (
        (lambda route: route.fulfill(status=status)) if status else (lambda route: route.abort())
    )
    page.route("**/said/**", fail)
    page.get_by_label("Title").fill("Photograph the shelf")
    expect(page.get_by_text(LATE)).to_be_visible()
    page.unroute("**/said/**")
    page.get_by_label("Title").fill("Photograph the counter")
    expect(page.get_by_text(LATE)).to_be_hidden()


@pytest.mark.parametrize("kind", ["template", "flow"])
def test_change_before_the_answer_to_the_one_before_is_drawn(
    page_as: Callable[..., Page], kind: str
) -> None:
    job_type("mail")
    flow = put_flow(name="round", definition={"steps": [job("send")]}, actor="admin:vera")
    template = factories.template("photo-check", SCHEMA)
    page = page_as("configurer")
    if kind == "flow":
        page.goto(reverse("admin:flows_flow_change", args=[flow.pk]))
        box, part = page.get_by_label("Name of step 1"), page.locator("#flow-check")
    else:
        page.goto(reverse("admin:dispatch_template_change", args=[template.pk]))
        box, part = page.get_by_label("Label of row 1"), page.locator("#template-preview")
    held: list[Route] = []
    page.route("**/change/", lambda route: held.append(route), times=1)
    with page.expect_request("**/change/"):
        box.fill("first")
        box.press("Tab")
    box.fill("second")
    box.press("Tab")
    # Its timer runs while the answer comes.
    with page.expect_response("**/change/"):
        held[0].continue_()
    expect(part).to_contain_text("second")
