"""The client for other machines against the real API, each in a process of its own."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path

import pytest

from taskplatform import sdk
from tests.acceptance.conftest import Template, platform_with, processes_of
from tests.processes import RunningProcess, eventually, free_port
from tests.serving import Web

Manage = Callable[..., subprocess.CompletedProcess[str]]
Start = Callable[..., RunningProcess]

# Each test has members of its own of the group that checks photos.
BEN, CHLOE, DIEGO, EMMA = (f"uid_{name}" for name in ("ben", "chloe", "diego", "emma"))
HOUR = timedelta(hours=1)


@pytest.fixture(scope="module")
def platform(
    planned_database: Template, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[dict[str, str], Start]]:
    """The environment of one platform for all of these tests, and what starts its processes."""
    folder = tmp_path_factory.mktemp("sdk")
    with (
        platform_with(planned_database.url, folder) as environment,
        processes_of(environment, folder) as start,
    ):
        yield environment, start


@pytest.fixture
def environment(platform: tuple[dict[str, str], Start]) -> dict[str, str]:
    return platform[0]


@pytest.fixture
def key(planned_database: Template) -> str:
    return planned_database.key


@pytest.fixture(scope="module")
def web(platform: tuple[dict[str, str], Start]) -> Web:
    return Web(platform[1], free_port())


@pytest.fixture
def client(web: Web, key: str) -> Iterator[sdk.Client]:
    # Patient, because the web process may still be starting.
    with sdk.Client(web.url, key, give_up_after=60) as made:
        yield made


def pulled(client: sdk.Client, uid: str) -> sdk.Dispatch:
    dispatch = client.pull(uid)
    assert isinstance(dispatch, sdk.Dispatch)
    return dispatch


def test_pull_extend_and_callback_speak_the_contract(client: sdk.Client) -> None:
    """S0.14, S0.16, S0.28, S0.29, I4, I13, I16: repeats of every call answer like the first."""
    first = pulled(client, BEN)
    # Which of the demo's tasks it is, depends on the time of day: some are rotations.
    assert first.params["shop"] in ("Nanjing Road", "Every shop")
    assert first.template == {"name": "photo-check", "version": 1}

    again = pulled(client, BEN)
    assert (again.number, again.params, again.redo) == (first.number, first.params, 1)

    extended = client.extend(BEN, first.number, 7200)
    assert extended.deadline_at > first.deadline_at

    reply = client.callback(BEN, first.number, "succeeded", {"photos": 4}, next=True)
    repeated = client.callback(BEN, first.number, "succeeded", {"photos": 4}, next=True)
    assert (reply.state, reply.finished_at) == (repeated.state, repeated.finished_at)
    assert isinstance(reply.next, sdk.Dispatch)
    assert isinstance(repeated.next, sdk.Dispatch)
    assert reply.next.number == repeated.next.number != first.number

    with pytest.raises(sdk.ApiError) as conflict:
        client.callback(BEN, first.number, "failed")
    assert (conflict.value.status, conflict.value.code) == (422, "conflict")


def test_refusals_name_what_is_wrong(web: Web, key: str, client: sdk.Client) -> None:
    """S0.28, S0.29: a released dispatch is closed; keys, names and addresses are distinguished."""

    def refusal(call: Callable[[], object]) -> tuple[int, str]:
        with pytest.raises(sdk.ApiError) as caught:
            call()
        assert caught.value.request_id
        return caught.value.status, caught.value.code

    number = pulled(client, DIEGO).number
    assert client.release(DIEGO, number, "rain").state == "released"
    assert client.release(DIEGO, number, "rain").state == "released"
    assert refusal(lambda: client.callback(DIEGO, number, "succeeded")) == (409, "closed")
    assert refusal(lambda: client.callback(CHLOE, number, "succeeded")) == (404, "not_found")
    assert refusal(lambda: client.pull("uid_nobody")) == (404, "not_found")
    assert refusal(lambda: client.pull("gid_photo_check")) == (400, "invalid")
    with pytest.raises(sdk.ApiError) as wrong:
        client.extend(DIEGO, number, 0)
    assert wrong.value.errors[0]["field"] == "seconds"
    with sdk.Client(web.url, "nobody.knows-it") as stranger:
        assert refusal(lambda: stranger.pull(DIEGO)) == (401, "not_authenticated")
    with sdk.Client(f"{web.url}/somewhere", key) as lost, pytest.raises(sdk.PlatformError):
        lost.pull(DIEGO)


def test_loop_survives_a_web_process_killed_between_pull_and_callback(
    web: Web, client: sdk.Client
) -> None:
    """I2, I4, I13: nothing is lost or counted twice."""
    stop = threading.Event()
    numbers: list[str] = []

    def work(dispatch: sdk.Dispatch) -> dict[str, int]:
        numbers.append(dispatch.number)
        if len(numbers) == 1:
            web.kill()
            web.begin()
        if len(numbers) == 3:
            stop.set()
        return {"photos": len(numbers)}

    assert client.run(CHLOE, work, stop=stop) == 3
    assert len(set(numbers)) == 3
    for photos, number in enumerate(numbers, 1):
        repeated = client.callback(CHLOE, number, "succeeded", {"photos": photos})
        assert repeated.state == "succeeded"


def test_device_killed_at_work_goes_on_with_the_same_task(
    web: Web, client: sdk.Client, key: str, start: Start, tmp_path: Path
) -> None:
    """S0.16: the copied file alone, in a Python without the project's packages."""
    (tmp_path / "sdk.py").write_text(Path(sdk.__file__).read_text())
    (tmp_path / "device.py").write_text(
        "import os, sys, threading\n"
        "sys.path.insert(0, os.path.dirname(__file__))\n"
        "from sdk import Client\n"
        "def work(dispatch):\n"
        "    print('at work on', dispatch.number, flush=True)\n"
        "    threading.Event().wait()\n"
        "Client(os.environ['URL'], os.environ['KEY']).run('uid_emma', work)\n"
    )
    device = start(*(sys.executable, "-I", "-S", str(tmp_path / "device.py")), URL=web.url, KEY=key)
    device.await_output("at work on")
    os.kill(device.pid, signal.SIGKILL)
    eventually(lambda: not device.lives())

    dispatch = pulled(client, EMMA)
    assert f"at work on {dispatch.number}" in device.output
    assert dispatch.redo == 1
