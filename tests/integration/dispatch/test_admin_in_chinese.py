"""What forms, actions and imports refuse, on pages in Chinese: nothing of it is said in English."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from itertools import zip_longest
from typing import Any

import pytest
from django.test import Client, override_settings
from django.urls import reverse

from apps.dispatch.models import Executor, OnceTask, RotateTask, Template
from apps.dispatch.services import tasks
from tests import callback, factories, pages
from tests.frozen import FrozenClock
from tests.integration.dispatch import (
    test_admin_executor_csv,
    test_admin_executors,
    test_admin_once_tasks,
    test_admin_rotate_tasks,
    test_admin_task_csv_refused,
    test_admin_templates,
)
from tests.integration.dispatch.test_admin_task_csv import as_csv, refusals
from tests.pages import form_of, nothing_drawn, text_of

EXECUTOR, ONCE, ROTATE, TEMPLATE = (
    f"/admin/dispatch/{model}/" for model in ("executor", "oncetask", "rotatetask", "template")
)
Shown = Iterator[tuple[Any, str]]


def english_in(page: Any) -> list[str]:
    """Without names in a list, which have commas between them."""
    return [each for each in pages.english_in(page) if re.search("[a-z'] [a-z']+ [a-z']", each)]


@pytest.fixture
def client(admin_client: Client) -> Client:
    admin_client.defaults["HTTP_ACCEPT_LANGUAGE"] = "zh-hans"
    return admin_client


@pytest.fixture(autouse=True)
def alice(db: None, frozen_clock: FrozenClock) -> Executor:
    return factories.user(title="爱丽丝")


def send(client: Client, url: str, holding: str, **typed: Any) -> Any:
    """The page that answers the form there, filled in and sent."""
    page = client.post(url, {**form_of(client.get(url), holding), **typed}, follow=True)
    assert page.status_code == 200
    return page


def act(client: Client, url: str, name: str, *rows: Any, **typed: Any) -> Any:
    """The page that answers an action on the rows."""
    asked = f"{url}act/{name}/?ids={','.join(str(row.pk) for row in rows)}"
    return send(client, asked, "ids", reason="暴雨", **typed)


# --- forms ----------------------------------------------------------------------------------------
ONCE_TASKS = [
    {name: value for typed, _, _ in filter(None, given) for name, value in typed.items()}
    for given in zip_longest(*test_admin_once_tasks.WRONG)
]
FORMS: list[tuple[str, dict[str, str], list[dict[str, str]]]] = [
    (ONCE, {"title": "查货", "executor": "uid_alice"}, ONCE_TASKS),
    (
        ROTATE,
        {"title": "盘点", "executor": "uid_alice", "time_zone": "UTC"},
        [typed for typed, _ in test_admin_rotate_tasks.WRONG_RULES],
    ),
    (
        EXECUTOR,
        {"name": "uid_b"},
        [{"name": name} for name, _ in test_admin_executors.WRONG_NAMES if name != "uid_taken"],
    ),
    (
        TEMPLATE,
        {"name": "shelf"},
        [
            {"name": "photo-check"},
            {"name": "a b"},
            *({"schema": text} for text, _ in test_admin_templates.WRONG_SCHEMAS),
        ],
    ),
]


@pytest.mark.parametrize(
    ("url", "right", "wrong"), FORMS, ids=["once task", "rotation", "executor", "template"]
)
def test_wrong_values(
    client: Client,
    url: str,
    right: dict[str, str],
    wrong: list[dict[str, str]],
    subtests: pytest.Subtests,
) -> None:
    """Each complaint is shown, and in Chinese."""
    template = factories.template()
    form = form_of(client.get(f"{url}add/"), next(iter(right))) | right
    form |= {"template": str(template.pk)} if "template" in form else {}
    for typed in wrong:
        with subtests.test(typed=str(typed)[:80]), nothing_drawn():
            page: Any = client.post(f"{url}add/", {**form, **typed})
            assert page.status_code == 200
            shown = page.context_data["adminform"].form
            params = getattr(shown, "params_form", None)
            errors = [*shown.errors.values(), *(params.errors.values() if params else ())]
            assert errors
            assert [each for found in errors for each in found if not _is_chinese(each)] == []
    assert english_in(client.post(f"{url}add/", {**form, **wrong[-1]})) == []
    made = [model.objects.count() for model in (OnceTask, RotateTask, Executor, Template)]
    assert made == [0, 0, 1, 1]


def _is_chinese(text: str) -> bool:
    return bool(re.search("[\u4e00-\u9fff]", text))


# --- what else is refused -------------------------------------------------------------------------
def beyond_the_limit_of_rotations(client: Client, alice: Executor, clock: FrozenClock) -> Shown:
    factories.rotation(alice, "盘点")
    typed = {"title": "盘点", "executor": "uid_alice", "every_minutes": "5"}
    with override_settings(ROTATIONS_PER_EXECUTOR=1):
        page = send(client, f"{ROTATE}add/", "title", **typed)
    yield page, "uid_alice 已有 1 个启用的重复任务，不能再多；"


def deleting_what_is_used(client: Client, alice: Executor, clock: FrozenClock) -> Shown:
    template = factories.template()
    factories.once_task(alice, "查货", template=template, params={"shop": "S1"})
    for url in (f"{EXECUTOR}{alice.pk}/", f"{TEMPLATE}{template.pk}/"):
        yield client.post(f"{url}delete/", {"post": "yes"}, follow=True), ""
    assert Executor.objects.exists() and Template.objects.exists()


def shifts_and_copies(client: Client, alice: Executor, clock: FrozenClock) -> Shown:
    last = clock.instant.replace(year=9998, month=12, day=31)
    far = factories.once_task(alice, "查货", start_at=last)
    daily = [factories.rotation(alice, "盘点", rule={"cron": "0 9 * * *"}) for _ in range(2)]
    clock.advance(days=2)
    yield act(client, ONCE, "shift", far, by="soon"), "'soon' 不是有效的平移量；"
    yield act(client, ONCE, "shift", far, by="+367d"), "'+367d' 超出范围；平移量为 1 秒到 366 天。"
    yield act(client, ONCE, "shift", far, by="366d"), "结果超出日历范围；请缩小平移量。"
    yield act(client, ROTATE, "shift", *daily, by="1h"), "到期时间与之前相同"
    yield act(client, ONCE, "copy", far, executors="uid_alice"), "它已经派给 uid_alice。"


def ending_what_has_ended_meanwhile(client: Client, alice: Executor, clock: FrozenClock) -> Shown:
    factories.once_task(alice, "查货")
    dispatch = callback.taken(alice)
    url = f"/admin/dispatch/dispatch/act/cancel/?ids={dispatch.pk}"
    form = {**form_of(client.get(url), "ids"), "reason": "暴雨"}
    act(client, "/admin/dispatch/dispatch/", "release", dispatch)
    yield client.post(url, form, follow=True), f"派发 {dispatch.pk} 已于 2026-"


def periods_and_occurrences(client: Client, alice: Executor, clock: FrozenClock) -> Shown:
    for first, last in (
        ("2026-01-02", "2026-01-01"),
        ("2026-01-01", "2026-01-02"),
        ("2026-03-01", "2029-01-01"),
        ("soon", ""),
    ):
        days = {"from_day": first, "to_day": last}
        yield client.get(f"{EXECUTOR}{alice.pk}/change/", days), ""
    url = reverse("admin:dispatch_executor_explain")
    for task in (factories.once_task(alice, "查货"), factories.rotation(alice, "盘点")):
        asked = {"executor": "uid_alice", "task": f"{task.source}:{task.pk}"}
        for occurrence in ("2026-01-01T00:00:00+00:00", "soon"):
            yield client.get(url, {**asked, "occurrence_at": occurrence}), ""


def files_that_are_no_csv(client: Client, alice: Executor, clock: FrozenClock) -> Shown:
    for data, _message in test_admin_executor_csv.REFUSED:
        if "text" in data:
            yield client.post(f"{EXECUTOR}import/", data), ""
    yield client.post(f"{ONCE}import/", {"text": "title,colour\nx,y\n"}), ""


def rows_of_files(client: Client, alice: Executor, clock: FrozenClock) -> Shown:
    factories.template("shelf")
    wrong = [each for each, _message in test_admin_task_csv_refused.WRONG]
    good = dict.fromkeys([name for each in wrong for name in each], "")
    good |= {"title": "查货", "executor": "uid_alice"}
    page = client.post(f"{ONCE}import/", {"text": as_csv(good, *({**good, **w} for w in wrong))})
    reasons = [why for _line, _name, why in refusals(page)]
    assert len(reasons) == len(wrong)
    assert all(map(_is_chinese, reasons))
    yield page, ""

    rules = [each for each, _message in test_admin_task_csv_refused.WRONG_RULES]
    rules += [{"every_days": "367", "at": "09:00"}]
    good = dict.fromkeys([name for each in rules for name in each], "")
    good |= {"title": "盘点", "executor": "uid_alice"}
    page = client.post(f"{ROTATE}import/", {"text": as_csv(*({**good, **w} for w in rules))})
    assert len(refusals(page)) == len(rules)
    yield page, "367 不是 1 到 366 之间的整数。"

    task, gone, moved = (factories.once_task(alice, "查货") for _ in range(3))
    tasks.delete_task(task=gone, actor="admin:vera")
    tasks.update_task(task=moved, changes={"priority": 1}, actor="admin:vera")
    rows = [{"id": row.pk, "version": 1, "title": "巡店"} for row in (task, task, gone, moved)]
    page = client.post(f"{ONCE}import/", {"text": as_csv(*rows)})
    assert len(refusals(page)) == 3
    yield page, ""

    lines = ["bob,,", "uid_x,maybe,", "uid_y,,gid_none", "gid_g,,gid_h", "uid_z,,uid_alice"]
    text = "\n".join(["name,enabled,groups", *lines])
    page = client.post(f"{EXECUTOR}import/", {"text": text})
    assert len(refusals(page)) == len(lines)
    yield page, ""


DOORS: tuple[Callable[[Client, Executor, FrozenClock], Shown], ...] = (
    *(beyond_the_limit_of_rotations, deleting_what_is_used, shifts_and_copies),
    *(ending_what_has_ended_meanwhile, periods_and_occurrences),
    *(files_that_are_no_csv, rows_of_files),
)


@pytest.mark.parametrize("door", DOORS, ids=lambda door: door.__name__)
def test_what_is_refused(
    client: Client, alice: Executor, frozen_clock: FrozenClock, door: Any
) -> None:
    for page, said in door(client, alice, frozen_clock):
        assert page.status_code == 200
        assert said in text_of(page)
        assert english_in(page) == []
