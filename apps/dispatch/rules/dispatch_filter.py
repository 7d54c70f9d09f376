"""Which dispatches are meant: the filter of bulk runs, by the names of the list and of REST."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, tzinfo
from typing import Any, ClassVar

from apps.common import filtering
from apps.common.filtering import Field, RowFilter
from apps.common.json_path import Condition
from apps.common.messages import Message
from apps.common.messages import Message as _
from apps.dispatch.rules import policy

STATES = (
    policy.OPEN,
    policy.SUCCEEDED,
    policy.FAILED,
    policy.EXPIRED,
    policy.RELEASED,
    policy.CANCELLED,
)
SOURCES = ("once", "rotate")
# The columns of JSON that are searched.
PAYLOAD = ("params", "result")
WIRE: Mapping[str, Field] = {
    "ids": Field("ids", filtering.numbers),
    "executor": Field("executor", filtering.key),
    "state": Field("states", filtering.each(filtering.one_of(STATES))),
    "source": Field("source", filtering.one_of(SOURCES)),
    "task": Field("task", filtering.number),
    "dispatched_after": Field("dispatched_after", filtering.instant),
    "dispatched_before": Field("dispatched_before", filtering.instant),
    "text": Field("text", filtering.text),
    "where": Field("where", filtering.where(PAYLOAD)),
}
_TITLES: Mapping[str, Message] = {
    "ids": _("numbers"),
    "executor": _("executor"),
    "states": _("state"),
    "source": _("source"),
    "task": _("task"),
    "dispatched_after": _("handed out from"),
    "dispatched_before": _("handed out before"),
    "text": _("search"),
    "where": _("payload"),
}


@dataclass(frozen=True, kw_only=True)
class DispatchFilter(RowFilter):
    """`executor` is a user, or a group for its present members; `text` a number or an executor."""

    NAMES: ClassVar[Mapping[str, Field]] = WIRE
    TITLES: ClassVar[Mapping[str, Message]] = _TITLES

    ids: tuple[int, ...] = ()
    executor: str = ""
    states: tuple[str, ...] = ()
    source: str = ""
    task: int | None = None
    dispatched_after: datetime | None = None
    dispatched_before: datetime | None = None
    text: str = ""
    where: tuple[Condition, ...] = ()


def read(given: Mapping[str, Any], names: Mapping[str, Field] = WIRE) -> DispatchFilter:
    """The filter of the parameters; empty ones say nothing. Invalid names each wrong one."""
    return filtering.read(DispatchFilter, given, names)


def admin_names(zone: tzinfo) -> Mapping[str, Field]:
    """The parameters of the list of dispatches; days are those of the zone, both included."""
    return {
        **{name: WIRE[name] for name in ("ids", "executor", "state", "source", "task")},
        "q": WIRE["text"],
        "where": Field("where", filtering.typed_where(PAYLOAD)),
        "from_day": Field("dispatched_after", filtering.midnight(zone, 0)),
        "to_day": Field("dispatched_before", filtering.midnight(zone, 1)),
        "since": WIRE["dispatched_after"],
        "until": WIRE["dispatched_before"],
    }
