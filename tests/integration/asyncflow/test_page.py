"""The page of asyncflow: addresses, switches, last callers and examples of every dialect. S2.12."""

from __future__ import annotations

import html
import json
import re
from collections.abc import Callable
from typing import Any

import pytest
from django.test import Client

from apps.access.models import ApiClient
from apps.asyncflow.dialects import BY_NAME
from apps.jobs.services.register import forget_seen
from tests.frozen import FrozenClock
from tests.integration.asyncflow.worker_calls import Calls
from tests.jobs import job_type
from tests.pages import tables_of

pytestmark = pytest.mark.django_db
URL = "/admin/jobs/worker/asyncflow/"


@pytest.fixture(autouse=True)
def lark(frozen_clock: FrozenClock) -> None:
    job_type("lark", handler="", stages=["*"])


def shown(client: Client) -> str:
    answer: Any = client.get(URL, headers={"host": "tasks.example.org"})
    assert answer.status_code == 200
    return html.unescape(answer.content.decode())


@pytest.fixture(autouse=True)
def named(settings: Any) -> None:
    settings.ALLOWED_HOSTS = ["tasks.example.org", "testserver"]


def part(text: str, name: str) -> str:
    """What the page says of one dialect."""
    return text.split(f'<div class="panel" id="{name}"')[1].split('<div class="panel"')[0]


def test_each_dialect_has_its_address(admin_client: Client, settings: Any) -> None:
    settings.ASYNCFLOW_PORTS = (("g1", 41555),)
    site = "http://<client-id>:<secret>@tasks.example.org/asyncflow"

    text = shown(admin_client)

    for name, address in {"g2": "/g2", "g1": "/g1", "java": "/java", "api": ""}.items():
        assert f"<code>{site}{address}</code>" in part(text, name)
        assert ("http://127.0.0.1:41555" in part(text, name)) == (name == "g1")


def test_callers_are_shown_by_dialect_with_what_they_run(
    admin_client: Client, make_key: Callable[..., str], frozen_clock: FrozenClock
) -> None:
    key = make_key(name="Larks")
    calls = Calls("g1", key)
    for _ in range(2):
        calls.create()
    calls.hold()
    Calls("java", make_key(name="Drones")).hold()
    frozen_clock.advance(seconds=30)

    text, tables = shown(admin_client), tables_of(admin_client.get(URL))

    assert f"{key.partition('.')[0]}@127.0.0.1" in part(text, "g1")
    rows = [[cell.text for cell in row] for table in tables for row in table]
    callers = [row[1:] for row in rows if "@127.0.0.1" in row[0]]
    assert [(name, running) for name, _, running in callers] == [("Larks", "2"), ("Drones", "0")]
    assert all("30 s ago" in at for _, at, _ in callers)
    assert "1 caller within a day" in part(text, "java")
    assert "Nobody has called within a day." in part(text, "g2")
    links = re.findall(r'href="(/admin/jobs/worker/\d+/change/)', text)
    assert [admin_client.get(link).status_code for link in links] == [200, 200]
    assert "asyncflow g1" in admin_client.get(links[0]).content.decode()


def test_worker_that_speaks_two_dialects_stands_in_both(
    admin_client: Client, make_key: Callable[..., str]
) -> None:
    key = make_key()
    for name in ("g1", "g2"):
        Calls(name, key).hold()
        forget_seen()

    text = shown(admin_client)

    for name in ("g1", "g2"):
        assert "1 caller within a day" in part(text, name)


def test_switches_are_shown(
    admin_client: Client, settings: Any, make_key: Callable[..., str]
) -> None:
    assert "may call asyncflow without a key" not in shown(admin_client)
    assert "holds what it returns.</p>" not in shown(admin_client)
    settings.ASYNCFLOW_LOOPBACK_CLIENT = make_key(name="Larks").partition(".")[0]
    settings.ASYNCFLOW_LIST_HOLDS = True

    text = shown(admin_client)

    assert "may call asyncflow without a key" in text
    assert f'change/">{ApiClient.objects.get().name}</a>' in text
    assert [name for name in BY_NAME if "holds what it returns.</p>" in part(text, name)] == ["g1"]


def test_examples_are_what_the_dialect_answers(
    admin_client: Client, make_key: Callable[..., str]
) -> None:
    text = shown(admin_client)
    for name, dialect in BY_NAME.items():
        task, settings = map(
            json.loads, re.findall(r'<pre class="json">(.*?)</pre>', part(text, name), re.DOTALL)
        )
        calls = Calls(name, make_key())
        calls.create()
        [given] = calls.ask("hold", task_type="lark")[1]
        assert [*task] == [*given]
        assert [*settings] == [*calls.ask("settings")[1][0]]
        assert task[dialect.spelled("task_id")].startswith("249880717948497921h2_lark_")
