"""The private servers survive what tests do to them, and leave nothing behind."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from urllib.parse import urlsplit

import MySQLdb
import pytest
import redis

from tests import servers
from tests.processes import usual_signals
from tests.servers import MariaDBServer, ServerError, mariadb_server, redis_server

pytestmark = [pytest.mark.mariadb, pytest.mark.long]
RUN = [sys.executable, "-m", "tests.servers", "--"]


@contextlib.contextmanager
def cursor(server: MariaDBServer) -> Iterator[MySQLdb.cursors.Cursor]:
    url = urlsplit(server.url)
    connection = MySQLdb.connect(
        host=url.hostname,
        port=url.port,
        user=url.username,
        password=url.password,
        database=url.path.strip("/"),
        read_timeout=60,
    )
    with contextlib.closing(connection), connection.cursor() as opened:
        yield opened
        connection.commit()


def in_folder(folder: Path) -> Mapping[str, str]:
    """The environment of a run whose every temporary file lies in the folder."""
    return {**os.environ, "TMPDIR": str(folder)}


def is_open(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def test_mariadb_killed_and_started_again_keeps_port_and_committed_rows() -> None:
    with mariadb_server() as server:
        port = server.port
        with cursor(server) as sql:
            sql.execute("CREATE TABLE kept (n INT PRIMARY KEY)")
            sql.execute("INSERT INTO kept VALUES (7)")

        server.kill()
        assert not is_open(port)
        server.start()

        assert server.port == port
        with cursor(server) as sql:
            sql.execute("SELECT n FROM kept")
            assert sql.fetchall() == ((7,),)


def test_mariadb_is_far_from_utc_and_knows_no_zones() -> None:
    """What a product that trusts the server's zone would trip over."""
    with mariadb_server() as server, cursor(server) as sql:
        sql.execute(
            "SELECT TIMEDIFF(NOW(), UTC_TIMESTAMP()), CONVERT_TZ(NOW(), 'UTC', 'Asia/Shanghai')"
        )
        ((ahead, converted),) = sql.fetchall()
    assert ahead.total_seconds() == 8 * 3600
    assert converted is None


def test_paused_server_takes_connections_and_answers_after_resume() -> None:
    with redis_server() as server:
        client = redis.Redis.from_url(server.url, socket_timeout=0.2)
        with contextlib.closing(client):
            server.pause()
            with pytest.raises(redis.TimeoutError):
                client.ping()

            server.resume()
        with contextlib.closing(redis.Redis.from_url(server.url)) as patient:
            assert patient.ping()


def test_missing_server_is_reported_with_the_command_that_installs_it(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.setattr(servers, "SEARCH_PATH", str(tmp_path))

    with pytest.raises(ServerError) as caught, mariadb_server():
        pass

    said, _, packages = str(caught.value).partition(" --yes ")
    assert said == "mariadb-install-db is not installed; as root run: apt-get install"
    assert {"mariadb-server", "redis-server"} <= {*packages.split()}


def test_command_finds_both_servers_and_gives_its_exit_code(tmp_path: Path) -> None:
    look = (
        "import os, sys, MySQLdb, redis\n"
        "from urllib.parse import urlsplit\n"
        "u = urlsplit(os.environ['DATABASE_URL'])\n"
        "MySQLdb.connect(host=u.hostname, port=u.port, user=u.username, password=u.password,\n"
        "                database=u.path[1:]).close()\n"
        "redis.Redis.from_url(os.environ['REDIS_URL']).ping()\n"
        "print(u.port)\n"
        "sys.exit(7)\n"
    )

    ended = subprocess.run(
        [*RUN, sys.executable, "-c", look],
        env=in_folder(tmp_path),
        capture_output=True,
        text=True,
        check=False,
    )

    assert (ended.returncode, ended.stderr) == (7, "")
    assert not is_open(int(ended.stdout))
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("number", "code"),
    [(signal.SIGTERM, 143), (signal.SIGHUP, 143), (signal.SIGINT, 130)],
    ids=["SIGTERM", "SIGHUP", "Ctrl-C"],
)
def test_run_asked_to_end_takes_command_and_servers_with_it(
    tmp_path: Path, number: int, code: int
) -> None:
    process = subprocess.Popen(
        [*RUN, "sh", "-c", "echo $DATABASE_URL $$; exec sleep 600"],
        env=in_folder(tmp_path),
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
        preexec_fn=usual_signals(),
    )
    with process:
        assert process.stdout is not None
        url, command = process.stdout.readline().split()
        if number == signal.SIGINT:
            # The terminal sends Ctrl-C to every process of its group.
            os.killpg(process.pid, number)
        else:
            process.send_signal(number)
        try:
            # Of the command's own end, not of being killed when it does not come: that is 137.
            assert process.wait(120) == code
        finally:
            # Otherwise the end of the block would wait for ever.
            process.kill()
    assert not is_open(urlsplit(url).port or 0)
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(ProcessLookupError):
        os.kill(int(command), 0)
