"""The page of handlers: what runs in-house, and how others connect."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from django.test import Client

from apps.jobs.admin import handlers
from apps.jobs.api.work import HoldBody, SettleBody
from tests import factories
from tests.pages import tables_of

pytestmark = pytest.mark.django_db
URL = "/admin/jobs/jobtype/handlers/"


def shown(client: Client) -> str:
    answer: Any = client.get(URL, headers={"host": "localhost"})
    assert answer.status_code == 200
    return str(answer.content.decode())


def test_each_handler_is_shown_with_its_function_and_types(admin_client: Client) -> None:
    inside = factories.job_type("receipt", handler="echo")
    outside = factories.job_type("video", handler="")

    [table] = tables_of(admin_client.get(URL, headers={"host": "localhost"}))

    rows = {row[0].text: row for row in table[1:]}
    assert rows["echo"][1].text == "apps.jobs.handlers.ready.echo Return the context."
    assert rows["echo"][2].url == f"/admin/jobs/jobtype/{inside.pk}/change/"
    assert rows["none"][2].url == f"/admin/jobs/jobtype/{outside.pk}/change/"


def test_examples_name_this_site(admin_client: Client) -> None:
    text = shown(admin_client)

    assert "http://localhost/api/v1/jobs/$1/" in text
    assert "Worker(&quot;http://localhost&quot;" in text


def test_examples_are_what_the_api_takes() -> None:
    for code in (handlers._HANDLER, handlers._SDK, handlers._TASKS):
        compile(code, "example", "exec")
    bodies = dict(re.findall(r"call (\w+) '(.*?)'\n", handlers._CURL + "\n", re.DOTALL))
    HoldBody.check(json.loads(bodies["hold"]))
    SettleBody.check(json.loads(bodies["settle"]))
    assert bodies.keys() == {"hold", "heartbeat", "settle"}
