"""The pages of flows: the list, the page of one, and the form whose every save makes a version."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from functools import partial
from html import unescape
from typing import Any

import pytest
from django.test import Client

from apps.common.masking import MASK
from apps.flows.models import Flow, FlowRun
from apps.flows.services.start import start
from apps.journal.models import JournalEntry
from apps.journal.services.versions import set_status
from tests import factories
from tests.flow_pages import LIST, PARAMS, STEPS, edit, made, page_url
from tests.flows import job, jobs, ref, task, wait
from tests.jobs import job_type
from tests.pages import form_of, page_of, rows_of, tables_of, text_of
from tests.statements import sent_by


def test_empty_list_leads_to_an_example_that_can_be_saved(admin_client: Client) -> None:
    factories.group("gid_sales", ["uid_ann"])
    job_type("mail")
    [address] = re.findall(r'href="([^"]*\?example=1)"', admin_client.get(LIST).content.decode())

    form = form_of(admin_client.get(address), "steps-was")
    admin_client.post(address, {**form, "_save": "Save"})

    steps = Flow.objects.get().definition["steps"]
    assert [each.get("executor") or each["type"] for each in steps] == ["gid_sales"] * 2 + ["mail"]
    assert "?example=1" not in admin_client.get(LIST).content.decode()


# --- the list and the page ------------------------------------------------------------------------
@pytest.mark.both
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
    assert "5 steps: job, jobs, people, wait …" in text
    assert "1 run" in text
    assert "0 / 1" in text
    set_status(Flow.objects.get(version=2), "retired", actor="admin:vera")
    assert rows_of(admin_client, LIST, status="active") == []
    assert len(rows_of(admin_client, LIST, status="retired")) == 1
    assert "Start…" not in text_of(admin_client.get(LIST))


def test_page_says_each_step_in_words_and_draws_it(admin_client: Client, flow: Flow) -> None:
    page = admin_client.get(page_url(flow))
    steps = next(table for table in tables_of(page) if "Who or what" in str(table[0]))
    rows = {row[1].text: [cell.text for cell in row[2:]] for row in steps[1:]}
    people = "3 of the 2 people of Sales , each at most once"
    assert rows["resize"][1:5] == ["mail · one for each of list.photos", "after list", "–", "95 %"]
    assert rows["Check photos check"][1:5] == [people, "after resize", "2 h", "2"]
    assert rows["gate may fail"][2] == "after Check photos, however it ends"
    assert rows["publish"][2] == "after list, if public (list) = true"
    assert rows["list"][-1] == f"shop = $params.shop token = {MASK}"
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
        "check, time limit: 2 h becomes 1 min.",
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
            "steps-0-given": f"shop = $params.shop\ntoken = {MASK}\nsize = 800",
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


# What is typed at once, and what the page says beside the row: what cannot be read, then what is
# wrong together.
FAULTS = (
    {
        "steps-0-given": ("shop", "It is given: shop is not name = value"),
        "steps-1-each": ("list photos", "For each of: list photos leads to nothing"),
        "steps-1-at_least": ("most", "At least: most is no number"),
        "steps-2-within": ("soon", "Within: soon is no duration"),
        "steps-2-quota": ("x", "How many: x is no whole number"),
        "steps-4-condition": ("public", "Only if: public is no condition"),
    },
    {"steps-0-given": (f"other = {MASK}", "stands for a secret")},
    {"steps-3-name": ("", "Name: ")},
    {"steps-0-needs": ("publish, check", "Waits for the steps: It needs itself")},
    {
        "steps-2-needs": ("nobody", "Waits for the steps: There is no step 'nobody'"),
        "steps-4-condition": ("gone = 1", "Only if: step: There is no step 'gone'"),
    },
    {"steps-4-name": ("list", "Name: Two steps are called list")},
    {
        "steps-1-type": ("fax", "Job type: "),
        "steps-2-executor": ("gid_none", "Who: There is no person or group"),
        "steps-2-template": ("none", "Template: "),
    },
)


def test_all_that_is_wrong_is_said_beside_its_row_and_nothing_is_saved(
    admin_client: Client, flow: Flow, subtests: pytest.Subtests
) -> None:
    for faults in FAULTS:
        typed = {name: text for name, (text, _why) in faults.items()}
        page = edit(admin_client, flow, **typed)
        again, html = form_of(page, "steps-was"), page.content.decode()
        for name, (text, why) in faults.items():
            number = int(name.split("-")[1]) + 1
            beside = re.search(rf'id="step-{number}-faults">(.*?)</ul>', html)
            with subtests.test(name):
                assert beside is not None
                assert why in unescape(beside[1])
                assert f"Step {number}: " in text_of(page)
                assert again[name] == text
    params = edit(admin_client, flow, **{"rows-0-least": "-1"})
    assert "Param 1: Write a whole number" in text_of(params)
    assert Flow.objects.count() == 1


def test_buttons_of_rows_send_the_form_and_keep_what_was_typed(
    admin_client: Client, flow: Flow
) -> None:
    form = form_of(page_of(admin_client, flow), "steps-was")
    for command in ("step-add", "step-up-5", "step-drop-0"):
        page = admin_client.post(f"{LIST}{flow.pk}/change/", {**form, "_draft": command})
        form = form_of(page, "steps-was")
        if command == "step-add":
            form |= {"steps-5-name": "last", "steps-5-kind": "wait", "steps-5-needs": "resize"}
    names = [form[f"steps-{number}-name"] for number in range(5)]
    assert names == ["resize", "check", "gate", "last", "publish"]
    assert "There is no step 'list'" in text_of(page)
    form |= {"steps-0-each": "[1, 2]", "steps-4-condition": ""}
    answer = admin_client.post(f"{LIST}{flow.pk}/change/", {**form, "_save": "Save"})
    assert answer.status_code == 302
    steps = Flow.objects.get(version=2).definition["steps"]
    assert [step["name"] for step in steps] == names
    assert steps[3] == {"name": "last", "kind": "wait", "needs": ["resize"]}


def test_live_part_is_the_drawing_and_the_faults_of_each_row(
    admin_client: Client, flow: Flow
) -> None:
    form = form_of(page_of(admin_client, flow), "steps-was")
    sent = {**form, "steps-2-needs": "list", "steps-1-type": "fax", "_draft": "1"}
    html = admin_client.post(f"{LIST}{flow.pk}/change/", sent).content.decode()
    assert 'id="flow-check"' in html
    admin_client.cookies["django_language"] = "zh-hans"
    check = admin_client.post(f"{LIST}{flow.pk}/change/", {**form, "_draft": "1"})
    assert "共 4 层，与 v1 相比没有改动。" in text_of(check)
    assert html.count("graph-box") == len(STEPS)
    assert re.search(r'id="step-2-faults"><li><bdi>Job type: ', html)
    assert 'id="step-3-faults"></ul>' in html
    assert "steps-0-name" not in html
    assert Flow.objects.count() == 1


def test_json_and_rows_show_the_same_and_masks_keep_their_secrets(
    admin_client: Client, flow: Flow
) -> None:
    url = f"{LIST}{flow.pk}/change/"
    form = form_of(page_of(admin_client, flow), "steps-was") | {"steps-1-max": "7"}
    page = admin_client.post(url, {**form, "_draft": "tab-json"})
    form = form_of(page, "definition")
    assert "steps-was" not in form
    shown = json.loads(form["definition"])
    assert shown["steps"][0]["context"]["token"] == MASK
    assert shown["steps"][1]["max"] == 7
    shown["steps"].insert(0, shown["steps"].pop(3))
    page = admin_client.post(
        url, {**form, "definition": json.dumps(shown), "_draft": "tab-steps", "by": "json"}
    )
    form = form_of(page, "steps-was")
    assert form["steps-0-name"] == "gate"
    assert admin_client.post(url, {**form, "_save": "Save"}).status_code == 302
    steps = Flow.objects.get(version=2).definition["steps"]
    assert steps[0]["name"] == "gate"
    assert steps[1]["context"]["token"] == "s3cret-key"
    assert steps[2]["max"] == 7


WRONG_JSON = (
    ("{", "The text is not JSON"),
    ("[]", "Write a JSON object"),
    ('{"steps": [{"name": "a", "kind": "fly"}]}', "is no kind of a step"),
    (json.dumps({"steps": [wait(f"w{n}") for n in range(101)]}), "100"),
    (json.dumps({"steps": [job("a", context={"text": "x" * 262_144})]}), "262144"),
    ('{"steps": [{"name": "a", "kind": "wait", "more": 1}]}', "more"),
    ('{"steps": [{"name": ["a"], "kind": "wait"}]}', "steps[0].name"),
    ('{"params": 5, "steps": [{"name": "a", "kind": "wait"}]}', "params"),
    (json.dumps({"steps": [job("a", context={"x": {"$y": 1}})]}), "makes it a reference"),
)


def test_json_that_is_no_definition_is_refused_beside_its_box_with_the_text_kept(
    admin_client: Client, flow: Flow, subtests: pytest.Subtests
) -> None:
    form = form_of(admin_client.get(f"{LIST}{flow.pk}/change/?tab=json"), "definition")
    for text, why in WRONG_JSON:
        sent = {**form, "by": "json", "definition": text, "_save": "Save"}
        page = admin_client.post(f"{LIST}{flow.pk}/change/", sent)
        with subtests.test(why):
            assert why in text_of(page)
            assert form_of(page, "definition")["definition"] == text
            shown = admin_client.post(
                f"{LIST}{flow.pk}/change/", {**sent, "_draft": "tab-steps", "_save": ""}
            )
            assert shown.status_code == 200
    assert Flow.objects.count() == 1


def test_what_rows_cannot_say_is_shown_as_json_with_the_reason(
    admin_client: Client, flow: Flow
) -> None:
    many = made("many", {"steps": [wait(f"w{n}") for n in range(41)]})
    page = page_of(admin_client, many)
    assert "It is shown as JSON: It has more than 40 steps" in text_of(page)
    form = form_of(page, "definition")
    assert len(json.loads(form["definition"])["steps"]) == 41
    answer = admin_client.post(f"{LIST}{many.pk}/change/", {**form, "_save": "Save"})
    assert answer.status_code == 302


def test_somebody_elses_version_meanwhile_is_a_conflict(admin_client: Client, flow: Flow) -> None:
    form = form_of(page_of(admin_client, flow), "steps-was")
    made(title="By vera")
    answer = admin_client.post(
        f"{LIST}{flow.pk}/change/", {**form, "title": "Mine", "_save": "Save"}
    )
    assert answer.status_code == 409
    text = text_of(answer)
    assert "vera changed this" in text
    assert "Mine" in text
    assert [*Flow.objects.order_by("version").values_list("title", flat=True)][1:] == ["By vera"]


def test_copy_keeps_what_is_stored_and_what_was_typed(admin_client: Client, flow: Flow) -> None:
    form = form_of(page_of(admin_client, flow), "steps-was") | {"steps-2-title": "Typed"}
    add = f"{LIST}add/?copy={flow.pk}"
    form = form_of(admin_client.post(add, {**form, "_draft": "copy"}), "steps-was")
    assert form["steps-2-title"] == "Typed"
    sent = {**form, "name": "night-2", "_save": "Save"}
    for _again in range(2):
        answer = admin_client.post(add, sent)
        copied = Flow.objects.get(name="night-2")
        assert answer["Location"] == page_url(copied)
    assert copied.definition["steps"][0] == STEPS[0]
    assert copied.definition["steps"][2]["title"] == "Typed"
    again = admin_client.post(add, {**form_of(admin_client.get(add), "steps-was"), "name": "night"})
    assert "exists already" in text_of(again)


def test_pages_of_a_flow_ask_as_often_for_sixteen_steps_as_for_four(
    admin_client: Client, flow: Flow
) -> None:
    for n in range(4):
        job_type(f"type-{n}")
        factories.user(f"uid_{n}")
        factories.template(f"form-{n}", {"type": "object"})
    counts = []
    for many in (1, 4):
        steps = [
            step
            for n in range(many)
            for step in (
                job(f"job{n}", type=f"type-{n}", context={"token": "s3cret"}),
                jobs(f"jobs{n}", [*range(many)], max=100),
                task(f"task{n}", f"uid_{n}", template=f"form-{n}"),
                wait(f"wait{n}", needs=[f"task{n}"]),
            )
        ]
        row = made(f"wide{many}", {"steps": steps})
        start(row.name)
        form = form_of(page_of(admin_client, row), "steps-was")
        # Names that there are not are looked for together, too.
        unknown = {name: f"no-{name}" for name in form if re.search("-(type|template)$", name)}
        edits = f"{page_url(row)}change/"
        looks: list[Callable[[], Any]] = [
            partial(admin_client.get, page_url(row)),
            partial(admin_client.get, f"{page_url(row)}?tab=versions"),
            partial(admin_client.get, edits),
            partial(admin_client.get, f"{page_url(row)}start/"),
            partial(admin_client.post, edits, {**form, "_draft": "1"}),
            partial(admin_client.post, edits, {**form, "_draft": "step-up-1"}),
            partial(admin_client.post, edits, {**form, **unknown, "_draft": "1"}),
        ]
        assert [look().status_code for look in looks] == [200] * len(looks)
        counts.append([len(sent_by(look)) for look in looks])
    assert counts[0] == counts[1]
