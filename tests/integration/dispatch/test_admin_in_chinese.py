"""What forms, actions and imports refuse, on pages in Chinese: nothing of it is said in English."""

from __future__ import annotations

import re
from html import unescape
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse

from apps.dispatch.models import Executor, OnceTask, RotateTask, Template
from apps.dispatch.services import tasks
from tests import callback, factories
from tests.frozen import FrozenClock
from tests.integration.dispatch.test_admin_task_csv import as_csv, refusals
from tests.integration.dispatch.test_admin_task_csv_refused import WRONG
from tests.pages import form_of, text_of

EXECUTOR, ONCE, ROTATE, TEMPLATE = (
    f"/admin/dispatch/{model}/" for model in ("executor", "oncetask", "rotatetask", "template")
)
# Elements whose text is code, was typed, or is the name of an icon.
_UNSAID = re.compile(
    r"<(script|style|textarea|code|pre)\b.*?</\1>"
    r"|<span class=\"[^\"]*\bmaterial-symbols-outlined\b[^>]*>.*?</span>",
    re.DOTALL,
)
# Names of fields and values stand alone, or in lists with commas.
_ENGLISH = re.compile(r"\b[A-Za-z][a-z']* [a-z']+ [a-z']+")


def english_in(page: Any) -> list[str]:
    """The texts of the page that have three English words in a row."""
    html = _UNSAID.sub("", page.content.decode())
    texts = unescape(re.sub(r"<[^>]*>", "\n", html)).splitlines()
    return [text.strip() for text in texts if _ENGLISH.search(text)]


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
Wrong = list[tuple[dict[str, str], str]]

ONCE_TASKS: Wrong = [
    ({"priority": "101"}, "101 超出范围：priority 为 -100 到 100。"),
    ({"mode": "single", "dispatch_times": "2"}, "单人（single）模式下 dispatch_times 只能是 1"),
    ({"mode": "blocking", "dispatch_times": ""}, "需要多人（multi）模式，而不是可重复。"),
    ({"end_at_0": "2001-01-01", "end_at_1": "09:00"}, "任务在开始之前就结束；"),
    ({"title": "x" * 201}, "不超过 200 字符"),
    ({"lease_seconds": "long", "max_rounds": "0"}, "0 超出范围：max_rounds 为 1 到 1000。"),
    ({"executor": "uid_nobody", "params-raw": "{"}, "从第 1 行第 2 列起不是 JSON"),
    ({"params-raw": "[1]"}, "请填写 JSON 对象"),
    ({"params-raw": '{"a": NaN}'}, "NaN"),
]
ROTATIONS: Wrong = [
    ({}, "需要一条规则：every_minutes"),
    ({"cron": "61 * * * *"}, "不表示任何会到来的时间：分钟有误。"),
    ({"cron": "0 9 * *"}, "'0 9 * *' 有 4 个字段；"),
    ({"cron": "0 0 30 2 *"}, "不表示任何会到来的时间"),
    ({"cron": "x" * 101}, "101"),
    ({"every_minutes": "5", "cron": "* * * * *"}, "所含的规则：every_minutes和cron；"),
    ({"every_days": "2", "at": "25:00"}, "'25:00' 不是一天中的时刻；"),
    ({"every_minutes": "5", "at": "09:00"}, "every_minutes 规则没有 'at'；"),
    ({"every_minutes": "5", "time_zone": "shanghai"}, "是否想写 Asia/Shanghai？"),
    ({"every_minutes": "5", "time_zone": "Mars"}, "没有名为 'Mars' 的时区；"),
    ({"every_minutes": "5", "misfire_limit": "1001"}, "1001 超出范围：misfire_limit 为"),
]
EXECUTORS: Wrong = [
    ({"name": "bob"}, "'bob' 不是执行者名称；"),
    ({"name": "uid_alice"}, "uid_alice 已存在；请改为编辑它。"),
    ({"name": "uid_b", "title": "x" * 201}, "不超过 200 字符"),
]
TEMPLATES: Wrong = [
    ({"name": "shelf", "schema": '{"type": "array"}'}, "JSON Schema"),
    ({"name": "shelf", "schema": '{"type": "object", "properties": []}'}, "[] 的类型不是"),
    ({"name": "shelf", "schema": '{"type": "object", "$ref": "http://x.example/"}'}, "#/…"),
    ({"name": "shelf", "schema": '{"type": "object", "$ref": "#/none"}'}, "#/none"),
    ({"name": "shelf", "schema": '{"type": "object", "type": "object"}'}, "'type'"),
    ({"name": "a b"}, "'a b' 不是模板名称；"),
    ({"name": "photo-check"}, "photo-check 已存在；"),
]


