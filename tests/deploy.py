"""The files of taskplatform/deploy, with the addresses and places of a test in them."""

from __future__ import annotations

import http.client
import os
import re
import shutil
import socket
import subprocess
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path

from tests.processes import ROOT, RunningProcess, eventually

DEPLOY = ROOT / "taskplatform" / "deploy"
HOST = "tasks.example.org"
# Other addresses than that of the proxy, whose word counts.
OUTSIDE, INSIDE = "127.0.0.2", "127.0.0.3"


def replaced(text: str, replacements: Mapping[str, str]) -> str:
    """The text with each replacement made; AssertionError for one that does not occur in it."""
    for old, new in replacements.items():
        assert old in text, old
        text = text.replace(old, new)
    return text


def proxy_command(
    nginx: str, folder: Path, *, clear: int, tls: int, plain: int, behind: int, **changes: str
) -> list[str]:
    """The command of nginx by its file: port 80 is `clear` and 443 is `tls`, which `plain` is, too,
    for callers that know no TLS; one web server is at `behind`, and the other one is down.

    `changes` are of the limits: `keys="1r/s"` is the rate of that zone, which has no burst then,
    and `callers="1"` how many requests of an address may be under way.
    """
    secrets = make_secrets(folder)
    text = (DEPLOY / "nginx.conf").read_text()
    if most := changes.pop("callers", ""):
        text, times = re.subn(r"(limit_conn callers) \d+;", rf"\g<1> {most};", text)
        assert times == 1
    for zone, rate in changes.items():
        text, times = re.subn(rf"(zone={zone}:\S+ rate=)\S+;", rf"\g<1>{rate};", text)
        text, bursts = re.subn(rf"(zone={zone}) burst=\d+", r"\1", text)
        assert times == bursts == 1, zone
    places = "".join(
        f"    {kind}_temp_path {folder / kind};\n"
        for kind in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
    )
    configuration = folder / "nginx.conf"
    configuration.write_text(
        replaced(
            text,
            {
                "user www-data;": "user root;" if os.geteuid() == 0 else "",
                "/run/nginx.pid": str(folder / "nginx.pid"),
                "/var/log/nginx": str(folder),
                "http {\n": f"http {{\n{places}",
                "listen 80;": f"listen 127.0.0.1:{clear};",
                "listen 443 ssl;": f"listen 127.0.0.1:{tls} ssl; listen 127.0.0.1:{plain};",
                "server web-1:8000;": f"server 127.0.0.1:{behind};",
                "server web-2:8000;": "server 127.0.0.1:1;",
                f"/etc/ssl/certs/{HOST}.pem": str(secrets / "certificate.pem"),
                f"/etc/ssl/private/{HOST}.key": str(secrets / "certificate.key"),
                "10.0.0.0/8 1;": f"{INSIDE} 1;",
            },
        )
    )
    return [nginx, "-p", str(folder), "-c", str(configuration), "-g", "daemon off;"]


def make_secrets(folder: Path) -> Path:
    """The folder with those of compose.yaml, by its script."""
    subprocess.run([shutil.copy(DEPLOY / "make-secrets", folder)], check=True)
    return folder / "secrets"


def ask(
    port: int,
    method: str,
    path: str,
    headers: dict[str, str],
    body: str | bytes | None = None,
    caller: str = OUTSIDE,
) -> http.client.HTTPResponse:
    """The answer on a connection of its own, its body read."""
    connection = http.client.HTTPConnection(
        "127.0.0.1", port, timeout=30, source_address=(caller, 0)
    )
    with closing(connection) as client:
        client.request(method, path, body, headers)
        answer = client.getresponse()
        answer.read()
    return answer


def await_listening(process: RunningProcess, port: int) -> None:
    def listens() -> bool:
        assert process.process.poll() is None, process.output
        with socket.socket() as probe:
            return probe.connect_ex(("127.0.0.1", port)) == 0

    eventually(listens)


def instructions(text: str) -> list[tuple[str, str]]:
    """Word and value of each instruction of a Dockerfile, in order."""
    lines = "\n".join(line for line in text.splitlines() if not line.startswith("#"))
    whole = re.sub(r"\s*\\\n\s*", " ", lines)
    return [(word, value) for word, value in re.findall(r"^([A-Z]+) +(.*)$", whole, re.M)]
