"""The platform on a three-node Galera cluster, through the faults of its writing node.

`make test-cluster` runs it; the set-up is that of taskplatform/docs/deployment.md.
"""

from __future__ import annotations

import contextlib
import json
import subprocess
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import pytest

from taskplatform import sdk
from taskplatform.demo.company import PEOPLE
from tests.acceptance.conftest import SCOPES, make_key, new_environment
from tests.acceptance.test_sdk_deaths import MANY, runs
from tests.databases import empty_database, run_manage
from tests.galera import Cluster, GaleraNode, cluster
from tests.load import PLAN, Executors, Submitter, harm
from tests.processes import RunningProcess, eventually
from tests.servers import mariadb_server, redis_server
from tests.workers import Workers, make_type

pytestmark = pytest.mark.cluster

Manage = Callable[..., subprocess.CompletedProcess[str]]
Outside = Callable[..., RunningProcess]

LONGEST_GAP = 10.0
EXECUTORS = 20
# What each kind of load has done before the fault, after it, and after the node's return.
ENOUGH = 150
# At rest when all is done; then the same on every node.
TABLES = ("jobs_job", "dispatch_dispatch", "dispatch_stock")
PROVE = """
import json
from apps.common import clock
from datetime import timedelta
from taskplatform.demo import work
from taskplatform.demo.proofs import proofs_of
at_hand = work.work_at_hand()
work.refresh(at_hand)
proofs = proofs_of(at_hand, since=clock.now() - timedelta(hours=1), everybody_works=False)
print(json.dumps({each.promise: list(each.breaches) for each in proofs}))
"""


@pytest.fixture(scope="module")
def galera() -> Iterator[Cluster]:
    with cluster() as running:
        yield running


@pytest.fixture(scope="module")
def redis() -> Iterator[str]:
    with redis_server() as server:
        yield server.url