@pytest.mark.parametrize(
    ("url", "right", "wrong"),
    [
        (ONCE, {"title": "查货", "executor": "uid_alice"}, ONCE_TASKS),
        (ROTATE, {"title": "盘点", "executor": "uid_alice", "time_zone": "UTC"}, ROTATIONS),
        (EXECUTOR, {"name": ""}, EXECUTORS),
        (TEMPLATE, {"name": ""}, TEMPLATES),
    ],
    ids=["once task", "rotation", "executor", "template"],
)
def test_wrong_values(
    client: Client, url: str, right: dict[str, str], wrong: Wrong, subtests: pytest.Subtests
) -> None:
    factories.template()
    form = form_of(client.get(f"{url}add/"), next(iter(right))) | right
    for typed, message in wrong:
        with subtests.test(typed=typed):
            page = client.post(f"{url}add/", {**form, **typed})
            assert page.status_code == 200
            assert message in text_of(page)
            assert english_in(page) == []
    made = [model.objects.count() for model in (OnceTask, RotateTask, Executor, Template)]
    assert made == [0, 0, 1, 1]


def test_rotation_beyond_the_limit(client: Client, settings: Any, alice: Executor) -> None:
    settings.ROTATIONS_PER_EXECUTOR = 1
    factories.rotation(alice, "盘点")

    page = send(
        client, f"{ROTATE}add/", "title", title="盘点", executor="uid_alice", every_minutes="5"
    )

    assert "uid_alice 已有 1 个启用的周期任务，不能再多；" in text_of(page)
    assert english_in(page) == []


# --- deleting -------------------------------------------------------------------------------------
def test_executor_that_has_tasks_and_template_that_is_used(client: Client, alice: Executor) -> None:
    template = factories.template()
    factories.once_task(alice, "查货", template=template, params={"shop": "S1"})

    for url in (f"{EXECUTOR}{alice.pk}/", f"{TEMPLATE}{template.pk}/"):
        page = client.post(f"{url}delete/", {"post": "yes"}, follow=True)
        assert english_in(page) == []
    assert Executor.objects.exists()
    assert Template.objects.exists()


# --- actions --------------------------------------------------------------------------------------
def test_what_is_no_shift(client: Client, alice: Executor) -> None:
    task = factories.once_task(alice, "查货")
    for by, message in (
        ("soon", "'soon' 不是有效的平移量；"),
        ("+367d", "'+367d' 超出范围；平移量为 1 秒到 366 天。"),
    ):
        page = act(client, ONCE, "shift", task, by=by)
        assert message in text_of(page)
        assert english_in(page) == []


def test_shifts_and_copies_that_are_refused(
    client: Client, alice: Executor, frozen_clock: FrozenClock
) -> None:
    last = frozen_clock.instant.replace(year=9998, month=12, day=31)
    far = factories.once_task(alice, "查货", start_at=last)
    daily = [factories.rotation(alice, "盘点", rule={"cron": "0 9 * * *"}) for _ in range(2)]

    frozen_clock.advance(days=2)
    beyond = act(client, ONCE, "shift", far, by="366d")
    same = act(client, ROTATE, "shift", *daily, by="1h")
    copied = act(client, ONCE, "copy", far, executors="uid_alice")

    assert "结果超出日历范围；请缩小平移量。" in text_of(beyond)
    assert "到期时间与之前相同" in text_of(same)
    assert "它已经派给 uid_alice。" in text_of(copied)
    assert [english_in(page) for page in (beyond, same, copied)] == [[], [], []]


def test_dispatch_that_has_ended_meanwhile(client: Client, alice: Executor) -> None:
    factories.once_task(alice, "查货")
    dispatch: Any = callback.take_next(alice)
    url = f"/admin/dispatch/dispatch/act/cancel/?ids={dispatch.pk}"
    form = {**form_of(client.get(url), "ids"), "reason": "暴雨"}
    act(client, "/admin/dispatch/dispatch/", "release", dispatch)

    page = client.post(url, form, follow=True)

    assert f"派发 {dispatch.pk} 已于 2026-" in text_of(page)
    assert "结束：已释放。" in text_of(page)
    assert english_in(page) == []


