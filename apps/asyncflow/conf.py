"""Settings of asyncflow."""

from __future__ import annotations

import re

from apps.access.rules.keys import is_client_id
from apps.common.conf import Conf, Setting, flag, integer, parse_names

# The dialects that are served, by the names of their addresses.
DIALECTS = ("g2", "g1", "java", "api")


def parse_ports(text: str) -> tuple[tuple[str, int], ...]:
    """Dialects with their ports, `g1:41555,java:8081`."""
    found: dict[str, int] = {}
    for each in parse_names(text):
        name, _, port = each.partition(":")
        is_port = re.fullmatch(r"[0-9]{1,5}", port) and 0 < int(port) < 65_536
        if name not in DIALECTS or not is_port:
            raise ValueError(f"{each!r} is no dialect with a port")
        if name in found or int(port) in found.values():
            raise ValueError(f"{each!r} has a dialect or a port that another one has already")
        found[name] = int(port)
    return tuple(found.items())


def parse_client(text: str) -> str:
    client = text.strip()
    if client and not is_client_id(client):
        raise ValueError(f"{client[:80]!r} is no client id")
    return client


class AsyncflowConf(Conf):
    title = "asyncflow"

    ASYNCFLOW_PORTS = Setting(
        "",
        parse_ports,
        f"dialects ({', '.join(DIALECTS)}) with a port each, such as `g1:41555,java:8081`",
        "Ports of 127.0.0.1 at whose root dialects of asyncflow are served.",
        example="g1:41555,java:8081",
    )
    ASYNCFLOW_LOOPBACK_CLIENT = Setting(
        "",
        parse_client,
        "a client id, the part of a key before its dot",
        "Client id that calls of asyncflow from 127.0.0.1 without a key have at `ASYNCFLOW_PORTS`.",
        example="legacy-workers",
    )
    ASYNCFLOW_LIST_HOLDS = flag(
        "Whether the list of waiting tasks of the dialect `g1` holds what it returns, for workers "
        "that take their work from it."
    )
    ASYNCFLOW_INTERVAL = integer(
        10, "Seconds between two holds of a worker of asyncflow.", minimum=1, maximum=3600
    )


conf = AsyncflowConf()
