"""Which once tasks are meant: the filter of bulk runs, by the names of the list and of REST."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, tzinfo
from typing import Any, ClassVar

from apps.common import filtering
from apps.common.filtering import Field, RowFilter
from apps.common.messages import Message
from apps.common.messages import Message as _
from apps.dispatch.rules import life, policy

MODES = (policy.SINGLE, policy.MULTI, policy.BLOCKING)
STATUSES = (life.ACTIVE, life.PAUSED, life.DELETED)
WIRE: Mapping[str, Field] = {
    "ids": Field("ids", filtering.numbers),
    "executor": Field("executor", filtering.key),
    "status": Field("statuses", filtering.each(filtering.one_of(STATUSES))),
    "mode": Field("mode", filtering.one_of(MODES)),
    "start_after": Field("start_after", filtering.instant),
    "start_before": Field("start_before", filtering.instant),
    "text": Field("text", filtering.text),
}
_TITLES: Mapping[str, Message] = {
    "ids": _("numbers"),
    "executor": _("reaches executor"),
    "statuses": _("state"),
    "mode": _("mode"),
    "start_after": _("start from"),
    "start_before": _("start before"),
    "text": _("title"),
}


@dataclass(frozen=True, kw_only=True)
class TaskFilter(RowFilter):
    """`executor` is whom the tasks reach, themselves or by a group; `text` is part of a title."""

    NAMES: ClassVar[Mapping[str, Field]] = WIRE
    TITLES: ClassVar[Mapping[str, Message]] = _TITLES

    ids: tuple[int, ...] = ()
    executor: str = ""
    statuses: tuple[str, ...] = ()
    mode: str = ""
    start_after: datetime | None = None
    start_before: datetime | None = None
    text: str = ""


def read(given: Mapping[str, Any], names: Mapping[str, Field] = WIRE) -> TaskFilter:
    """The filter of the parameters; empty ones say nothing. Invalid names each wrong one."""
    return filtering.read(TaskFilter, given, names)


def _statuses(value: str) -> Any:
    return WIRE["status"].read(value.split(","))


def admin_names(zone: tzinfo) -> Mapping[str, Field]:
    """The parameters of the list of once tasks; days are those of the zone, both included."""
    return {
        **{name: WIRE[name] for name in ("ids", "executor", "mode")},
        "status": Field("statuses", _statuses),
        "q": WIRE["text"],
        "from_day": Field("start_after", filtering.day(zone, 0)),
        "to_day": Field("start_before", filtering.day(zone, 1)),
    }