# --- upcoming tasks -------------------------------------------------------------------------------
def test_periods_that_are_none(client: Client, alice: Executor, subtests: pytest.Subtests) -> None:
    for days in (
        {"from_day": "2026-01-02", "to_day": "2026-01-01"},
        {"from_day": "2026-01-01", "to_day": "2026-01-02"},
        {"from_day": "2026-03-01", "to_day": "2029-01-01"},
        {"from_day": "soon"},
    ):
        with subtests.test(days=days):
            page = client.get(f"{EXECUTOR}{alice.pk}/change/", days)
            assert page.status_code == 200
            assert english_in(page) == []


def test_explanation_of_what_never_is(client: Client, alice: Executor) -> None:
    url = reverse("admin:dispatch_executor_explain")
    for task in (factories.once_task(alice, "查货"), factories.rotation(alice, "盘点")):
        asked = {"executor": "uid_alice", "task": f"{task.source}:{task.pk}"}
        for occurrence in ("2026-01-01T00:00:00+00:00", "soon"):
            page = client.get(url, {**asked, "occurrence_at": occurrence})
            assert "occurrence_at" in text_of(page) or "soon" in text_of(page)
            assert english_in(page) == []


# --- imports --------------------------------------------------------------------------------------
def test_rows_of_tasks(client: Client) -> None:
    factories.template("shelf")
    good = dict.fromkeys([name for wrong, _message in WRONG for name in wrong], "")
    good |= {"title": "查货", "executor": "uid_alice"}

    page = client.post(
        f"{ONCE}import/", {"text": as_csv(good, *({**good, **wrong} for wrong, _message in WRONG))}
    )

    reasons = [why for _line, _name, why in refusals(page)]
    assert len(reasons) == len(WRONG)
    assert [why for why in reasons if not re.search("[\u4e00-\u9fff]", why)] == []
    assert english_in(page) == []


def test_rows_of_rotations(client: Client) -> None:
    right = {"title": "盘点", "executor": "uid_alice", "every_days": "", "at": "", "time_zone": ""}
    wrong = [{"every_days": "367", "at": "09:00"}, {"at": "9"}, {"every_days": "1", "at": "9"}]
    wrong += [{"every_days": "1", "at": "09:00", "time_zone": "shang hai"}]

    page = client.post(f"{ROTATE}import/", {"text": as_csv(*({**right, **each} for each in wrong))})

    assert len(refusals(page)) == len(wrong)
    assert "367 不是 1 到 366 之间的整数。" in text_of(page)
    assert english_in(page) == []


def test_files_that_are_no_csv(client: Client, subtests: pytest.Subtests) -> None:
    for text in (
        *("title,executor\nx\n", "title,colour\nx,y\n", "title,title\nx,y\n", "\0", " "),
        *('title\n"x', 'title\n"x"y\n', f"title\n{'x' * 131_073}\n"),
    ):
        with subtests.test(text=text[:40]):
            page: Any = client.post(f"{ONCE}import/", {"text": text})
            assert "refused" not in (page.context_data or {})
            assert english_in(page) == []


def test_rows_of_tasks_that_stand(client: Client, alice: Executor) -> None:
    task, gone, moved = (factories.once_task(alice, "查货") for _ in range(3))
    tasks.delete_task(task=gone, actor="admin:vera")
    tasks.update_task(task=moved, changes={"priority": 1}, actor="admin:vera")
    rows = [{"id": row.pk, "version": 1, "title": "巡店"} for row in (task, task, gone, moved)]

    page = client.post(f"{ONCE}import/", {"text": as_csv(*rows)})

    assert len(refusals(page)) == 3
    assert english_in(page) == []


def test_rows_of_executors(client: Client) -> None:
    rows = ["bob,,", "uid_x,maybe,", "uid_y,,gid_none", "gid_g,,gid_h", "uid_z,,uid_alice"]

    page = client.post(f"{EXECUTOR}import/", {"text": "\n".join(["name,enabled,groups", *rows])})

    assert len(refusals(page)) == len(rows)
    assert english_in(page) == []
