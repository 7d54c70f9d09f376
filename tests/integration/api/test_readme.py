"""What the README of jobs shows of outside workers and of pools happens as it stands there."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any, NamedTuple

import pytest
from django.conf import settings

from taskplatform import sdk
from tests.integration.api.contract import ContractClient

pytestmark = pytest.mark.django_db

NUMBER, TOKEN = "249880717948497921", "8c1f…"
FAILED, FAILED_TOKEN = "249880717948497922", "51d0…"
LATER, LATER_TOKEN = "249880717948497923", "e77a…"
PRINTED = "|".join((NUMBER, TOKEN, FAILED, FAILED_TOKEN, LATER, LATER_TOKEN))


class Call(NamedTuple):
    """One call of a tour, and the answer that is shown; "…" stands for anything."""

    path: str
    body: str
    shown: str


def section(title: str) -> str:
    text = (settings.BASE_DIR / "taskplatform/docs/workers.md").read_text()
    return text.partition(f"\n## {title}\n")[2].partition("\n## ")[0]


def calls_of(title: str) -> list[Call]:
    found = re.findall(r"^\$ curl .*\$API(/\S+)(?: -d '(.*)')?\n(.*)", section(title), re.MULTILINE)
    return [Call(*each) for each in found]


def follow(api: ContractClient, call: Call, drawn: Mapping[str, str]) -> Any:
    """Make the call with what was drawn before in place of what is printed."""
    path, body, shown = call.path, call.body, re.sub(PRINTED, "…", call.shown)
    for printed, real in drawn.items():
        path, body = path.replace(printed, real), body.replace(printed, real)
    method = "POST" if body else "GET"
    answer = api.request(method, f"/api/v1{path}", json.loads(body) if body else None)
    pattern = ".*".join(map(re.escape, shown.split("…")))
    assert re.fullmatch(pattern, answer.content.decode()), (call.path, answer.content)
    return answer.json()


def test_tour_of_pools_is_true(api: ContractClient) -> None:
    calls = calls_of("Pools")

    assert len(calls) == 7
    for call in calls:
        follow(api, call, {})


def test_tour_of_a_worker_is_true(api: ContractClient) -> None:
    make, submit, hold, heartbeat, settle, look, fail, put_off, register = calls_of(
        "Workers on other machines"
    )
    follow(api, make, {})
    number = follow(api, submit, {})["id"]
    [job] = follow(api, hold, {})["jobs"]

    assert job["id"] == number
    for call in (heartbeat, settle, look):
        follow(api, call, {NUMBER: number, TOKEN: job["lease_token"]})
    for call, printed, token, name in (
        (fail, FAILED, FAILED_TOKEN, "a-2"),
        (put_off, LATER, LATER_TOKEN, "a-3"),
    ):
        follow(api, submit, {})
        [job] = follow(api, hold, {"a-1": name})["jobs"]
        follow(api, call, {printed: job["id"], token: job["lease_token"]})
    follow(api, register, {})


def test_worker_of_the_readme_goes_on_from_its_checkpoint(monkeypatch: pytest.MonkeyPatch) -> None:
    [code] = re.findall(r"```python\n(.*?)```", section("Workers on other machines"), re.DOTALL)
    monkeypatch.setitem(sys.modules, "sdk", sdk)
    monkeypatch.setenv("KEY", "ci.secret")
    monkeypatch.setattr(sdk.Worker, "run", lambda worker: None)
    names: dict[str, Any] = {}
    exec(compile(code, "worker.py", "exec"), names)  # noqa: S102
    kept: list[int] = []
    job = SimpleNamespace(
        saved=88, checkpoint=lambda data, progress: kept.append(data), stopping=False
    )

    assert names["video"](job) == {"seconds": 90}
    assert kept == [89, 90]
    assert names["worker"].name == "pi-1"

    job.saved, job.stopping = 40, True
    with pytest.raises(sdk.Later):
        names["video"](job)
    assert kept == [89, 90, 41]
