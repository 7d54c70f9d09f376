"""What a run is narrowed to reads as it does above the lists: translated, in the zone of the
person."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime

import pytest
from django.test import Client
from django.urls import reverse

from apps.bulk.models import BulkRun
from apps.jobs.services import control
from tests.jobs import end, job_type, jobs, row, take
from tests.pages import english_in, form_of, text_of

pytestmark = pytest.mark.django_db
NEW = "/admin/bulk/new/{}/{}/"
CHINESE = {"accept-language": "zh-hans"}
Start = Callable[..., BulkRun]
Chips = Callable[[str, str, dict[str, str]], list[str]]


@pytest.fixture
def client(role_client: Callable[[str], Client]) -> Client:
    """Who reads Chinese, in Shanghai."""
    client = role_client("configurer")
    address = reverse("preferences")
    form = form_of(client.get(address), "time_zone")
    client.post(address, {**form, "time_zone": "Asia/Shanghai"}, follow=True)
    return client


@pytest.fixture
def chips(client: Client) -> Chips:
    def chips(kind: str, verb: str, asked: dict[str, str]) -> list[str]:
        return list(client.get(NEW.format(kind, verb), asked, headers=CHINESE).context["chips"])

    return chips


@pytest.mark.both
def test_jobs(chips: Chips) -> None:
    job_type("mail")
    jobs(1, error_key="value-0123", memo="ValueError: no order")
    asked = {"status": "failed", "type": "mail", "lane": "slow", "from_day": "2026-11-02"}
    assert chips("jobs", "retry", asked) == [
        "类型：mail",
        "状态：失败",
        "快慢：慢",
        "创建不早于：2026-11-02 00:00:00 UTC+8",
    ]
    assert chips("jobs", "retry", {"error_key": "value-0123"}) == ["错误：ValueError: no order"]
    assert chips("jobs", "retry", {"error_key": "gone"}) == ["错误标识：gone"]


@pytest.mark.both
def test_error_of_a_run_keeps_its_words_after_the_retry(chips: Chips) -> None:
    job_type("mail", max_attempts=1)
    [number] = jobs()
    [held] = take(1)
    end(held, "failed", error="ValueError: no order", retry="never")
    job = row(number)
    asked = {"error_key": job.error_key}
    assert chips("jobs", "retry", asked) == ["错误：ValueError: no order"]

    control.retry(job=job, actor="admin:ann", reason="The order is there")

    assert chips("jobs", "retry", asked) == ["错误：ValueError: no order"]


@pytest.mark.both
def test_dispatches_and_tasks(chips: Chips) -> None:
    asked = {"state": "open", "source": "rotate", "since": "2026-11-01T16:00:00Z"}
    assert chips("dispatches", "release", asked) == [
        "状态：进行中",
        "来源：重复任务",
        "派发不早于：2026-11-02 00:00:00 UTC+8",
    ]
    asked = {"status": "active,paused", "mode": "single", "q": "check", "to_day": "2026-11-02"}
    assert chips("once-tasks", "pause", asked) == [
        "模式：单人：仅一个用户领取",
        "状态：有效、已暂停",
        "搜索：check",
        "开始早于：2026-11-03 00:00:00 UTC+8",
    ]


def test_page_of_a_run(client: Client, start: Start) -> None:
    job_type("mail")
    jobs(1)
    wanted = {"status": ["ready"], "created_after": "2026-11-01T16:00:00Z"}
    params = {"run_at": datetime(2026, 12, 1, 1, tzinfo=UTC), "spread_seconds": 7200}
    run = start("time", wanted, params=params)
    page = client.get(f"/admin/bulk/bulkrun/{run.pk}/change/", headers=CHINESE)
    text = text_of(page)
    assert "状态：就绪 · 创建不早于：2026-11-02 00:00:00 UTC+8" in text
    assert "修改时间：2026-12-01 09:00:00 UTC+8、7200" in text
    assert english_in(page) == []


def test_fields_of_a_verb(client: Client, start: Start) -> None:
    job_type("mail")
    for verb, params in (("retry", {"succeeded": True}), ("move", {"host": ""})):
        start(verb, {"type": "mail"}, params=params)
    told = text_of(client.get("/admin/bulk/bulkrun/"))
    assert "Retry: Succeeded ones, too" in told
    assert "Move to a host: Any host" in told
