"""D.6, I55: what jobs write has words, and mistakes are shown in Chinese to who reads Chinese."""

from __future__ import annotations

import json
import re
from datetime import timedelta
from itertools import chain
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse
from django.utils import translation

from apps.common import clock
from apps.jobs.handlers import registry
from apps.jobs.models import Job, JobType, TypeState
from apps.jobs.models.job_type import BUILT_IN
from apps.jobs.rules import breaker, reasons, transitions
from apps.jobs.rules import transitions as t
from apps.jobs.rules.type_settings import SETTINGS
from apps.jobs.runner.attempt import interrupted
from apps.jobs.services import control, discard, register, types
from apps.jobs.services.register import WorkerKey
from apps.jobs.services.settle import settle
from apps.jobs.services.submit import submit
from apps.jobs.services.type_snapshots import type_snapshots
from apps.journal.admin import words
from apps.journal.admin.entries import ASIDE
from apps.journal.models import JournalEntry
from tests import factories
from tests.frozen import FrozenClock
from tests.integration.jobs.admin.pages import LIST, TYPES
from tests.job_scenes import fill_yard
from tests.jobs import HERE, end, job_type, jobs, rescue, row, take
from tests.pages import english_in, form_of, nothing_drawn, text_of
from tests.pools import fill, pool

pytestmark = pytest.mark.django_db

BY = {"actor": "admin:olga", "reason": "Storm"}


def test_events_states_and_facts_of_jobs_have_words(frozen_clock: FrozenClock) -> None:
    yard = fill_yard(frozen_clock, many=1)
    _step_in(yard.type.name)
    control.cancel(job=yard.running, **BY)
    control.cancel(job=yard.running, force=True, **BY)
    made = types.create_type(name="new", stages=["pack", "send"], actor="admin:olga")
    _settle_stages(frozen_clock)
    types.pause_type(job_type=made, until=clock.now() + timedelta(hours=1), **BY)
    types.resume_type(job_type=made, **BY)
    types.update_type(job_type=made, changes={"lane": "slow", "weight": 4}, actor="admin:olga")
    TypeState.objects.update_or_create(type="new", defaults={"breaker": breaker.OPEN})
    types.reset_breaker(job_type=made, **BY)
    types.delete_type(job_type=types.create_type(name="spare", actor="x"), actor="x")
    spent = jobs(1, "new", attempts=9)
    assert discard.discard(spent, types=type_snapshots(), now=clock.now())

    entries = list(JournalEntry.objects.all())
    assert {entry.event for entry in entries} - words.EVENTS.keys() == set()
    states = {state for entry in entries for state in (entry.from_state, entry.to_state)}
    assert states - words.STATES.keys() == {""}
    facts = {name for entry in entries for name in _names(entry.data or {})}
    assert facts - words.NAMES.keys() - ASIDE - {"was"} == set()
    assert len({entry.event for entry in entries}) > 16


def _step_in(type_name: str) -> None:
    """Every arrow of an operator, once."""
    (number,) = jobs(1, type_name, run_at=clock.now() + timedelta(hours=1))
    job = Job.objects.get(pk=number)
    control.edit(job=job, version=job.version, changes={"priority": 4}, **BY)
    control.run_now(job=job, **BY)
    control.mark_done(job=job, **BY)
    control.retry(job=job, **BY)
    control.cancel(job=job, **BY)


def _settle_stages(frozen: FrozenClock) -> None:
    jobs(2, "new", stage="pack")
    one, two = take(2, types=("new",))
    end(one, "stage_done", stage="send")
    end(two, "released")


def _names(data: dict[str, object]) -> set[str]:
    inner = [value for value in data.values() if isinstance(value, dict)]
    return {*data, *(name for part in inner for name in part)}


def test_every_end_of_an_attempt_and_every_setting_has_a_word() -> None:
    ends = {value for name, value in vars(transitions).items() if name.startswith("END_")}
    assert ends - words.EVENTS.keys() == set()
    assert set(transitions.STATUSES) - words.STATES.keys() == set()
    assert set(SETTINGS) - words.NAMES.keys() == set()


