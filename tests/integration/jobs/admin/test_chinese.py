"""D.6: mistakes are shown in Chinese to a person who reads Chinese."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse

from apps.jobs.handlers import registry
from apps.jobs.models import JobType
from apps.jobs.models.job_type import BUILT_IN
from apps.jobs.rules import transitions as t
from tests import factories
from tests.integration.jobs.admin.pages import LIST, TYPES
from tests.jobs import HERE, end, job_type, jobs, row, take
from tests.pages import english_in, form_of, text_of

pytestmark = pytest.mark.django_db

ADD, ADD_TYPE = f"{LIST}add/", f"{TYPES}add/"
WRONG_SCHEMAS = {
    "no object": {"type": "array"},
    "no schema": {"type": "object", "properties": {"a": {"type": "text"}}},
    "nothing there": {"type": "object", "allOf": [{"$ref": "#/nowhere"}]},
    "no schema there": {"type": "object", "title": "a", "allOf": [{"$ref": "#/title"}]},
    "elsewhere": {"type": "object", "allOf": [{"$ref": "https://example.org/a"}]},
    "endless": {"type": "object", "allOf": [{"$ref": "#"}]},
    "other dialect": {"type": "object", "$schema": "http://json-schema.org/draft-07/schema#"},
    "deep": {"type": "object", "default": json.loads("[" * 25 + "]" * 25)},
    "wide": {"type": "object", "default": dict.fromkeys(map(str, range(1100)))},
    "huge number": {"type": "object", "default": 2**70},
    "bad text": {"type": "object", "title": "\x00"},
}
NO_JSON = (
    *("", "[]", '{"a":1', "{'a': 1}", '{"a": 1, "a": 2}', '{"a": NaN}', '{"a": "\\x"}', "{} {}"),
    *('{"a": "\\ud800"}', '{"a": 99999999999999999999}'),
)
# Params that a schema refuses by each keyword that a form can meet.
RULES: dict[str, Any] = {
    "type": "object",
    "properties": {
        "N": {"type": "integer", "minimum": 5, "multipleOf": 2},
        "M": {"exclusiveMinimum": 5},
        "FEW": {"maxItems": 1, "uniqueItems": True},
        "TEXT": {"pattern": "^a", "maxLength": 2},
        "KIND": {"enum": ["a", "b"]},
        "DAY": {"type": "string", "format": "date"},
        "OTHER": {"anyOf": [{"type": "string"}, {"type": "null"}]},
        "ONE": {"oneOf": [True, {"type": "integer"}]},
        "NONE": {"not": {"type": "integer"}},
    },
    "required": ["SHOP"],
    "dependentRequired": {"N": ["NAME"]},
    "additionalProperties": False,
}
MISFIT = {
    "N": 1,
    "M": 5,
    "FEW": [1, 1],
    "TEXT": "bcd",
    "KIND": "c",
    "DAY": "2.3.",
    "OTHER": 1,
    "ONE": 1,
    "NONE": 1,
    "MORE": 1,
}


@pytest.fixture
def reader(admin_client: Client) -> Client:
    admin_client.defaults["HTTP_ACCEPT_LANGUAGE"] = "zh-hans"
    return admin_client


def sent(client: Client, url: str, holding: str, **typed: Any) -> Any:
    """The page that comes back when the form is sent with this typed in."""
    return client.post(url, {**form_of(client.get(url), holding), **typed}, follow=True)


def complaints(page: Any) -> list[str]:
    """What the page says against the fields of its form, and above them."""
    form = page.context["adminform"].form
    forms = [form, *([form.params_form] if hasattr(form, "params_form") else [])]
    return [text for each in forms for found in each.errors.values() for text in found]


def assert_chinese(page: Any, *, many: int = 0) -> None:
    """All the mistakes are shown in Chinese, with no English but names."""
    assert english_in(page) == []
    texts = complaints(page) if many else []
    assert len(texts) >= many, texts
    assert [each for each in texts if not re.search("[\u4e00-\u9fff]", each)] == []


def test_new_job_with_everything_wrong(reader: Client) -> None:
    job_type(params_schema=RULES, unique="always", stages=["a"])
    typed = {
        "key": "a b",
        "user_id": "ü",
        "priority": "101",
        "max_attempts": "0",
        "run_at_0": "2300-01-01",
        "run_at_1": "12:00",
        "params-uses_raw": "on",
        "params-raw": json.dumps(MISFIT),
    }

    page = sent(reader, ADD, "key", **typed)

    assert_chinese(page, many=16)


def test_context_that_is_no_json(reader: Client, subtests: pytest.Subtests) -> None:
    job_type(params_schema={"type": "object", "required": ["shop"]})
    form = {**form_of(reader.get(ADD), "key"), "params-uses_raw": "on"}
    for text in NO_JSON:
        with subtests.test(text=text):
            assert_chinese(reader.post(ADD, {**form, "params-raw": text}, follow=True))


def test_type_with_everything_wrong(reader: Client) -> None:
    typed = {
        "name": "a b",
        "stages": "a b\nc\nc",
        "allowed_hosts": "\n".join(f"h{n}" for n in range(200)),
        "max_attempts": "0",
    }

    page = sent(reader, ADD_TYPE, "max_attempts", **typed)

    assert_chinese(page, many=5)


def test_type_with_a_wrong_schema(reader: Client, subtests: pytest.Subtests) -> None:
    form = {**form_of(reader.get(ADD_TYPE), "max_attempts"), "name": "new"}
    for name, schema in WRONG_SCHEMAS.items():
        with subtests.test(schema=name):
            typed = {**form, "params_schema": json.dumps(schema)}
            assert_chinese(reader.post(ADD_TYPE, typed, follow=True))
    assert not JobType.objects.exists()


def test_act_on_a_job_that_is_refused(reader: Client, subtests: pytest.Subtests) -> None:
    job_type(allowed_hosts=[HERE.host])
    factories.worker("b:1", host="host-b")
    (number,) = jobs()
    end(take(1)[0], t.FAILED, retry="never", error="…")
    for action in ("retry_on_host", "run_now", "mark_done", "cancel", "force_cancel"):
        with subtests.test(action=action):
            given = {"retry_on_host": {"host": "host-b"}, "mark_done": {"reason": ""}}
            data = {"ids": str(number), "reason": "x", **given.get(action, {})}

            page = reader.post(f"{LIST}act/{action}/", data, follow=True)

            assert row(number).status == t.FAILED
            assert_chinese(page)


def test_titles_of_types_that_come_with_the_platform_are_chinese(admin_client: Client) -> None:
    declared = [each.settings for each in registry.known.handlers.values()]
    titles = {str(each["title"]) for each in declared if each.get("title") in BUILT_IN}
    assert titles == BUILT_IN.keys()
    job_type("sleep", title="Sleep")
    job_type("sleep.night", title="Sleep well")
    headers = {"Accept-Language": "zh-hans"}
    for url, query in ((TYPES, {}), (reverse("admin:search"), {"term": "sle"})):
        page = admin_client.get(url, query, headers=headers)
        assert "休眠" in text_of(page)
    for url in (TYPES, ADD):
        assert "Sleep well" in text_of(admin_client.get(url, headers=headers))
    assert "sleep · 休眠" in text_of(admin_client.get(ADD, headers=headers))
    assert "Sleep" in text_of(admin_client.get(TYPES))
