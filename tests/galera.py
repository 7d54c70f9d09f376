"""A private MariaDB Galera cluster: three nodes and haproxy, by the files of taskplatform/deploy.

Everything listens on free loopback ports and keeps its data in a temporary folder.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.deploy import DEPLOY, replaced
from tests.environment import new_folder
from tests.processes import eventually, free_port
from tests.servers import MariaDBServer, PrivateServer, binary, greets

FILES = DEPLOY / "galera"
NODES = 3
# The users of the check and of the nodes see each other as this host.
HOST = "127.0.0.1"
SYNCED = "4"
# A state transfer by rsync fails under root.
USER = "mysql"


class GaleraNode(MariaDBServer):
    """One node. The first of `nodes` makes the cluster, the others get their data from it."""

    run_as = USER
    # Only the set-up decides what a commit writes.
    storage = ("--innodb-buffer-pool-size=256M", "--innodb-log-file-size=64M")

    def __init__(self, folder: Path, nodes: list[GaleraNode]) -> None:
        self.name = f"n{len(nodes) + 1}"
        self.nodes = nodes
        self.group_port, self._transfer_port, self._catch_up_port = (free_port() for _ in range(3))
        folder.mkdir()
        _give_away(folder)
        super().__init__(folder)
        if nodes:
            self._password = nodes[0]._password
        nodes.append(self)

    def _make_data(self) -> None:
        if self.nodes:
            _give_away(self.folder / "data", make=True)
        else:
            super()._make_data()
            with (self.folder / "init.sql").open("a") as file:
                file.write(f"CREATE USER IF NOT EXISTS haproxy@'{HOST}';\n")
        _give_away(self.folder / "tmp", make=True)

    def _command(self) -> list[str]:
        others = [node for node in self.nodes if node is not self]
        runs_alone = not any(node.is_up for node in others)
        members = ",".join(f"{HOST}:{node.group_port}" for node in self.nodes)
        options = (
            f"gmcast.listen_addr=tcp://{HOST}:{self.group_port}",
            f"ist.recv_addr={HOST}:{self._catch_up_port}",
            "gcache.size=64M",
        )
        configuration = replaced(
            (FILES / "70-galera.cnf").read_text(),
            {
                "gcomm://10.0.0.11,10.0.0.12,10.0.0.13": f"gcomm://{members}",
                "wsrep_node_name = n1": f"wsrep_node_name = {self.name}",
                "10.0.0.11": HOST,
            },
        )
        file = self.folder / "node.cnf"
        file.write_text(
            f"{configuration}"
            f'wsrep_provider_options = "{";".join(options)}"\n'
            f"wsrep_sst_receive_address = {HOST}:{self._transfer_port}\n"
        )
        plain = [each for each in super()._command() if each not in _NOT_OF_A_NODE]
        makes = ["--wsrep-new-cluster"] if runs_alone else []
        if others and not runs_alone:
            # The users come with the data.
            plain = [each for each in plain if not each.startswith("--init-file=")]
        return [plain[0], f"--defaults-file={file}", *plain[1:], *makes]

    @property
    def is_up(self) -> bool:
        return self._process is not None

    def _answers(self, connection: socket.socket) -> bool:
        return super()._answers(connection) and self.status("wsrep_local_state") == SYNCED

    def kill(self) -> None:
        if self._process is not None:
            # Also a state transfer, which is a process of its own.
            os.killpg(self._process.pid, signal.SIGKILL)
        super().kill()

    def rows(self, sql: str) -> list[tuple[Any, ...]]:
        """What this node has applied, without waiting for what it has not."""
        with contextlib.closing(self.connect()) as connection, connection.cursor() as cursor:
            cursor.execute("SET wsrep_sync_wait = 0")
            cursor.execute(sql)
            return list(cursor.fetchall())

    def status(self, name: str) -> str:
        """The value of a status variable, "" while it does not answer."""
        import MySQLdb

        try:
            return str(self.rows(f"SHOW STATUS LIKE '{name}'")[0][1])
        except (MySQLdb.Error, IndexError):
            return ""


# The set-up names a file and an address.
_NOT_OF_A_NODE = {"--no-defaults", f"--bind-address={HOST}"}


class HAProxy(PrivateServer):
    """The proxy in front of the nodes."""

    name = "haproxy"

    def __init__(self, folder: Path, nodes: list[GaleraNode]) -> None:
        folder.mkdir()
        super().__init__(folder)
        self.nodes = nodes

    @property
    def url(self) -> str:
        first = self.nodes[0]
        return first.url.replace(f":{first.port}/", f":{self.port}/")

    def _command(self) -> list[str]:
        check = shutil.copy(FILES / "galera-check", self.folder)
        addresses = {
            f"10.0.0.{11 + place}:3306": f"{HOST}:{node.port}"
            for place, node in enumerate(self.nodes)
        }
        configuration = self.folder / "haproxy.cfg"
        may_change = os.getuid() == 0
        configuration.write_text(
            replaced(
                (FILES / "haproxy.cfg").read_text(),
                {
                    **({} if may_change else {"user haproxy\n": "", "group haproxy\n": ""}),
                    "10.0.0.10:3306": f"{HOST}:{self.port}",
                    "command /usr/local/bin/galera-check": f"command {check}",
                    **addresses,
                },
            )
        )
        return [binary("haproxy"), "-db", "-f", str(configuration)]

    def _answers(self, connection: socket.socket) -> bool:
        return greets(connection)


class Cluster:
    """Three nodes and the proxy, all running."""

    def __init__(self, nodes: list[GaleraNode], proxy: HAProxy) -> None:
        self.nodes = nodes
        self.proxy = proxy

    @property
    def url(self) -> str:
        """DATABASE_URL through the proxy."""
        return self.proxy.url

    def writer(self) -> str:
        """The name of the node that the proxy connects to, "" while there is none."""
        import MySQLdb

        try:
            connection = MySQLdb.connect(
                host=HOST,
                port=self.proxy.port,
                user="admin",
                password=self.nodes[0]._password,
                connect_timeout=2,
                read_timeout=2,
            )
            with contextlib.closing(connection), connection.cursor() as cursor:
                cursor.execute("SELECT @@wsrep_node_name")
                return str(cursor.fetchone()[0])
        except MySQLdb.Error:
            return ""

    def heal(self) -> None:
        """Start what is down, end what cuts a node off, and wait until the first one writes."""
        for node in self.nodes:
            if not node.is_up:
                node.start()
            node.execute("SET GLOBAL wsrep_provider_options = 'gmcast.isolate=0'")
        eventually(lambda: all(n.status("wsrep_local_state") == SYNCED for n in self.nodes))
        eventually(lambda: self.writer() == "n1")


def _give_away(folder: Path, *, make: bool = False) -> None:
    """Let the nodes write in the folder when the tests run as root."""
    if make:
        folder.mkdir(exist_ok=True)
    if os.getuid() == 0:
        shutil.chown(folder, USER)


@contextlib.contextmanager
def cluster(*, in_memory: bool = True) -> Iterator[Cluster]:
    """A running cluster, deleted with its data at the end of the block."""
    folder = new_folder("taskplatform-cluster-", in_memory=in_memory)
    # mkdtemp lets nobody but root pass.
    folder.chmod(0o755)
    nodes: list[GaleraNode] = []
    with contextlib.ExitStack() as ends:
        ends.callback(shutil.rmtree, folder)
        for place in range(NODES):
            GaleraNode(folder / f"n{place + 1}", nodes)
        proxy = HAProxy(folder / "haproxy", nodes)
        for node in nodes:
            ends.callback(node.kill)
            node.start()
        ends.callback(proxy.kill)
        proxy.start()
        running = Cluster(nodes, proxy)
        eventually(lambda: running.writer() == "n1")
        yield running
