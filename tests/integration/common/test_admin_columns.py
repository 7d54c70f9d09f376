"""People choose the columns of a list; what is empty on the whole page goes unless chosen."""

from __future__ import annotations

import csv
import io
import re
from html import unescape
from typing import Any

import pytest
from django.test import Client

from apps.common import clock
from apps.dispatch.services import pull
from tests import factories
from tests.history import archived
from tests.jobs import job_type, jobs
from tests.pages import text_of
from tests.statements import sent_by

pytestmark = pytest.mark.django_db

JOBS = "/admin/jobs/job/"


def headings(page: Any) -> list[str]:
    """Those of the columns, without that of the boxes."""
    found = re.findall(r'<th[^>]*class="[^"]*column-[^>]*>(.*?)</th>', page_of(page))
    texts = [re.sub(r"<[^>]*>", "", each).strip().lower() for each in found]
    return [text for text in texts if text]


def page_of(page: Any) -> str:
    return re.sub(r"\s+", " ", unescape(page.content.decode()))


@pytest.fixture(autouse=True)
def ended() -> None:
    """Jobs with neither host nor next run."""
    job_type()
    now = clock.now()
    jobs(2, status="succeeded", last_end="succeeded", held_at=now, finished_at=now)


def test_column_without_a_value_is_left_out(admin_client: Client) -> None:
    assert headings(admin_client.get(JOBS)) == [
        *("number", "type", "status", "tries", "took", "age")
    ]
    jobs(1, key="order-1", host="vm")
    assert headings(admin_client.get(JOBS)) == [
        *("number", "type", "key", "status", "tries", "next run", "took", "age")
    ]


def test_chosen_columns_are_shown_empty_or_not_and_the_number_always(admin_client: Client) -> None:
    page = admin_client.get(JOBS, {"_cols": "took,key,priority"})
    assert headings(page) == ["number", "key", "took", "priority"]
    assert "0 s" in text_of(page)
    form = re.findall(r'name="_cols" value="(\w+)"( checked)?( disabled)?>', page_of(page))
    assert ("number", " checked", " disabled") in form
    assert {name for name, checked, _disabled in form if checked} == {
        *("number", "key", "priority", "took")
    }


def test_every_column_of_every_list_that_offers_some_can_be_drawn(admin_client: Client) -> None:
    archived()
    factories.once_task(factories.user("uid_ann"))
    pull.answer_pull("uid_ann")
    for name in ("jobs/job", "jobs/archivedjob", "dispatch/dispatch", "dispatch/archiveddispatch"):
        page = admin_client.get(f"/admin/{name}/")
        names = [each.name for each in page.context["cl"].column_choices]
        page = admin_client.get(f"/admin/{name}/", {"_cols": ",".join(names)})
        assert len(headings(page)) == (len(names) if page.context["cl"].result_list else 0), name
        exported = admin_client.get(f"/admin/{name}/export/", {"_cols": ",".join(names)})
        assert exported.status_code == 200


def test_form_sends_one_parameter_and_keeps_the_filters(admin_client: Client) -> None:
    answer: Any = admin_client.get(f"{JOBS}?_cols=key&_cols=took&status=succeeded")
    assert answer["Location"] == f"{JOBS}?_cols=key,took&status=succeeded"
    page = page_of(admin_client.get(answer["Location"]))
    assert '<input type="hidden" name="status" value="succeeded">' in page
    assert 'href="?status=succeeded">Usual columns' in page


def test_form_without_a_tick_asks_for_the_number_alone(admin_client: Client) -> None:
    """Without any parameter it would lead to the usual columns, or to the default view."""
    form = page_of(admin_client.get(JOBS))
    fixed = re.findall(r'<input type="hidden" name="_cols" value="(\w+)">', form)
    assert headings(admin_client.get(JOBS, {"_cols": fixed})) == ["number"]


@pytest.mark.parametrize("address", [f"{JOBS}?_cols=nonsense", "/admin/jobs/worker/?_cols=x"])
def test_unknown_column_is_named_and_the_usual_ones_are_shown(
    admin_client: Client, address: str
) -> None:
    page = admin_client.get(address)
    assert "This list has no column" in text_of(page)
    assert headings(page) == headings(admin_client.get(address.partition("?")[0]))


def test_file_has_the_chosen_columns_and_all_without_a_choice(admin_client: Client) -> None:
    def heads(query: str) -> list[str]:
        answer: Any = admin_client.get(f"{JOBS}export/{query}")
        return next(csv.reader(io.StringIO(answer.content.decode("utf-8-sig"))))

    assert heads("?_cols=took,attempts,status") == [
        *("id", "status", "attempts", "max_attempts", "held_at", "finished_at", "error"),
        "error_key",
    ]
    assert len(heads("")) == len(heads("?_cols=nonsense")) > 15


def test_columns_cost_no_statement(admin_client: Client) -> None:
    admin_client.get(JOBS)
    usual = sent_by(lambda: admin_client.get(f"{JOBS}?type=mail"))
    names = "priority,user,stage,worker,submitted_by,scheduled_for,started,finished,took,order"
    chosen = sent_by(lambda: admin_client.get(f"{JOBS}?type=mail&_cols={names}"))
    assert len(chosen) == len(usual)
