"""The form of a flow: rows with a drawing and faults that follow what is typed."""

from __future__ import annotations

from collections.abc import Callable

from django.urls import reverse
from playwright.sync_api import Page, expect

from apps.flows.models import Flow
from apps.flows.services.flows import put_flow
from tests import factories
from tests.browser.looks import faults
from tests.flows import job, task
from tests.frozen import FrozenClock
from tests.jobs import job_type


def test_drawing_and_faults_follow_what_is_typed_and_start_leads_to_the_run(
    page_as: Callable[..., Page], frozen_clock: FrozenClock
) -> None:
    job_type("mail")
    factories.group("gid_sales", ["uid_ann", "uid_ben"], title="Sales")
    flow = put_flow(
        name="round", definition={"steps": [task("ask"), job("send")]}, actor="admin:vera"
    )
    page = page_as("configurer")
    page.goto(reverse("admin:flows_flow_change", args=[flow.pk]))
    check, boxes = page.locator("#flow-check"), page.locator(".graph-box")
    expect(boxes).to_have_count(2)
    # What only other kinds have is not there.
    expect(page.get_by_label("Job type of step 1")).to_be_hidden()
    needs = page.get_by_label("Waits for the steps of step 2")
    needs.fill("nobody")
    needs.press("Tab")
    beside = page.locator("#step-2-faults")
    expect(beside).to_contain_text("There is no step 'nobody'")
    needs.fill("ask")
    needs.press("Tab")
    expect(check).to_contain_text("2 levels. Saving makes version 2.")
    expect(beside).to_be_empty()
    expect(page.locator(".graph-way")).to_have_count(1)
    page.get_by_role("button", name="Add step").click()
    page.get_by_label("Kind of step 3").select_option("wait")
    page.get_by_label("Name of step 3").fill("rest")
    page.get_by_label("Name of step 3").press("Tab")
    expect(boxes).to_have_count(3)
    assert [*faults(page, "dark")] == []
    page.get_by_role("button", name="Save v2").click()
    expect(page.get_by_text("It has never been started.")).to_be_visible()
    newest = Flow.objects.get(version=2)
    page.goto(reverse("admin:flows_flow_start", args=[newest.pk]))
    page.get_by_role("button", name="Start", exact=True).click()
    expect(page.get_by_text("The run was started.")).to_be_visible()
    assert newest.definition["steps"][2] == {"name": "rest", "kind": "wait"}
