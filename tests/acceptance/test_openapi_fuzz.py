"""A real server answers whatever its own OpenAPI document lets generate, and much that it does not.

schemathesis makes the requests: the limits of every field, then random values, good and bad, with
names and numbers of the demo among them so that they get beyond the first check.
"""

from __future__ import annotations

import http.client
import json
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.acceptance.conftest import Template
from tests.processes import RunningProcess, eventually
from tests.serving import server_command

Manage = Callable[..., subprocess.CompletedProcess[str]]
Start = Callable[..., RunningProcess]

BEN = "uid_ben"
BASE = "/api/v1/"
EXAMPLES = 15
MIN_REQUESTS = 1000
SECONDS = 600

CONFIGURATION = """
headers = {{ Authorization = "Bearer {key}" }}
continue-on-failure = true

# What a document cannot say: which names are taken, known and fit together.
[checks]
positive_data_acceptance.enabled = false

[dictionaries]
users.values = ["uid_ben", "uid_ben", "uid_nobody"]
executors.values = {executors}
templates.values = ["photo-check", "stock-count", "fuzz/a"]
numbers.values = {numbers}
tasks.values = {tasks}
jobs.values = {jobs}
types.values = ["mail", "mail", "sms/bulk", "unheard-of"]
flows.values = ["morning", "morning", "nothing"]
runs.values = {runs}
steps.values = ["gate", "send", "nothing"]
schedules.values = {schedules}
pools.values = ["points", "points", "mail", "nothing"]
workers.values = ["pi", "pi", "nobody"]

[parameters]
"path.number" = {{ dictionary = "numbers", probability = 0.8 }}
"path.id" = {{ dictionary = "tasks", probability = 0.8 }}
"path.name" = {{ dictionary = "executors", probability = 0.8 }}
"query.executor" = {{ dictionary = "users", probability = 0.5 }}
"body.uid" = {{ dictionary = "users", probability = 0.8 }}
"body.number" = {{ dictionary = "numbers", probability = 0.8 }}
"body.executor" = {{ dictionary = "executors", probability = 0.8 }}
"body.template" = {{ dictionary = "templates", probability = 0.5 }}

"body.type" = {{ dictionary = "types", probability = 0.8 }}
"body.job_type" = {{ dictionary = "types", probability = 0.8 }}
"body.flow" = {{ dictionary = "flows", probability = 0.8 }}
"body.worker" = {{ dictionary = "workers", probability = 0.8 }}
"query.type" = {{ dictionary = "types", probability = 0.5 }}

[[operations]]
include-path-regex = "/api/v1/jobs/"
parameters = {{ "path.number" = {{ dictionary = "jobs", probability = 0.8 }} }}

[[operations]]
include-path-regex = "/api/v1/flow-runs/"
[operations.parameters]
"path.number" = {{ dictionary = "runs", probability = 0.8 }}
"path.step" = {{ dictionary = "steps", probability = 0.8 }}

[[operations]]
include-path = "/api/v1/flows/{{name}}/"
parameters = {{ "path.name" = {{ dictionary = "flows", probability = 0.8 }} }}

[[operations]]
include-path-regex = "/api/v1/schedules/"
parameters = {{ "path.id" = {{ dictionary = "schedules", probability = 0.8 }} }}

[[operations]]
include-path-regex = "/api/v1/pools/"
parameters = {{ "path.name" = {{ dictionary = "pools", probability = 0.8 }} }}

[[operations]]
include-path = "/api/v1/job-types/{{name}}/"
parameters = {{ "path.name" = {{ dictionary = "types", probability = 0.8 }} }}

[[operations]]
include-path = "/api/v1/templates/{{name}}/"
parameters = {{ "path.name" = {{ dictionary = "templates", probability = 0.8 }} }}
"""


@pytest.fixture
def template_database(planned_database: Template) -> str:
    return planned_database.url


@pytest.fixture
def key(manage: Manage) -> str:
    names = ("pull", "submit", "hold", "read", "operate", "metrics")
    scopes = [word for name in names for word in ("--scope", name)]
    return manage("apiclient", "create", "Fuzz", *scopes).stdout.strip()


@pytest.fixture
def port(start: Start, key: str) -> Iterator[int]:
    """Of a web process that counts no wrong keys, for many are tried; it must log no failure."""
    port, command = server_command()
    web = start(*command, FAILED_KEY_LIMIT="10000")

    def answers() -> bool:
        assert web.process.poll() is None, web.output
        try:
            return call(port, "GET", "/health/ready")[0] == 200
        except OSError:
            return False

    eventually(answers, seconds=60)
    yield port
    assert '"level": "ERROR"' not in web.output, web.output[-5000:]
    assert "Traceback" not in web.output, web.output[-5000:]


