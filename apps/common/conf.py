"""Every tunable of the platform: its type, default, range and meaning, in this one place.

A value comes from the Django setting of the same name, which settings.py fills from the
environment. Durations are written `90`, `90s`, `15m`, `6h` or `7d`.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Generic, TypeVar, overload

from django.conf import settings
from django.core.exceptions import ImproperlyConfigured

T = TypeVar("T")

_UNITS = {"": 1, "s": 1, "m": 60, "h": 3600, "d": 86400}
_HOST = re.compile(r"(\*\.)?[A-Za-z0-9-]+(\.[A-Za-z0-9-]+)*(:(?P<port>\d{1,5}))?")


def parse_duration(text: str) -> timedelta:
    """`90`, `90s`, `15m`, `6h`, `7d` as a timedelta; ValueError otherwise."""
    match = re.fullmatch(r"(\d{1,9})([smhd]?)", text.strip())
    if not match:
        raise ValueError(f"{text!r} is not a duration; write for example 90s, 15m, 6h or 7d")
    return timedelta(seconds=int(match[1]) * _UNITS[match[2]])


def _parse_integer(text: str) -> int:
    if not re.fullmatch(r"-?\d{1,18}", text.strip()):
        raise ValueError(f"{text!r} is not a whole number")
    return int(text)


def _parse_names(text: str) -> tuple[str, ...]:
    return tuple(part.strip() for part in text.split(",") if part.strip())


def _parse_networks(text: str) -> tuple[str, ...]:
    return tuple(str(ipaddress.ip_network(each)) for each in _parse_names(text))


def _parse_hosts(text: str) -> tuple[str, ...]:
    hosts = _parse_names(text)
    for each in hosts:
        found = _HOST.fullmatch(each)
        if found is None or not 0 < int(found["port"] or 80) < 65_536:
            raise ValueError(f"{each!r} is no host, nor a host with a port")
    return hosts


@dataclass
class Tunable(Generic[T]):
    """One setting, read anew at each use so that tests and operators see changes at once."""

    default: T
    parse: Callable[[str], T]
    meaning: str
    least: T | None = None
    most: T | None = None
    name: str = ""

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name

    @overload
    def __get__(self, instance: None, owner: type) -> Tunable[T]: ...
    @overload
    def __get__(self, instance: object, owner: type) -> T: ...
    def __get__(self, instance: object | None, owner: type) -> Tunable[T] | T:
        if instance is None:
            return self
        value: T = getattr(settings, self.name, self.default)
        return value

    def read(self, text: str) -> T:
        """The value written as text; ImproperlyConfigured says what is allowed."""
        try:
            value = self.parse(text)
        except ValueError as exc:
            raise ImproperlyConfigured(f"{self.name}: {exc}. {self.meaning}") from exc
        too_small = self.least is not None and value < self.least  # type: ignore[operator]
        too_large = self.most is not None and value > self.most  # type: ignore[operator]
        if too_small or too_large:
            raise ImproperlyConfigured(
                f"{self.name}={text} is out of range: {self.least} to {self.most}. {self.meaning}"
            )
        return value


def duration(
    default: str, meaning: str, *, least: str = "0", most: str = "365d"
) -> Tunable[timedelta]:
    return Tunable(
        parse_duration(default),
        parse_duration,
        meaning,
        parse_duration(least),
        parse_duration(most),
    )


def integer(default: int, meaning: str, *, least: int, most: int) -> Tunable[int]:
    return Tunable(default, _parse_integer, meaning, least, most)


def names(default: tuple[str, ...], meaning: str) -> Tunable[tuple[str, ...]]:
    return Tunable(default, _parse_names, meaning)


def hosts(meaning: str) -> Tunable[tuple[str, ...]]:
    return Tunable((), _parse_hosts, meaning)


def networks(meaning: str) -> Tunable[tuple[str, ...]]:
    return Tunable((), _parse_networks, meaning)


class Conf:
    """The tunables as attributes: `conf.DISPATCH_LOOKBACK`."""

    DISPATCH_LOOKBACK = duration(
        "7d", "How far back a due task may lie and still be handed out.", least="1h"
    )
    DISPATCH_WINDOW_HOURS = integer(
        6,
        "n: hours that the personal queue looks ahead, and at least looks back.",
        least=1,
        most=23,
    )
    ROTATIONS_PER_EXECUTOR = integer(
        100, "Most active rotations of one user or group.", least=1, most=10_000
    )
    EXPIRY_SWEEP_SECONDS = integer(
        5, "Period of the sweep that closes dispatches past their deadline.", least=1, most=10
    )
    EXPIRY_BATCH = integer(
        500, "Most dispatches that the expiry sweep reads to close them.", least=1, most=5000
    )
    DISPATCH_RETENTION = duration(
        "400d",
        "How long ended dispatches are kept, with their stock; at least a day more than "
        "DISPATCH_LOOKBACK, 0 for ever. Those of a once task also stay while it stands.",
        most="36500d",
    )
    TASK_RETENTION = duration(
        "400d",
        "How long tasks stay that are deleted, or over and untouched; 0 for ever. They also stay "
        "while they have dispatches.",
        most="36500d",
    )
    PURGE_SWEEP_SECONDS = integer(
        60, "Period of the sweep that removes what is past its retention.", least=1, most=86_400
    )
    PURGE_BATCH = integer(
        200, "Most rows that one transaction of that sweep removes.", least=1, most=500
    )
    JOB_PRIORITY_WEIGHT_MS = integer(
        60_000,
        "How many milliseconds of waiting one step of priority is worth; 0 = age alone decides, "
        "1000000000000 = priority alone decides.",
        least=0,
        most=10**12,
    )
    JOB_PROMOTION_BATCH = integer(
        1000, "Most scheduled jobs that one statement makes ready.", least=1, most=5000
    )
    JOB_RESCUE_BATCH = integer(
        200, "Most attempts that one transaction of the rescue ends.", least=1, most=1000
    )
    JOB_SCAN_SECONDS = integer(
        1, "Period of the sweep that starts drains where jobs wait.", least=1, most=60
    )
    JOB_RESCUE_SECONDS = integer(
        1, "Period of the sweep that ends attempts whose worker fell silent.", least=1, most=60
    )
    JOB_STARVATION_SECONDS = integer(
        600,
        "How long a ready job may wait before logs and admin warn of it.",
        least=1,
        most=365 * 86_400,
    )
    JOB_WORKER_SILENCE = duration(
        "25s", "After which silence a worker counts as dead.", least="5s", most="1h"
    )
    JOB_STOP_SECONDS = integer(
        8, "How long a worker that is told to stop lets its handlers go on.", least=0, most=3600
    )
    JOB_COMMANDS = names((), "Commands that the handler management_command may run.")
    JOB_HTTP_HOSTS = hosts(
        "Hosts that the handler http_request may call: api.example.com, *.example.com, host:8443.",
    )
    JOB_HTTP_NETWORKS = networks(
        "Networks that it may call although they are not public: 10.1.0.0/16, one address.",
    )
    REPORT_SWEEP_SECONDS = integer(
        10, "Period of the sweep that adds up what ended for the reports.", least=1, most=60
    )
    REPORT_GRACE = duration(
        "5s", "How long after its end a minute is added up.", least="1s", most="5m"
    )
    REPORT_LATE = duration(
        "15m",
        "How far back added up minutes are compared with the journal, because a long transaction "
        "may have committed late; older ones `rebuild_reports` adds up anew.",
        least="1m",
        most="2h",
    )
    REPORT_MINUTES_KEPT = duration(
        "2d", "How long reports can be cut at minutes.", least="3h", most="36500d"
    )
    REPORT_QUARTERS_KEPT = duration(
        "100d",
        "How long reports can be cut at quarters of an hour, which time zones 30 or 45 minutes off "
        "need; at least REPORT_MINUTES_KEPT.",
        least="3d",
        most="36500d",
    )
    REPORT_HOURS_KEPT = duration(
        "800d",
        "How long reports can be cut at hours, as local days need; then days (UTC) stay for ever. "
        "At least REPORT_QUARTERS_KEPT.",
        least="3d",
        most="36500d",
    )
    REPORT_ERRORS_KEPT = duration(
        "400d",
        "How long after it was last seen an error is told of among the failures.",
        least="1d",
        most="36500d",
    )
    FAILED_KEY_LIMIT = integer(
        20,
        "Wrong API keys per address and minute before that address has to wait.",
        least=1,
        most=10_000,
    )
    MASKED_KEYS = names(
        ("password", "passwd", "secret", "token", "api_key", "authorization"),
        "Keys of params, results and contexts whose values are never shown in admin.",
    )

    @classmethod
    def tunables(cls) -> dict[str, Tunable[Any]]:
        return {n: t for n, t in vars(cls).items() if isinstance(t, Tunable)}

    @classmethod
    def from_environment(cls, environment: Mapping[str, str]) -> dict[str, Any]:
        """All tunables, as the environment sets them, parsed and range-checked, or by default."""
        return {
            name: tunable.read(environment[name]) if environment.get(name) else tunable.default
            for name, tunable in cls.tunables().items()
        }


conf = Conf()
