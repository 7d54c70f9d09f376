"""Settings of the journal."""

from __future__ import annotations

import re
from typing import NamedTuple
from urllib.parse import SplitResult, urlsplit

from apps.common.conf import Conf, Setting, duration

_NAME = re.compile(r"[a-z0-9][a-z0-9_-]{0,31}")
# The parts that an address must have besides its scheme.
_NEEDED = {
    "file": "a folder: file:///var/lib/journal",
    "redis": "a database and a stream: redis://host:6379/0/journal",
    "rediss": "a database and a stream: rediss://host:6379/0/journal",
    "http": "an index: http://host:9200/journal",
    "https": "an index: https://host:9200/journal",
    "kafka": "brokers and a topic: kafka://host1:9092,host2:9092/journal",
}


class SinkAddress(NamedTuple):
    """A sink as JOURNAL_SINKS names it."""

    name: str
    url: str

    @property
    def parts(self) -> SplitResult:
        return urlsplit(self.url)

    @property
    def shown(self) -> str:
        """The address without user, password and options."""
        parts = self.parts
        return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"


def parse_sinks(text: str) -> tuple[SinkAddress, ...]:
    """`name=url name=url`; ValueError says what is wrong with which."""
    found: dict[str, SinkAddress] = {}
    for each in text.split():
        name, equals, url = each.partition("=")
        if not equals or not _NAME.fullmatch(name):
            raise ValueError(
                f"{_unsaid(each)} is no sink; write NAME=ADDRESS with blanks between several, the "
                "name in small letters, digits, - and _"
            )
        if name in found:
            raise ValueError(f"two sinks are named {name}; a name says where each one goes on")
        found[name] = SinkAddress(name, url)
        _check(found[name])
    return tuple(found.values())


def _check(sink: SinkAddress) -> None:
    parts = sink.parts
    shown = f"sink {sink.name}: {_unsaid(sink.url)}"
    if parts.scheme not in _NEEDED:
        schemes = ", ".join(f"{each}://" for each in _NEEDED)
        raise ValueError(f"{shown} begins with none of {schemes}")
    if parts.scheme == "file" and parts.netloc:
        whole = _unsaid(f"file:///{sink.url.removeprefix('file://')}")[1:-1]
        raise ValueError(f"{shown} names a machine; write three slashes: {whole}")
    steps = [step for step in parts.path.split("/") if step]
    if parts.scheme == "file":
        is_whole = bool(steps)
    elif parts.scheme in ("redis", "rediss"):
        is_whole = bool(parts.netloc) and len(steps) == 2 and steps[0].isdecimal()
    else:
        is_whole = bool(parts.netloc) and len(steps) == 1
    if not is_whole:
        raise ValueError(f"{shown} needs {_NEEDED[parts.scheme]}")


def _unsaid(text: str) -> str:
    """The text without the parts that may be a password."""
    return repr(re.sub(r"//.*@", "//…@", text).partition("?")[0][:80])


class JournalConf(Conf):
    title = "Journal"

    JOURNAL_GRACE = duration(
        "5s",
        "How long after its end a minute of the journal is added up for reports, and after which "
        "entries go to sinks: by then all but late commits are there.",
        minimum="1s",
        maximum="5m",
    )
    JOURNAL_LATE = duration(
        "15m",
        "How far back minutes are compared with the journal again, because a long transaction "
        "may commit late; `rebuild_reports` and `resend_journal` reach older ones.",
        minimum="1m",
        maximum="2h",
    )
    JOURNAL_RETENTION = duration(
        "400d",
        "How long entries of the journal are kept, at least `REPORT_MINUTES_KEPT`; 0 = for ever. "
        "Figures of reports stay.",
        maximum="36500d",
    )
    JOURNAL_SINKS = Setting(
        "",
        parse_sinks,
        "`NAME=ADDRESS` with blanks between several; an address has "
        + ", ".join(_NEEDED[each] for each in ("file", "redis", "https", "kafka")),
        "Where each entry of the journal is sent.",
        example="files=file:///var/lib/journal",
        is_secret=True,
    )


conf = JournalConf()