def test_every_reason_that_the_services_write_has_a_template(frozen_clock: FrozenClock) -> None:
    """One job for each way to fail or be discarded, and each way to lose a worker."""
    job_type(max_attempts=9, expires_after_seconds=60, max_processing_seconds=30)

    jobs(run_at=clock.now())
    end(take()[0], "failed", retry="never")
    jobs(run_at=clock.now(), max_attempts=1)
    end(take()[0], "failed")
    jobs(run_at=clock.now())
    held = take()[0]
    rescue(frozen_clock, lost=[WorkerKey("", HERE.name)])
    end(held)
    [again] = take()
    frozen_clock.advance(seconds=29)
    end(again, "failed", retry_after=timedelta())
    take()
    frozen_clock.advance(seconds=30)
    rescue(frozen_clock)
    jobs(run_at=clock.now())
    settle(outcomes=[interrupted(take()[0], timedelta(hours=1))])
    for wish in ("replace", "later"):
        submit("mail", key=wish, unique=True)
        submit("mail", key=wish, unique=True, on_twin=wish, delay=timedelta(hours=1))
    jobs(run_at=clock.now())
    held = take()[0]
    Job.objects.filter(pk=held.id).update(expected_at=clock.now() - timedelta(minutes=2))
    end(held, "failed")
    jobs(run_at=clock.now() - timedelta(minutes=2))
    jobs(run_at=clock.now(), attempts=9)
    discard.discard_exhausted(until=clock.now() + timedelta(seconds=1))
    jobs(run_at=clock.now())
    [held] = take()
    rescue(frozen_clock, lost=[WorkerKey("", HERE.name)], records=lambda: {held.token: {}})
    JobType.objects.all().delete()
    discard.discard_exhausted(until=clock.now() + timedelta(seconds=1))
    register.register(name="a", host="host-a")
    register.lose(workers=[WorkerKey("", "a")], reason=reasons.PROCESS_GONE)
    register.register(name="b", host="host-b")
    frozen_clock.advance(minutes=1)
    register.lose_overdue(now=clock.now())

    pool({"a": 1})
    fill({})

    written = set(JournalEntry.objects.exclude(reason="").values_list("reason", flat=True))
    found = {
        each: {template for made_by, template in words.MESSAGES.items() if made_by.fullmatch(each)}
        for each in written
    }
    assert [each for each, templates in found.items() if not templates] == []
    assert {*reasons.ALL} - {*chain(*found.values())} == set()


@pytest.mark.parametrize(
    ("reason", "shown"),
    [
        ("its worker went offline", "其工作进程离线"),
        ("try 4 of 4 was the last", "第 4 次尝试是最后一次（共 4 次）"),
        ("reported succeeded after its lease had ended", "租约到期后才上报：成功"),
        ("Shop closed: try 4 of 4 was the last", "Shop closed: try 4 of 4 was the last"),
    ],
)
def test_reasons_of_the_platform_are_translated_and_those_of_people_are_not(
    reason: str, shown: str
) -> None:
    with translation.override("zh-hans"):
        assert words.reason_of(reason) == shown
    with translation.override("en"):
        assert words.reason_of(reason) == reason


@pytest.mark.parametrize(
    ("stored", "shown"),
    [
        ("its worker was lost", "its worker went offline"),
        ("attempt 4 of 4 was the last", "try 4 of 4 was the last"),
        (
            "reported succeeded after its lease was lost",
            "reported succeeded after its lease had ended",
        ),
    ],
)
def test_reasons_that_earlier_versions_stored_are_shown_in_the_words_of_now(
    stored: str, shown: str
) -> None:
    with translation.override("en"):
        assert words.reason_of(stored) == shown
    with translation.override("zh-hans"):
        assert words.reason_of(stored) == words.reason_of(shown) != shown


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
    form = page.context_data["adminform"].form
    forms = [form, *([form.params_form] if hasattr(form, "params_form") else [])]
    return [text for each in forms for found in each.errors.values() for text in found]


def assert_chinese(page: Any, *, many: int = 0) -> None:
    """All the mistakes are shown in Chinese, with no English but names."""
    assert english_in(page) == []
    texts = complaints(page) if many else []
    assert len(texts) >= many, texts
    assert_are_chinese(texts)


def assert_are_chinese(texts: list[str]) -> None:
    assert [each for each in texts if not re.search("[\u4e00-\u9fff]", each)] == []


def refuse_in_chinese(client: Client, url: str, form: dict[str, Any]) -> None:
    """The form is refused with complaints in Chinese; its page is not drawn."""
    with nothing_drawn():
        texts = complaints(client.post(url, form))
    assert texts
    assert_are_chinese(texts)


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
            refuse_in_chinese(reader, ADD, {**form, "params-raw": text})


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
            refuse_in_chinese(reader, ADD_TYPE, {**form, "params_schema": json.dumps(schema)})
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