@pytest.fixture
def environment(
    galera: Cluster, redis: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[dict[str, str]]:
    """The environment of one platform, with a database of its own behind the proxy."""
    galera.heal()
    monkeypatch.setenv("DATABASE_URL", galera.url)
    monkeypatch.setenv("REDIS_URL", redis)
    with empty_database(tmp_path) as url:
        made = new_environment(tmp_path / "var", url)
        done = run_manage(made, "migrate", "--verbosity", "0")
        assert done.returncode == 0, done.stderr
        yield made


@pytest.fixture
def key(environment: dict[str, str]) -> str:
    """A key of workers: the database behind the proxy is no copy of one that has it."""
    return make_key(environment, "Pi", *SCOPES)


# --- Reads after a failover -----------------------------------------------------------------------


def test_node_answers_only_when_it_has_applied_what_another_has_acknowledged(
    galera: Cluster,
) -> None:
    """Without `wsrep_sync_wait` of the set-up, a worker would be told that its job is unknown."""
    galera.heal()
    first, second, _ = galera.nodes
    first.execute("CREATE TABLE acknowledged (n INT PRIMARY KEY)")
    eventually(lambda: second.rows("SHOW TABLES LIKE 'acknowledged'"))
    with contextlib.ExitStack() as ends:
        pausing, reading = (ends.enter_context(closing(second.connect())) for _ in range(2))
        # The node takes in what comes, and applies nothing.
        pausing.cursor().execute("FLUSH TABLES WITH READ LOCK")
        first.execute("INSERT INTO acknowledged VALUES (7)")
        assert second.rows("SELECT n FROM acknowledged") == []
        cursor, number = reading.cursor(), reading.thread_id()
        waiter = threading.Thread(target=cursor.execute, args=["SELECT n FROM acknowledged"])
        waiter.start()
        asked = f"SELECT info FROM information_schema.processlist WHERE id = {number}"
        eventually(lambda: second.rows(asked) == [("SELECT n FROM acknowledged",)])

        pausing.cursor().execute("UNLOCK TABLES")

        waiter.join()
        assert cursor.fetchall() == ((7,),)
    first.execute("DROP TABLE acknowledged")


# --- The load -------------------------------------------------------------------------------------


class Load(NamedTuple):
    """What works while the fault comes: a part of each kind."""

    in_house: Submitter
    outside: Submitter
    executors: Executors
    workers: list[RunningProcess]

    def done(self) -> Counter[str]:
        return Counter(
            {
                "in-house jobs submitted": len(self.in_house.answered_at),
                "jobs of outside workers begun": sum(len(runs(each)) for each in self.workers),
                "dispatches ended": len(self.executors.ended),
            }
        )

    def await_more(self) -> None:
        """Wait until each kind has done ENOUGH more."""
        before = self.done()

        def have_done() -> bool:
            assert self.executors.trouble == []
            now = self.done()
            return all(now[kind] >= before[kind] + ENOUGH for kind in now)

        eventually(have_done, seconds=120)


@pytest.fixture
def load(
    url: str,
    key: str,
    outside: Outside,
    workers: Workers,
    manage: Manage,
) -> Iterator[Load]:
    """Dispatch, in-house jobs and jobs of workers over HTTP, all at once; ended by the test."""
    planned = manage("shell", "--verbosity", "0", "--command", PLAN)
    assert planned.returncode == 0, planned.stderr
    scopes = ("--scope", "pull", "--scope", "read")
    device = manage("apiclient", "create", "Device", *scopes).stdout.strip()
    # Also makes the types of the handlers, which the web server must know first.
    workers.submit({"type": "echo"})
    workers.sweeps()
    workers.drains()
    with sdk.Client(url, key) as client:
        make_type(client, "many", lease_seconds=120)
    uids = list(PEOPLE)[:EXECUTORS]
    made = Load(
        Submitter(sdk, url, key, {"type": "echo"}, batch=1, pause=0.05, timeout=2.0),
        Submitter(sdk, url, key, {"type": "many"}, batch=20, pause=0.5, timeout=2.0),
        Executors(sdk, url, device, uids),
        [outside(MANY, name) for name in ("one", "two")],
    )
    with contextlib.ExitStack() as ends:
        for each in (made.in_house, made.outside, made.executors):
            each.start()
            ends.callback(each.end)
        made.await_more()
        yield made


# --- The faults -----------------------------------------------------------------------------------


class Fault(NamedTuple):
    name: str
    strike: Callable[[GaleraNode], None]
    heal: Callable[[GaleraNode], None]


def isolation(number: int) -> Callable[[GaleraNode], None]:
    return lambda node: node.execute(
        f"SET GLOBAL wsrep_provider_options = 'gmcast.isolate={number}'"
    )


FAULTS = [
    Fault("kill -9", lambda node: node.kill(), lambda node: node.start()),
    # It stays up, takes connections, and can neither read nor write.
    Fault("cut off", isolation(1), isolation(0)),
]


@pytest.mark.parametrize("fault", FAULTS, ids=[each.name for each in FAULTS])
def test_writing_node_that_fails_under_load_loses_and_doubles_nothing(
    galera: Cluster,
    load: Load,
    workers: Workers,
    manage: Manage,
    fault: Fault,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """S1.19: dispatch, jobs in-house and jobs over HTTP, until the node is the writer again."""
    [first, *_] = galera.nodes
    struck_at = time.monotonic()
    fault.strike(first)
    eventually(lambda: galera.writer() == "n2")
    load.await_more()
    healed_at = time.monotonic()
    fault.heal(first)
    eventually(lambda: galera.writer() == "n1")
    load.await_more()
    over_at = time.monotonic()
    for part in (load.in_house, load.outside, load.executors):
        part.end()
    statuses = workers.settled(seconds=180)

    begun = Counter(number for each in load.workers for number in runs(each))
    submitters = (load.in_house, load.outside)
    found = harm(workers, submitters, [load.executors], begun)
    proofs = json.loads(manage("shell", "--verbosity", "0", "--command", PROVE).stdout)
    audit = manage("audit", "--recent", "1000000")
    gaps = [
        load.in_house.longest_gap(*span) for span in ((struck_at, healed_at), (healed_at, over_at))
    ]
    database = urlsplit(workers.environment["DATABASE_URL"]).path[1:]
    checksums = ", ".join(f"{database}.{table}" for table in TABLES)
    eventually(lambda: len({str(n.rows(f"CHECKSUM TABLE {checksums}")) for n in galera.nodes}) == 1)
    with capsys.disabled():
        print(  # noqa: T201
            f"\n{fault.name}: longest gap {gaps[0]:.1f} s, at the node's return {gaps[1]:.1f} s; "
            f"{sum(len(each.failures) for each in submitters)} calls failed; jobs: "
            f"{sum(len(each.acknowledged) for each in submitters):,} acknowledged; dispatches: "
            f"{len(load.executors.ended):,} ended and acknowledged; lost or twice: {found}; "
            f"audit: {audit.stdout.strip() or audit.stderr.strip()}"
        )

    assert found == {}
    assert set(statuses) == {"succeeded"}
    assert {promise: breaches for promise, breaches in proofs.items() if breaches} == {}
    assert audit.returncode == 0, audit.stdout
    assert max(gaps) <= LONGEST_GAP


# --- What it costs --------------------------------------------------------------------------------

ROUNDS, EACH = 25, 100
# For a statement; far below what a person or a worker notices.
MOST_MILLISECONDS = 5.0
INSERT = "INSERT INTO cost (body) VALUES (REPEAT('x', 150))"
SELECT = "SELECT body FROM cost WHERE id = 1"
ALONE = "one server"
WAITS = {f"wsrep_sync_wait {number}": number for number in (0, 3, 7)}


def milliseconds(connection: Any, sql: str) -> float:
    """How long a statement takes that commits by itself."""
    with closing(connection.cursor()) as cursor:
        began = time.perf_counter()
        for _ in range(EACH):
            cursor.execute(sql)
        return (time.perf_counter() - began) / EACH * 1000


def test_waiting_for_what_others_have_acknowledged_costs_the_writer_little(
    galera: Cluster, capsys: pytest.CaptureFixture[str]
) -> None:
    """The best of many short rounds in turns: other load on the machine meets only some of them."""
    galera.heal()
    [first, *_] = galera.nodes
    with mariadb_server() as alone, contextlib.ExitStack() as ends:
        for server in (alone, first):
            server.execute(
                "CREATE TABLE cost (id BIGINT AUTO_INCREMENT PRIMARY KEY, body VARCHAR(200))",
                "INSERT INTO cost (id, body) VALUES (1, 'x')",
            )
        connections = {ALONE: ends.enter_context(closing(alone.connect()))}
        for name, number in WAITS.items():
            connections[name] = ends.enter_context(closing(first.connect()))
            connections[name].cursor().execute(f"SET wsrep_sync_wait = {number}")
        best: dict[tuple[str, str], float] = {}
        for sql, _ in product((INSERT, SELECT), range(ROUNDS)):
            for name, connection in connections.items():
                took = milliseconds(connection, sql)
                best[name, sql] = min(took, best.get((name, sql), took))
        first.execute("DROP TABLE cost")
    with capsys.disabled():
        for sql, title in ((INSERT, "one-row commit"), (SELECT, "read")):
            each = ", ".join(f"{name} {best[name, sql]:.2f} ms" for name in connections)
            print(f"\n{title}: {each}", end="")  # noqa: T201

    for sql, name in product((INSERT, SELECT), WAITS):
        assert best[name, sql] < best["wsrep_sync_wait 0", sql] + MOST_MILLISECONDS
