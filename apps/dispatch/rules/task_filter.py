"""Which tasks are meant: the filters of bulk runs, by the names of the lists and of REST."""

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
from apps.dispatch.rules import life, plan, policy

MODES = (policy.SINGLE, policy.MULTI, policy.BLOCKING)
STATUSES = (life.ACTIVE, life.PAUSED, life.DELETED)
# The columns of JSON that are searched.
PAYLOAD = ("params",)
_WIRE: Mapping[str, Field] = {
    "ids": Field("ids", filtering.numbers),
    "executor": Field("executor", filtering.key),
    "status": Field("statuses", filtering.each(filtering.one_of(STATUSES))),
    "mode": Field("mode", filtering.one_of(MODES)),
    "text": Field("text", filtering.text),
    "where": Field("where", filtering.where(PAYLOAD)),
}
_TITLES: Mapping[str, Message] = {
    "ids": _("numbers"),
    "executor": _("reaches executor"),
    "statuses": _("state"),
    "mode": _("mode"),
    "text": _("search"),
    "where": _("payload"),
}


def _instants(*names: str) -> dict[str, Field]:
    return {name: Field(name, filtering.instant) for name in names}


@dataclass(frozen=True, kw_only=True)
class TaskFilter(RowFilter):
    """`executor` is whom the tasks reach, themselves or by a group; `text` is part of a title.

    A subclass adds the period, of which PERIOD has the names of the fields.
    """

    PERIOD: ClassVar[tuple[str, str]]

    ids: tuple[int, ...] = ()
    executor: str = ""
    statuses: tuple[str, ...] = ()
    mode: str = ""
    text: str = ""
    where: tuple[Condition, ...] = ()


@dataclass(frozen=True, kw_only=True)
class OnceTaskFilter(TaskFilter):
    """The period is that of their starts."""

    PERIOD = ("start_after", "start_before")
    NAMES: ClassVar[Mapping[str, Field]] = {**_WIRE, **_instants(*PERIOD)}
    TITLES: ClassVar[Mapping[str, Message]] = {
        **_TITLES,
        "start_after": _("start from"),
        "start_before": _("start before"),
    }

    start_after: datetime | None = None
    start_before: datetime | None = None


@dataclass(frozen=True, kw_only=True)
class RotateTaskFilter(TaskFilter):
    """Those that run at some time within the period: between their start and their end."""

    PERIOD = ("runs_after", "runs_before")
    NAMES: ClassVar[Mapping[str, Field]] = {**_WIRE, **_instants(*PERIOD)}
    TITLES: ClassVar[Mapping[str, Message]] = {
        **_TITLES,
        "runs_after": _("runs after"),
        "runs_before": _("runs before"),
    }

    runs_after: datetime | None = None
    runs_before: datetime | None = None


FILTERS: Mapping[str, type[TaskFilter]] = {
    plan.ONCE: OnceTaskFilter,
    plan.ROTATE: RotateTaskFilter,
}


def read(source: str, given: Mapping[str, Any]) -> TaskFilter:
    """The filter of parameters as in REST; empty ones say nothing. Invalid names each wrong one."""
    return filtering.read(FILTERS[source], given, FILTERS[source].NAMES)


def read_list(source: str, given: Mapping[str, Any], zone: tzinfo) -> TaskFilter:
    """As `read`, of the parameters of a list; days are those of the zone, both included."""
    kind = FILTERS[source]
    after, before = kind.PERIOD
    names = {
        **{name: kind.NAMES[name] for name in ("ids", "executor", "mode")},
        "status": Field("statuses", _statuses),
        "q": kind.NAMES["text"],
        "where": Field("where", filtering.typed_where(PAYLOAD)),
        "from_day": Field(after, filtering.midnight(zone, 0)),
        "to_day": Field(before, filtering.midnight(zone, 1)),
    }
    return filtering.read(kind, given, names)


def _statuses(value: str) -> Any:
    return _WIRE["status"].read(value.split(","))
