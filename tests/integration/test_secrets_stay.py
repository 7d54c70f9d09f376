"""Secrets stay where they are, through whichever door they are edited: whatever people and keys
send that see masks, no answer, page, export, line of the log or of a sink has a secret in it."""

from __future__ import annotations

import json
import logging
import re
from typing import Any

import pytest
from django.test import Client
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from apps.common.masking import MASK, redact
from apps.dispatch.models import Executor, OnceTask, RotateTask
from apps.jobs.models import Job, JobType
from apps.jobs.services.type_snapshots import forget_type_snapshots
from apps.journal.services.lines import next_lines
from apps.schedules.models import Schedule
from tests import callback, factories
from tests.integration.doors import (
    DOORS,
    ERROR,
    LENIENT,
    MODELS,
    SCHEMAS,
    STRICT,
    Door,
    World,
    acts,
    bulk,
    everything,
    fields,
    files,
    forms,
    hands,
    logged,
    rest_jobs,
    rest_new,
    rest_tasks,
    text_of,
)
from tests.jobs import end, take
from tests.masks import SECRET, edits, has_secret, require_in_place, values

pytestmark = pytest.mark.django_db


@pytest.fixture
def world(make_key: Any, admin_client: Client) -> World:
    return World(make_key(scopes=("read", "operate", "submit")), admin_client)


# --- what holds -----------------------------------------------------------------------------------
def go_through(world: World, door: Door, value: Any, edited: Any) -> None:
    """The door shows no secret of the value, and moves none."""
    last = {model: model.objects.order_by("-pk").first().pk for model in MODELS}
    with logged() as lines:
        answers = door(world, edited)
        logging.getLogger("handler").error("%s", ERROR)
    shown = "".join([*map(text_of, answers), lines()])
    assert SECRET not in shown
    for model, name in MODELS.items():
        for pk, after in model.objects.values_list("pk", name):
            # What is copied has the secrets, too; what is made of masks has none.
            assert pk <= last[model] or door in (bulk, acts, hands) or SECRET not in str(after)
            require_in_place(after, value)


def read_all(world: World) -> None:
    """Nobody is shown a secret afterwards, and no sink is sent one."""
    with logged() as lines:
        shown = [text_of(answer) for answer in everything(world)]
    sent = [line.text for line in next_lines(0, 2**63 - 1)]
    assert [text for text in (*shown, *sent, lines()) if SECRET in text] == []


VALUE = {
    "note": f"token={SECRET}1 and more",
    "list": [f"--token={SECRET}2", "--quiet"],
    "token": f"{SECRET}3",
}
SHOWN = {"note": f"token={MASK} and more", "list": [f"--token={MASK}", "--quiet"], "token": MASK}


# The schema, the edit, and whether that is saved.
CASES: tuple[tuple[Any, Any, bool], ...] = (
    (LENIENT, {**SHOWN, "note": "new"}, True),
    (LENIENT, {**SHOWN, "list": ["--quiet", f"--token={MASK}"]}, False),
    (LENIENT, {**SHOWN, "token": "new", "note": f"x {MASK}", "list": [MASK]}, False),
    (None, {**SHOWN, "name": MASK}, False),
    (STRICT, SHOWN, False),
)
# What each of them edits.
EDITED: tuple[tuple[Door, tuple[Any, ...]], ...] = (
    (rest_tasks, (OnceTask, RotateTask)),
    (rest_jobs, (Job, Schedule)),
    (forms, (OnceTask, RotateTask, Job, Schedule)),
    (files, (OnceTask,)),
)


# What is saved goes through MariaDB, too, and what a strict schema takes.
@pytest.mark.parametrize(
    "case",
    [
        *CASES[1:-1],
        *(pytest.param(each, marks=pytest.mark.both) for each in (CASES[0], CASES[-1])),
    ],
)
def test_doors_take_masks_at_their_places_alone(
    world: World, case: tuple[Any, Any, bool], subtests: pytest.Subtests
) -> None:
    schema, edited, is_saved = case
    for door, models in EDITED:
        with subtests.test(door.__name__):
            world.store(VALUE, schema)
            go_through(world, door, VALUE, edited)
            for model in models:
                after = getattr(model.objects.get(pk=world.number(model)), MODELS[model])
                assert after == ({**VALUE, "note": "new"} if is_saved else VALUE)
    for door in (rest_new, fields):
        with subtests.test(door.__name__):
            world.store(VALUE, schema)
            go_through(world, door, VALUE, edited)


