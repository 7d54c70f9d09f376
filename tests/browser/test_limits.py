"""People limited to one group and one job type, on every way to the work of others."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from django.contrib.auth.models import User
from django.urls import reverse
from playwright.sync_api import Page, expect

from apps.bulk.models import BulkRun
from apps.dispatch.models import OperatorScope
from apps.jobs.models import JobScope
from tests import factories
from tests.browser.conftest import Watch
from tests.browser.test_lists import failed_jobs
from tests.jobs import job_type, jobs

pytestmark = pytest.mark.django_db(transaction=True)
LIST = "/admin/jobs/job/"


@pytest.fixture
def olga(page_as: Callable[..., Page], role_user: Callable[[str], User]) -> Page:
    """An operator of one group and the job type `mail`."""
    person = role_user("operator")
    north = factories.group("gid_north", ["uid_ann"])
    OperatorScope.objects.create(operator=person, executor=north)
    JobScope.objects.create(operator=person, type="mail")
    return page_as("operator")


def test_job_of_another_type_is_found_in_no_way(olga: Page, watch: Watch) -> None:
    watch.allow("404")
    watch.allow("403")
    [own] = failed_jobs(1, "ValueError: own")
    [foreign] = failed_jobs(1, "KeyError: of others", type="payroll")
    olga.goto(LIST)
    rows = olga.locator("#result_list tbody tr")
    expect(rows).to_have_count(1)
    expect(rows).to_contain_text(str(own))
    olga.goto(f"{LIST}?type=payroll")
    expect(olga.get_by_text(str(foreign))).to_have_count(0)

    for typed in (str(foreign), "of others", "payroll"):
        olga.keyboard.press("Control+k")
        olga.keyboard.type(typed)
        olga.keyboard.press("Enter")
        olga.wait_for_url("**/search/**")
        expect(olga.locator("#content")).not_to_contain_text("KeyError")
        expect(olga.locator(f"a[href*='{foreign}']")).to_have_count(0)
    page = olga.goto(reverse("admin:jobs_job_change", args=[foreign]))
    assert page is not None and page.status == 404
    expect(olga.locator("#nav-sidebar").get_by_text("Jobs").first).to_be_visible()
    # Its groups are of all jobs.
    page = olga.goto(reverse("failures"))
    assert page is not None and page.status == 403
    expect(olga.get_by_text("KeyError")).to_have_count(0)

    olga.goto(LIST)
    with olga.expect_download() as file:
        olga.get_by_role("link", name="Export").click()
    table = file.value.path().read_text()
    assert str(own) in table
    assert str(foreign) not in table


def test_plan_of_a_bulk_run_counts_no_rows_of_others(olga: Page) -> None:
    job_type("mail")
    job_type("payroll")
    jobs(7)
    jobs(500, "payroll")
    olga.goto(LIST)
    olga.get_by_text("Act on all that match").click()
    olga.get_by_role("link", name="Cancel…", exact=True).click()
    expect(olga.get_by_text("7 rows match")).to_be_visible()
    expect(olga.locator("#content")).not_to_contain_text("payroll")
    assert not BulkRun.objects.exists()
