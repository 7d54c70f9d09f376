"""Settings of jobs."""

from __future__ import annotations

import ipaddress
import re

from apps.common.conf import Conf, Setting, duration, integer, names, parse_names

_HOST = re.compile(r"(\*\.)?[A-Za-z0-9-]+(\.[A-Za-z0-9-]+)*(:(?P<port>\d{1,5}))?")


def parse_networks(text: str) -> tuple[str, ...]:
    return tuple(str(ipaddress.ip_network(each)) for each in parse_names(text))


def parse_hosts(text: str) -> tuple[str, ...]:
    hosts = parse_names(text)
    for each in hosts:
        found = _HOST.fullmatch(each)
        if found is None or not 0 < int(found["port"] or 80) < 65_536:
            raise ValueError(f"{each!r} is no host, nor a host with a port")
    return hosts


class JobsConf(Conf):
    JOB_PRIORITY_WEIGHT_MS = integer(
        60_000,
        "How many milliseconds of waiting one step of priority is worth; 0 = age alone decides, "
        "1000000000000 = priority alone decides.",
        minimum=0,
        maximum=10**12,
    )
    JOB_PROMOTION_BATCH = integer(
        1000,
        "Maximum number of scheduled jobs that one statement makes ready.",
        minimum=1,
        maximum=5000,
    )
    JOB_RESCUE_BATCH = integer(
        200,
        "Maximum number of attempts that one transaction of the rescue ends.",
        minimum=1,
        maximum=1000,
    )
    JOB_SCAN_SECONDS = integer(
        1, "Period of the sweep that starts drains where jobs wait.", minimum=1, maximum=60
    )
    JOB_RESCUE_SECONDS = integer(
        1, "Period of the sweep that ends attempts of lost workers.", minimum=1, maximum=60
    )
    JOB_STARVATION_SECONDS = integer(
        600,
        "How long a ready job may wait before logs and admin warn of it.",
        minimum=1,
        maximum=365 * 86_400,
    )
    JOB_WORKER_SILENCE = duration(
        "25s",
        "A worker without a heartbeat for this long counts as lost.",
        minimum="5s",
        maximum="1h",
    )
    JOB_STOP_SECONDS = integer(
        8, "How long a stopping worker lets its handlers go on.", minimum=0, maximum=3600
    )
    JOB_COMMANDS = names((), "Commands that the handler management_command may run.")
    JOB_HTTP_HOSTS = Setting[tuple[str, ...]](
        (),
        parse_hosts,
        "Hosts that the handler http_request may call: api.example.com, *.example.com, host:8443.",
    )
    JOB_HTTP_NETWORKS = Setting[tuple[str, ...]](
        (),
        parse_networks,
        "Networks that it may call although they are not public: 10.1.0.0/16, one address.",
    )


conf = JobsConf()
