"""Settings of jobs."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from django.core.exceptions import ImproperlyConfigured

from apps.common.conf import (
    Conf,
    Setting,
    days,
    duration,
    integer,
    names,
    parse_names,
    parse_networks,
)

# The handlers that come with the platform and are for everybody.
READY_MADE = ("http_request", "management_command", "sleep", "echo", "flow")
_HOST = re.compile(r"(\*\.)?[A-Za-z0-9-]+(\.[A-Za-z0-9-]+)*(:(?P<port>\d{1,5}))?")
HOSTS = "hosts such as `api.example.com`, `*.example.com`, `host:8443`"


def parse_hosts(text: str) -> tuple[str, ...]:
    hosts = parse_names(text)
    for each in hosts:
        found = _HOST.fullmatch(each)
        if found is None or not 0 < int(found["port"] or 80) < 65_536:
            raise ValueError(f"{each!r} is no host, nor a host with a port")
    return hosts


def parse_ready_made(text: str) -> tuple[str, ...]:
    found = parse_names(text)
    for each in found:
        if each not in READY_MADE:
            raise ValueError(f"{each!r} is no ready-made handler")
    return found


# For the demo; settings.py decides it.
_OWN = "none, or with SQLite on 127.0.0.1 the platform itself"


class JobsConf(Conf):
    title = "Jobs"

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
        "Maximum number of tries that one transaction of the rescue ends.",
        minimum=1,
        maximum=1000,
    )
    JOB_SCAN_SECONDS = integer(
        1,
        "Period of the sweep that starts drains where jobs wait, and looks for steps of flows, "
        "rows of the inbox and blocked jobs that are due.",
        minimum=1,
        maximum=60,
    )
    JOB_RESCUE_SECONDS = integer(
        1, "Period of the sweep that ends tries of workers that are offline.", minimum=1, maximum=60
    )
    JOB_STARVATION_SECONDS = integer(
        600,
        "Seconds that a ready job may wait before logs and admin warn of it.",
        minimum=1,
        maximum=365 * 86_400,
    )
    JOB_WORKER_SILENCE = duration(
        "25s",
        "A worker that sends no heartbeat for this long counts as offline.",
        minimum="5s",
        maximum="1h",
    )
    JOB_WORKERS_PER_KEY = integer(
        500,
        "How many workers over HTTP one API key may have at a time; more names get 429.",
        minimum=1,
        maximum=100_000,
    )
    JOB_STOP_SECONDS = integer(
        30,
        "Seconds that the handlers of a worker may run on after it was asked to stop.",
        minimum=0,
        maximum=3600,
    )
    JOB_ARCHIVE_AFTER = duration(
        "7d",
        "How long ended jobs stay with the others before they go to the archive. Until then "
        "a repeated report gets its first answer.",
        minimum="1h",
        maximum="36500d",
    )
    JOB_RETENTION = duration(
        "400d",
        "How long ended jobs are kept, in the archive as well; 0 = for ever. Longer than "
        "`JOB_ARCHIVE_AFTER`. *Kept for* of a job type can only be shorter.",
        maximum="36500d",
    )
    JOB_READY_MADE = Setting(
        "",
        parse_ready_made,
        ", ".join(READY_MADE),
        "Ready-made handlers that workers make a job type of the same name for.",
        example="http_request,sleep",
    )
    JOB_COMMANDS = names(
        (),
        "names of commands of manage.py",
        "Commands that the handler `management_command` may run.",
    )
    JOB_HTTP_HOSTS = Setting(
        "",
        parse_hosts,
        HOSTS,
        "Hosts that the handler `http_request` may call.",
        usual=_OWN,
        example="api.example.com,*.example.org",
    )
    JOB_HTTP_NETWORKS = Setting(
        "",
        parse_networks,
        "networks and addresses such as `10.1.0.0/16`, `10.2.0.4`",
        "Networks that it may call although they are not public.",
        usual=_OWN,
        example="10.1.0.0/16",
    )

    @classmethod
    def from_environment(cls, environment: Mapping[str, str]) -> dict[str, Any]:
        values = super().from_environment(environment)
        retention, after = values["JOB_RETENTION"], values["JOB_ARCHIVE_AFTER"]
        if retention and retention <= after:
            raise ImproperlyConfigured(
                f"JOB_RETENTION ({days(retention)}) must be longer than JOB_ARCHIVE_AFTER "
                f"({days(after)}), because jobs are forgotten from the archive; raise the first, "
                "lower the second, or set JOB_RETENTION=0 to keep jobs forever."
            )
        return values


conf = JobsConf()