# Shrinking would take minutes. The first example of Hypothesis is the least there is, {}: with
# nothing to show and nothing to move, which is refused here.
@settings(max_examples=1, phases=[Phase.generate], suppress_health_check=[*HealthCheck])
@given(value=values.filter(has_secret), schema=st.sampled_from(SCHEMAS), data=st.data())
def test_no_door_shows_a_secret_or_moves_one(
    world: World, value: Any, schema: Any, data: st.DataObject
) -> None:
    for door in DOORS:
        world.store(value, schema)
        go_through(world, door, value, data.draw(edits(redact(value)), label=door.__name__))
    read_all(world)


# One of each kind, numbered, so that a failure says which one is shown.
KINDS: tuple[Any, ...] = (
    {"token": f"{SECRET}1", "list": [{"credentials": {"x": [f"{SECRET}2"]}}]},
    f"login failed, password: {SECRET}3 and pwd = '{SECRET}4 a'",
    f"GET https://u:{SECRET}5@h.example/a?token={SECRET}6&n=1",
    f"Authorization: Bearer {SECRET}7aaaa\r\nX-Api-Key: {SECRET}8\r\nCookie: a={SECRET}9",
    json.dumps({"n": 1, "api_key": f"{SECRET}10", "密码": f"{SECRET}11"}),
    json.dumps({"text": json.dumps({"line": f"a\npin={SECRET}12"})}),
    f"first line\npassword:\n{SECRET}13\n  secret={SECRET}14\nlast",
    f"-----BEGIN PRIVATE KEY-----\n{SECRET}15\n-----END PRIVATE KEY-----",
    repr({"otp": f"{SECRET}16"}),
    f"run --password {SECRET}17 <pin>{SECRET}18</pin>",
)


def test_no_kind_of_secret_is_seen_at_any_door(
    world: World, client: Client, settings: Any, subtests: pytest.Subtests
) -> None:
    """As params, context, result, checkpoint, error, message and reason, in all that is read."""
    settings.EMBEDDED = True
    text = "\n".join(each for each in KINDS if isinstance(each, str))
    world.store({"note": [*KINDS]}, None)
    factories.job("mail")
    end(take()[0], "failed", error=text, retry="never")
    JobType.objects.update(paused=True, pause_reason=KINDS[1])
    forget_type_snapshots()
    ann = Executor.objects.get(name="uid_ann")
    ended, words = callback.taken(ann), {"message": text, "result": {"note": [*KINDS]}}
    callback.call_back(executor=ann, number=ended.pk, outcome="failed", **words)

    with logged() as lines:
        logging.getLogger("handler").error("%s", text)
        doors = {answer.request["PATH_INFO"]: text_of(answer) for answer in everything(world)}
        for path in (f"dispatches/{ended.pk}/", "dispatches/", "executors/uid_ann/preview/"):
            doors[path] = text_of(world.api.get(f"/api/v1/{path}"))
        for path in (
            *(f"dispatch/dispatch/{ended.pk}/change/", "dispatch/dispatch/", ""),
            *("dispatch/dispatch/export/", "search/?term=uid_ann", "search/?term=login+failed"),
        ):  # fmt: skip
            doors[path] = text_of(world.admin.get(f"/admin/{path}", follow=True))
        for answer in (*bulk(world, None), *hands(world, None)):
            doors[f"{answer.request['PATH_INFO']} {answer.status_code}"] = text_of(answer)
    doors["metrics"] = text_of(client.get("/metrics"))
    doors["sinks"] = "".join(line.text for line in next_lines(0, 2**63 - 1))
    doors["log"] = lines()
    for door, shown in doors.items():
        with subtests.test(door):
            assert re.findall(rf"{SECRET}\d+", shown) == []
    # None was missed because nothing was there to be read.
    assert sum("login failed" in shown for shown in doors.values()) >= 10


def test_secret_of_a_schema_is_masked_everywhere(world: World, declared_secrets: None) -> None:
    """Also in the params of other tasks, in texts, and in the form of its template."""
    schema = {"type": "object", "properties": {"door": {"type": "string", "secret": True}}}
    doors = factories.template("doors", schema)
    value = {"door": f"{SECRET}1"}
    world.store({**value, "note": f"door={SECRET}2"}, None)
    once = world.number(OnceTask)
    OnceTask.objects.filter(pk=once).update(params=value, template=doors)
    read_all(world)

    kept = world.api.patch(f"/api/v1/once-tasks/{once}/", {"params": {"door": MASK}})
    assert kept.json()["params"] == {"door": MASK}
    assert OnceTask.objects.get(pk=once).params == value
