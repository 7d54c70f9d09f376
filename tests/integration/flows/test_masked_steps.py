"""Secrets in what steps are given, made of and ask for: through pages, the form and REST."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from django.test import Client

from apps.common.masking import MASK
from apps.flows.models import Flow, FlowRun
from apps.flows.services.start import start
from tests import factories
from tests.clients import JsonClient
from tests.flow_pages import LIST, edit, made, page_url
from tests.flows import job, jobs, ref, wait
from tests.jobs import job_type
from tests.pages import form_of, page_of

pytestmark = pytest.mark.django_db

SECRET = "s3cret"
EACH = [{"url": "a", "token": f"{SECRET}1"}, f"password={SECRET}2"]
# Of a secret by its name, by a name above it, and in a text.
CONDITIONS: tuple[dict[str, Any], ...] = (
    {"step": "params", "path": "password", "equals": f"{SECRET}3"},
    {"step": "params", "path": "credentials.of[0]", "equals": f"{SECRET}4"},
    {"step": "first", "path": "note", "equals": f"pin={SECRET}5"},
)
STEPS = [
    job("first", context={"token": f"{SECRET}6"}),
    jobs("each", EACH, max=9),
    *({**wait(f"if{n}", needs=["first"]), "if": each} for n, each in enumerate(CONDITIONS)),
]


@pytest.fixture
def flow() -> Flow:
    factories.group("gid_sales", ["uid_ann"])
    job_type("mail")
    return made(definition={"steps": STEPS})


def steps_of(version: int) -> Any:
    return Flow.objects.get(version=version).definition["steps"]


def test_no_page_shows_what_steps_are_made_of_and_ask_for(
    admin_client: Client, flow: Flow, subtests: pytest.Subtests
) -> None:
    run = start("night", {"credentials": {}}).id
    other = json.loads(json.dumps(STEPS).replace(SECRET, f"other-{SECRET}"))
    newer = made(definition={"steps": other})
    for address in (
        *(f"{page_url(each)}{query}" for each in (flow, newer) for query in ("", "?tab=versions")),
        *(f"{page_url(newer)}{more}" for more in ("?tab=json", "start/")),
        *(f"{LIST}{newer.pk}/change/", f"{LIST}add/?copy={newer.pk}", LIST),
        f"/admin/flows/flowrun/{run}/change/",
    ):
        with subtests.test(address):
            page = admin_client.get(address, follow=True)
            assert page.status_code == 200
            assert SECRET not in page.content.decode()
    versions = admin_client.get(f"{page_url(newer)}?tab=versions").content.decode()
    assert "if0, only if" in versions


def test_form_keeps_them_where_their_masks_were_left(admin_client: Client, flow: Flow) -> None:
    edit(admin_client, flow, **{"steps-1-max": "8"})
    assert steps_of(2) == [STEPS[0], {**STEPS[1], "max": 8}, *STEPS[2:]]
    newest = Flow.objects.get(version=2)
    shown = form_of(page_of(admin_client, newest), "steps-was")
    assert shown["steps-2-condition"] == f"params.password = {MASK}"

    each = json.dumps([EACH[0] | {"token": MASK}, "new"], ensure_ascii=False)
    edit(admin_client, newest, **{"steps-1-each": each})
    assert steps_of(3)[1]["each"] == [EACH[0], "new"]
    for name, text in (
        ("steps-1-each", json.dumps([MASK])),
        ("steps-2-condition", f"params.other = {MASK}"),
        ("steps-4-condition", f"first.note = x {MASK}"),
    ):
        page = edit(admin_client, Flow.objects.get(version=3), **{name: text})
        assert "stands for a secret" in page.content.decode()
    assert Flow.objects.count() == 3

    # By way of the JSON, too, where they stand in another order.
    address = f"{LIST}{Flow.objects.get(version=3).pk}/change/"
    form = form_of(admin_client.get(address), "steps-was")
    page = admin_client.post(address, {**form, "_draft": "tab-json"})
    assert SECRET not in page.content.decode()
    form = form_of(page, "definition")
    definition = json.loads(form["definition"])
    definition["steps"].reverse()
    text = json.dumps(definition)
    admin_client.post(address, {**form, "definition": text, "_save": "Save"})
    assert steps_of(4) == steps_of(3)[::-1]


def test_keys_read_masks_and_send_them_back(
    make_key: Callable[..., str], flow: Flow, subtests: pytest.Subtests
) -> None:
    key = JsonClient(make_key(scopes=("read", "operate", "submit")))
    run = key.post("/api/v1/flow-runs/", {"flow": "night"}).json()["id"]
    key.post(f"/api/v1/flow-runs/{run}/cancel/", {"reason": f"password: {SECRET}7"})
    key.patch("/api/v1/job-types/mail/", {"paused": True, "pause_reason": f"pin={SECRET}8"})
    for path in ("flows/", "flows/night/", "flow-runs/", f"flow-runs/{run}/", "job-types/"):
        with subtests.test(path):
            assert SECRET not in key.get(f"/api/v1/{path}").content.decode()

    kept = key.get("/api/v1/job-types/mail/").json()["pause_reason"]
    again = key.patch("/api/v1/job-types/mail/", {"pause_reason": kept, "title": "Mail"})
    assert again.json()["pause_reason"] == f"pin={MASK}"

    shown = key.get("/api/v1/flows/night/").json()["definition"]
    shown["steps"].reverse()
    put = key.put("/api/v1/flows/night/", {"definition": shown})
    assert put.status_code == 200 and SECRET not in put.content.decode()
    assert steps_of(2) == STEPS[::-1]
    for steps in (
        [{**STEPS[0], "context": {"token": MASK}}],
        [jobs("each", [MASK], max=9)],
        [{**wait("if0"), "if": {**CONDITIONS[0], "equals": MASK}}],
    ):
        refused = key.post("/api/v1/flow-runs/", {"definition": {"steps": steps}})
        assert refused.status_code == 400
        assert refused.json()["errors"][0]["field"].startswith("definition.steps.")
    assert FlowRun.objects.count() == 1


# What a step is given of the params of the run, and where a secret would be shown.
MOVES: tuple[tuple[str, Any, str], ...] = (
    ("context", {"note": ref("params", "token")}, "context.note"),
    ("context", {"a": [1, {"b": ref("params", "credentials.user")}]}, "context.a[1].b"),
    ("context", {"note": ref("first", "list[0].pin")}, "context.note"),
    ("each", ref("params", "credentials.of"), "each"),
    ("each", [{"url": ref("params", "password")}], "each[0].url"),
    ("context", {"token": ref("params", "token"), "pin": [ref("params", "password")]}, ""),
    ("context", {"note": ref("params", "tokens"), "all": ref("params")}, ""),
)


def test_no_step_is_given_a_secret_under_a_name_that_shows_it(
    make_key: Callable[..., str], admin_client: Client, subtests: pytest.Subtests
) -> None:
    """Whoever sees masks could else read in a job what another job has been given or has found."""
    job_type("mail")
    key = JsonClient(make_key(scopes=("read", "operate", "submit")))
    sees_all = JsonClient(make_key(scopes=("operate", "submit", "payload")))
    for number, (name, given, place) in enumerate(MOVES):
        with subtests.test(f"{name} {given}"):
            made_of = jobs("next", [1], max=9) | {"needs": ["first"], name: given}
            definition = {"steps": [job("first"), made_of]}
            bodies = {
                "/api/v1/flow-runs/": {"definition": definition},
                "/api/v1/flows/": {"name": f"flow{number}", "definition": definition},
            }
            for address, body in bodies.items():
                answer = key.post(address, body)
                assert answer.status_code == (400 if place else 201)
                if place:
                    [error] = answer.json()["errors"]
                    assert error["field"] == f"definition.steps.next.{place}"
                    assert "is masked, and would be shown" in error["message"]
                    # Keys that see secrets may show them.
                    assert sees_all.post(address, body).status_code == 201

    # One that is there already may stay, and goes nowhere else.
    flow = Flow.objects.get(name="flow0")
    edit(admin_client, flow, **{"steps-1-max": "8"})
    newest = Flow.objects.get(name="flow0", version=2)
    assert newest.definition["steps"][1]["context"] == {"note": ref("params", "token")}
    page = edit(admin_client, newest, **{"steps-1-given": "other = $params.token"})
    assert "is masked, and would be shown" in page.content.decode()
    assert Flow.objects.filter(name="flow0").count() == 2
