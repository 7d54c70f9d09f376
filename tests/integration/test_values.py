"""Values that databases, forms and files like to change, through every door: stored as they were
given, and found alike on SQLite and on MariaDB."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable
from typing import Any

import pytest
from django.test import Client

from apps.dispatch.models import OnceTask
from apps.jobs.models import Job
from taskplatform import sdk
from tests import factories
from tests.clients import JsonClient
from tests.jobs import job_type
from tests.pages import form_of

pytestmark = [pytest.mark.django_db, pytest.mark.both]

TEXTS = (
    *("🔥 sale", "🍀 lucky", "Filiale 𠮷野", "Filiale 吉野", "Straße", "STRASSE", "Café", "Cafe"),
    *("Cafe\u0301", "Äpfel", "äpfel", "Я", "я", "100%", "100_", "=1+2", "'quoted'", "a\\b"),
)
# What is searched for, and the texts that have it: case is folded, and nothing else.
SEARCHES = {
    "🔥": {"🔥 sale"},
    "𠮷": {"Filiale 𠮷野"},
    "filiale": {"Filiale 𠮷野", "Filiale 吉野"},
    "strasse": {"STRASSE"},
    "SS": {"STRASSE"},
    "ß": {"Straße"},
    "CAFÉ": {"Café"},
    "cafe": {"Cafe", "Cafe\u0301"},
    "ÄPFEL": {"Äpfel", "äpfel"},
    "Я": {"Я", "я"},
    "%": {"100%"},
    "_": {"100_"},
    "\\": {"a\\b"},
    "'q": {"'quoted'"},
}
# JSON values as they are shown, which is how they are searched for.
SHOWN = {
    "9007199254740993": 2**53 + 1,
    "0.30000000000000004": 0.1 + 0.2,
    "1e-07": 1e-7,
    "-2.5e+22": -2.5e22,
    "116.39742799999999": 116.39742799999999,
    "1.0": 1.0,
    "-0.0": -0.0,
    "true": True,
    "null": None,
    **{text: text for text in TEXTS},
    "blank ": "blank ",
    " ": " ",
}
PARAMS = {f"v{place}": value for place, value in enumerate(SHOWN.values())}
ONCE = "/admin/dispatch/oncetask/"


def by_rest(api: JsonClient, admin: Client) -> None:
    for title in TEXTS:
        body = {"title": title, "executor": "gid_shops", "params": PARAMS}
        answer = api.post("/api/v1/once-tasks/", body)
        assert answer.status_code == 201, answer.content


def by_form(api: JsonClient, admin: Client) -> None:
    for title in TEXTS:
        form = form_of(admin.get(f"{ONCE}add/"), "title")
        sent = {"title": title, "executor": "gid_shops", "params-raw": json.dumps(PARAMS)}
        assert admin.post(f"{ONCE}add/", {**form, **sent}).status_code == 302


def by_file(api: JsonClient, admin: Client) -> None:
    lines = io.StringIO()
    writer = csv.writer(lines)
    writer.writerow(["title", "executor", "params"])
    writer.writerows([title, "gid_shops", json.dumps(PARAMS)] for title in TEXTS)
    trial = admin.post(f"{ONCE}import/", {"text": lines.getvalue()})
    assert admin.post(f"{ONCE}import/", form_of(trial, "confirmed")).status_code == 302


def exactly(value: Any) -> str:
    """JSON, which tells 1 from 1.0 and from true."""
    return json.dumps(value, sort_keys=True)


def test_task_keeps_what_it_was_given_and_is_found_by_it(
    make_key: Callable[..., str],
    admin_client: Client,
    subtests: pytest.Subtests,
) -> None:
    api = JsonClient(make_key())
    factories.group("gid_shops", ["uid_ann"])
    for plan in (by_form, by_file, by_rest):
        with subtests.test(plan.__name__):
            OnceTask.objects.all().delete()
            plan(api, admin_client)
            shown = api.get("/api/v1/once-tasks/", limit=100).json()["results"]
            assert [task["title"] for task in reversed(shown)] == [*TEXTS]
            assert {exactly(task["params"]) for task in shown} == {exactly(PARAMS)}
    for wanted, expected in SEARCHES.items():
        with subtests.test(search=wanted):
            listed = admin_client.get(ONCE, {"q": wanted}).context["cl"].result_list
            assert {task.title for task in listed} == expected
            body = {"verb": "pause", "filter": {"text": wanted}, "dry_run": True}
            told = api.post("/api/v1/once-tasks/bulk/", body).json()
            titles = OnceTask.objects.in_bulk([int(each["id"]) for each in told["samples"]])
            assert {task.title for task in titles.values()} == expected
            file = admin_client.get(f"{ONCE}export/", {"q": wanted}).content.decode("utf-8-sig")
            assert len(list(csv.DictReader(io.StringIO(file)))) == len(expected)


def test_job_keeps_what_the_client_library_sends_and_is_found_by_it(
    make_key: Callable[..., str],
    admin_client: Client,
    monkeypatch: pytest.MonkeyPatch,
    subtests: pytest.Subtests,
) -> None:
    api = JsonClient(make_key())

    def send(_client: sdk.Client, path: str, payload: bytes | None, _method: str) -> Any:
        """As over HTTP, without a server between."""
        answer = api.request("GET" if payload is None else "POST", path, raw=payload or b"")
        return sdk._Raw(answer.status_code, answer.headers, answer.content)

    monkeypatch.setattr(sdk.Client, "_send", send)
    job_type("mail")
    client = sdk.Client("http://127.0.0.1:1", "none.none")

    numbers = {shown: client.submit("mail", {"v": SHOWN[shown]}).id for shown in SHOWN}

    for shown, number in numbers.items():
        with subtests.test(value=shown):
            assert exactly(Job.objects.get(pk=number).context) == exactly({"v": SHOWN[shown]})
            context = api.get(f"/api/v1/jobs/{number}/").json()["context"]
            assert exactly(context) == exactly({"v": SHOWN[shown]})
            found = api.get("/api/v1/jobs/", where=f"context.v:{shown}").json()["results"]
            assert [job["id"] for job in found] == [number]