def call(port: int, method: str, path: str, key: str = "", body: object = None) -> tuple[int, Any]:
    """The status and the JSON of one answer."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    headers = {"Authorization": f"Bearer {key}", "Content-Type": "application/json"}
    connection.request(method, path, json.dumps(body), headers if key else {})
    answer = connection.getresponse()
    text = answer.read()
    connection.close()
    return answer.status, json.loads(text) if text else None


def pulled(port: int, key: str, end: str) -> str:
    """The number of a dispatch of ben, ended by a cancel, by a callback, or left open."""
    number: str = call(port, "POST", f"{BASE}dispatch/", key, {"uid": BEN})[1]["number"]
    if end == "cancel":
        body: dict[str, str] = {"reason": "Not needed"}
        assert call(port, "POST", f"{BASE}dispatches/{number}/cancel/", key, body)[0] == 200
    elif end == "callback":
        body = {"uid": BEN, "number": number, "outcome": "succeeded"}
        assert call(port, "POST", f"{BASE}callback/", key, body)[0] == 200
    return number


def submitted(port: int, key: str, end: str) -> str:
    """The number of a job, waiting or ended by an operator."""
    for name in ("mail", "sms/bulk"):
        call(port, "POST", f"{BASE}job-types/", key, {"name": name})
    number: str = call(port, "POST", f"{BASE}jobs/", key, {"type": "mail", "delay": 3600})[1]["id"]
    if end:
        body = {"reason": "Not needed"}
        assert call(port, "POST", f"{BASE}jobs/{number}/{end}/", key, body)[0] == 200
    return number


def started(port: int, key: str) -> tuple[list[str], list[int]]:
    """The numbers of runs that wait, and of schedules; beside a pool with jobs, some of them held
    by the worker pi."""
    steps = [
        {"name": "gate", "kind": "wait"},
        {"name": "send", "kind": "jobs", "type": "mail", "each": [1, 2], "needs": ["gate"]},
    ]
    pool = {"items": {"a": 1, "b": 2, "c": 3}, "epoch": 1, "last": True}

    def made(path: str, **body: object) -> Any:
        status, answer = call(port, "POST", f"{BASE}{path}/", key, body)
        assert status in (200, 201), (path, answer)
        return answer

    made("flows", name="morning", definition={"steps": steps})
    made("job-types", name="points", pool=True)
    made("pools/points/rebuild", **pool)
    made("workers/register", name="pi", types=["mail", "points"])
    made("pools/points/assign", worker="pi", limit=2)
    made("jobs", type="mail")
    made("jobs/hold", worker="pi", types=["mail"])
    rule = {"every_days": 1, "at": "09:30"}
    schedules = [
        made("schedules", title=f"s{n}", job_type="mail", rule=rule)["id"] for n in range(3)
    ]
    return [made("flow-runs", flow="morning")["id"] for _each in range(4)], schedules


def configured(folder: Path, port: int, key: str) -> Path:
    """A configuration that knows dispatches in three states, the tasks and the people."""
    cancelled, done, opened = (pulled(port, key, end) for end in ("cancel", "callback", ""))
    people, tasks = (
        call(port, "GET", f"{BASE}{name}/?limit=100", key)[1]["results"]
        for name in ("executors", "once-tasks")
    )
    jobs = [submitted(port, key, end) for end in ("", "", "cancel", "mark-done")]
    runs, schedules = started(port, key)
    file = folder / "schemathesis.toml"
    file.write_text(
        CONFIGURATION.format(
            key=key,
            executors=json.dumps([row["name"] for row in people] + ["uid_new", "gid_nobody"]),
            numbers=json.dumps([cancelled, done, opened, "7"]),
            jobs=json.dumps([*jobs, "7"]),
            runs=json.dumps([*runs, "7"]),
            schedules=json.dumps([*schedules, 999_999]),
            tasks=json.dumps([row["id"] for row in tasks] + [999_999]),
        )
    )
    return file


# Once, on the database of production; tests/integration/api generates bodies on SQLite too.
@pytest.mark.long
@pytest.mark.mariadb
def test_generated_requests_find_nothing(
    port: int, key: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    """S2.13, S0.29: no 5xx, only documented statuses, headers and shapes, no bad value taken,
    no answer without the key."""
    seed = request.config.getoption("randomly_seed", None) or 1
    command = [sys.executable, "-m", "schemathesis.cli", "--config-file"]
    address = f"http://127.0.0.1:{port}"
    command += [str(configured(tmp_path, port, key)), "run", f"{address}/api/schema/"]
    command += ["--url", address, "--phases", "coverage,fuzzing", "--seed", str(seed)]
    command += ["--max-examples", str(EXAMPLES), "--no-color", "--request-timeout", "60"]

    done = subprocess.run(
        command,
        cwd=tmp_path,
        env={"PATH": os.environ["PATH"], "HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )

    assert done.returncode == 0, done.stdout[-20_000:] + done.stderr[-2000:]
    counted = re.search(r"(\d+) generated, (\d+) passed", done.stdout)
    assert counted, done.stdout
    assert counted[1] == counted[2]
    assert int(counted[1]) > MIN_REQUESTS
