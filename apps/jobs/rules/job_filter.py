"""Which jobs are meant: the filter of lists, of REST and of bulk runs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, tzinfo
from typing import Any, ClassVar

from apps.common import filtering
from apps.common.filtering import MAX_IDS, MAX_NAME, MAX_TEXT, Field, RowFilter
from apps.common.json_path import Condition
from apps.common.messages import Message
from apps.common.messages import Message as _
from apps.common.readers import read_integer
from apps.jobs.rules.order import HIGHEST_PRIORITY, LOWEST_PRIORITY
from apps.jobs.rules.slots import LANES
from apps.jobs.rules.transitions import STATUSES

__all__ = ["MAX_IDS", "MAX_NAME", "MAX_TEXT", "PAYLOAD", "WIRE", "JobFilter", "admin_names", "read"]

# The columns of JSON that are searched.
PAYLOAD = ("context", "result")


def _priority(value: Any) -> int:
    priority = read_integer(str(value))
    if priority is not None and LOWEST_PRIORITY <= priority <= HIGHEST_PRIORITY:
        return priority
    raise ValueError(
        _(
            "{text} is no priority; write a whole number from {lowest} to {highest}.",
            text=str(value)[:80],
            lowest=LOWEST_PRIORITY,
            highest=HIGHEST_PRIORITY,
        )
    )


_types, _statuses = filtering.each(filtering.key), filtering.each(filtering.one_of(STATUSES))
WIRE: Mapping[str, Field] = {
    "ids": Field("ids", filtering.numbers),
    "type": Field("types", _types),
    "lane": Field("lane", filtering.one_of(LANES)),
    "status": Field("statuses", _statuses),
    "key": Field("key", filtering.key),
    "user_id": Field("user_id", filtering.key),
    "host": Field("host", filtering.key),
    "worker": Field("worker", filtering.key),
    "client": Field("client", filtering.key),
    "stage": Field("stage", filtering.key),
    "error_key": Field("error_key", filtering.key),
    "priority_from": Field("priority_from", _priority),
    "priority_to": Field("priority_to", _priority),
    "created_after": Field("created_after", filtering.instant),
    "created_before": Field("created_before", filtering.instant),
    "run_after": Field("run_after", filtering.instant),
    "run_before": Field("run_before", filtering.instant),
    "finished_after": Field("finished_after", filtering.instant),
    "finished_before": Field("finished_before", filtering.instant),
    "memo": Field("memo", filtering.text),
    "text": Field("text", filtering.text),
    "where": Field("where", filtering.where(PAYLOAD)),
}


_TITLES: Mapping[str, Message] = {
    "ids": _("numbers"),
    "types": _("type"),
    "lane": _("speed class"),
    "statuses": _("status"),
    "key": _("key"),
    "user_id": _("user"),
    "host": _("host"),
    "worker": _("worker"),
    "client": _("API key"),
    "stage": _("stage"),
    "error_key": _("error key"),
    "priority_from": _("priority from"),
    "priority_to": _("priority to"),
    "created_after": _("created from"),
    "created_before": _("created before"),
    "run_after": _("next run from"),
    "run_before": _("next run before"),
    "finished_after": _("finished from"),
    "finished_before": _("finished before"),
    "memo": _("error text"),
    "text": _("search"),
    "where": _("payload"),
}


@dataclass(frozen=True, kw_only=True)
class JobFilter(RowFilter):
    """`text` is part of the last error, or a number, key or user in full; `memo` is part of the
    last error only."""

    NAMES: ClassVar[Mapping[str, Field]] = WIRE
    TITLES: ClassVar[Mapping[str, Message]] = _TITLES

    ids: tuple[int, ...] = ()
    types: tuple[str, ...] = ()
    lane: str = ""
    statuses: tuple[str, ...] = ()
    key: str = ""
    user_id: str = ""
    host: str = ""
    worker: str = ""
    client: str = ""
    stage: str = ""
    error_key: str = ""
    priority_from: int | None = None
    priority_to: int | None = None
    created_after: datetime | None = None
    created_before: datetime | None = None
    run_after: datetime | None = None
    run_before: datetime | None = None
    finished_after: datetime | None = None
    finished_before: datetime | None = None
    memo: str = ""
    text: str = ""
    where: tuple[Condition, ...] = ()


def read(given: Mapping[str, Any], names: Mapping[str, Field] = WIRE) -> JobFilter:
    """The filter of the parameters; empty ones say nothing. Invalid names each wrong one."""
    return filtering.read(JobFilter, given, names)


def admin_names(zone: tzinfo) -> Mapping[str, Field]:
    """The parameters of the list of jobs; days are those of the zone, both included."""
    same = ("lane", "key", "host", "worker", "client", "error_key", "type", "status", "ids")
    return {
        **{name: WIRE[name] for name in same},
        "user": WIRE["user_id"],
        "q": WIRE["text"],
        "where": Field("where", filtering.typed_where(PAYLOAD)),
        "from_day": Field("created_after", filtering.midnight(zone, 0)),
        "to_day": Field("created_before", filtering.midnight(zone, 1)),
        "since": WIRE["created_after"],
        "until": WIRE["created_before"],
    }
