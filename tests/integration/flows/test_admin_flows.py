"""The pages of flows: the list, the page of one, and the form whose every save makes a version."""

from __future__ import annotations

import re
from typing import Any

import pytest
from django.test import Client

from apps.flows.models import Flow, FlowRun
from apps.flows.services import flows
from apps.flows.services.start import start
from apps.journal.models import JournalEntry
from tests import factories
from tests.flows import job, jobs, ref, task, wait
from tests.jobs import job_type
from tests.pages import form_of, page_of, rows_of, tables_of, text_of

LIST = "/admin/flows/flow/"
STEPS = [
    job("list", context={"shop": ref("params", "shop"), "token": "s3cret-key"}),
    jobs("resize", ref("list", "photos"), at_least=95, unit="percent", max=20),
    task("check", quota=3, title="Check photos", needs=["resize"], within=7200, at_least=2),
    wait("gate", seconds=60, needs=["check"], when="always", optional=True),
    {**job("publish"), "if": {"step": "list", "path": "public", "equals": True}},
]
PARAMS = {
    "type": "object",
    "properties": {"shop": {"type": "string", "title": "Shop"}},
    "required": ["shop"],
}
WHOLE = {"params": PARAMS, "steps": STEPS}


@pytest.fixture
def flow(db: None) -> Flow:
    job_type("mail")
    factories.group("gid_sales", ["uid_ann", "uid_ben"], title="Sales")
    return made()


def made(name: str = "night", definition: Any = WHOLE, **more: Any) -> Flow:
    return flows.put_flow(
        name=name, definition=definition, actor="admin:vera", **{"title": "Night round", **more}
    )


def page_url(row: Flow) -> str:
    return f"{LIST}{row.pk}/"


def edit(client: Client, row: Flow, **typed: str) -> Any:
    """The answer to the form of the flow with these fields typed anew."""
    form = form_of(page_of(client, row), "steps-was")
    return client.post(f"{LIST}{row.pk}/change/", {**form, "_save": "Save", **typed})


# --- the list and the page ------------------------------------------------------------------------
def test_list_says_of_each_flow_its_steps_and_how_it_has_gone(
    admin_client: Client, flow: Flow
) -> None:
    made(title="Night round again")
    start("night", {"shop": "Bern"}, key="open")
    FlowRun.objects.update(status="failed", open_key=None)
    start("night", {"shop": "Bern"})
    text = text_of(admin_client.get(LIST))
    assert [row.version for row in rows_of(admin_client, LIST)] == [2]
    assert "Night round again night" in text
    assert "5 steps: job, jobs, people, wait, job" in text
    assert "1 run" in text
    assert "0 of 1 succeeded" in text
    flows.set_status(flow=Flow.objects.get(version=2), status="retired", actor="admin:vera")
    assert rows_of(admin_client, LIST, status="active") == []
    assert len(rows_of(admin_client, LIST, status="retired")) == 1
    assert "Start…" not in text_of(admin_client.get(LIST))


def test_page_says_each_step_in_words_and_draws_it(admin_client: Client, flow: Flow) -> None:
    page = admin_client.get(page_url(flow))
    steps = next(table for table in tables_of(page) if "Who or what" in str(table[0]))
    rows = {row[1].text: [cell.text for cell in row[2:]] for row in steps[1:]}
    people = "3 of the 2 people of Sales, each at most once"
    assert rows["resize"][1:5] == ["mail · one for each of list.photos", "after list", "–", "95 %"]
    assert rows["Check photos check"][1:5] == [people, "after resize", "2 h", "2"]
    assert rows["gate may fail"][2] == "after Check photos, however it ends"
    assert rows["publish"][2] == "after list, if public (list) = true"
    assert rows["list"][-1] == "shop = $params.shop token = ***"
    html = page.content.decode()
    assert len(re.findall("graph-box", html)) == len(STEPS)
    assert "s3cret-key" not in html
    assert "s3cret-key" not in admin_client.get(f"{page_url(flow)}?tab=json").content.decode()


def test_versions_say_what_each_changed(admin_client: Client, flow: Flow) -> None:
    steps = [{**STEPS[2], "within": 60, "needs": []}, STEPS[0], wait("more")]
    made(definition={"steps": steps})
    text = text_of(admin_client.get(f"{page_url(flow)}?tab=versions"))
    for line in (
        "Takes any params now.",
        "check, within: 7200 becomes 60.",
        "Adds the step more (wait).",
        "Removes the step publish.",
        "Puts the steps in another order.",
    ):
        assert line in text
    old = text_of(admin_client.get(page_url(flow)))
    assert "This is an earlier version." in old
    assert "Start…" not in old


# --- the form -------------------------------------------------------------------------------------
def test_form_sent_untouched_makes_no_version(admin_client: Client, flow: Flow) -> None:
    answer = edit(admin_client, flow)
    assert (answer.status_code, answer["Location"]) == (302, page_url(flow))
    assert Flow.objects.count() == 1


def test_rows_make_the_next_version_and_lose_nothing(admin_client: Client, flow: Flow) -> None:
    answer = edit(
        admin_client,
        flow,
        **{
            "steps-0-name": "find",
            "steps-0-given": "shop = $params.shop\ntoken = ***\nsize = 800",
            "steps-1-each": "$find.photos",
            "steps-2-within": "90 min",
            "steps-2-at_least": "50 %",
            "steps-4-condition": "find.public = yes",
        },
    )
    newest = Flow.objects.get(version=2)
    assert answer["Location"] == page_url(newest)
    found, resize, check, gate, publish = newest.definition["steps"]
    assert found["context"] == {"shop": ref("params", "shop"), "token": "s3cret-key", "size": 800}
    assert resize == {**STEPS[1], "each": ref("find", "photos")}
    assert (check["within"], check["at_least"], check["unit"]) == (5400, 50, "percent")
    assert gate == STEPS[3]
    assert publish["if"] == {"step": "find", "path": "public", "equals": "yes"}
    assert newest.definition["params"] == PARAMS
    assert JournalEntry.objects.latest("id").event == "flow_version"
