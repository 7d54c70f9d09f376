"""Somebody is called when jobs fail: sweeps, workers and the called server are real."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from subprocess import CompletedProcess

import pytest

from taskplatform.beat import periods
from tests.alerts import Receiver, receiver
from tests.processes import eventually
from tests.workers import Workers

_RULE = """
from apps.alerts.services import settings
ops = settings.create_channel(
    name="ops", kind="webhook", url="{url}/in", secret="s3cret", actor="test"
)
settings.create_rule(
    name="Watch", kind="{kind}", for_seconds=0, channels=[ops], actor="test"
)
"""


@pytest.fixture
def site(environment: dict[str, str]) -> Iterator[Receiver]:
    with receiver() as server:
        environment["ALERT_HOSTS"] = server.host
        environment["JOB_HTTP_NETWORKS"] = "127.0.0.1"
        yield server


@pytest.fixture
def watch(site: Receiver, manage: Callable[..., CompletedProcess[str]]) -> Callable[[str], None]:
    """`watch(kind)` has a rule of that kind call the site."""

    def watch(kind: str) -> None:
        made = manage("shell", "--no-imports", "-c", _RULE.format(url=site.url, kind=kind))
        assert made.returncode == 0, made.stderr

    return watch


@pytest.mark.long
def test_failures_call_somebody_once_and_so_does_their_end(
    site: Receiver, workers: Workers, watch: Callable[[str], None]
) -> None:
    watch("failure_rate")
    workers.sweeps()
    workers.drains(pool="threads", slots=4)
    # Seconds that are no number are an error of the handler.
    fails = {"type": "nap", "context": {"seconds": "soon"}, "max_attempts": 1}
    workers.submit(*[fails] * 20)
    failed = "SELECT COUNT(*) FROM jobs_job WHERE type = 'nap' AND status = 'failed'"
    eventually(lambda: workers.rows(failed) == [(20,)], seconds=90)

    eventually(lambda: site.taken)

    # So that it takes half a minute at most.
    assert sum(periods()[f"alerts.{sweep}"] for sweep in ("evaluate", "deliver")) <= 30
    workers.submit(*[{"type": "nap", "context": {"seconds": 0}}] * 200)
    eventually(lambda: len(site.taken) > 1, seconds=120)
    bodies = [json.loads(each.body) for each in site.taken]
    assert [each["event"] for each in bodies] == ["alert.firing", "alert.resolved"]
    assert [each["subject"]["name"] for each in bodies] == ["nap"] * 2
    assert bodies[0]["value"] == 1.0


@pytest.mark.long
def test_somebody_is_called_though_no_worker_is_there(
    site: Receiver, workers: Workers, watch: Callable[[str], None]
) -> None:
    """Neither to run the jobs nor to send the message about that."""
    watch("worker_silent")
    workers.submit({"type": "nap", "context": {"seconds": 0}})

    workers.sweeps()

    eventually(lambda: site.taken, seconds=150)
    [body] = [json.loads(each.body) for each in site.taken[:1]]
    assert (body["event"], body["rule"]["kind"]) == ("alert.firing", "worker_silent")
