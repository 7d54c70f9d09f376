"""One call of asyncflow with its caller, and the type of task that it names."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from apps.asyncflow import dialects as d
from apps.asyncflow.dialects import Dialect
from apps.asyncflow.translate import (
    Refused,
)
from apps.jobs.models.bounds import Bounds
from apps.jobs.rules.caller import Caller
from apps.jobs.rules.type_snapshot import TypeSnapshot
from apps.jobs.services.type_snapshots import type_snapshots

MAX_WORKER = 100
_NEW_TYPE_SECONDS = 0.2


@dataclass(frozen=True, kw_only=True)
class CallRequest:
    """One request with its caller: `values` is the query and the body by readable names, the query
    first.

    `may_hold`: the key may hold tasks, `masks`: the answer masks secrets.
    """

    dialect: Dialect
    values: Mapping[str, Any]
    caller: Caller
    bounds: Bounds
    actor: str
    address: str
    may_hold: bool
    masks: bool

    @property
    def worker(self) -> str:
        """The name of the worker. Copies at one address are one worker for each dialect: their
        calls do not distinguish them."""
        end = f"/{self.dialect.name}"
        return f"{self.caller.client}@{self.address}"[: MAX_WORKER - len(end)] + end


def mark_of(dialect: Dialect) -> str:
    """The mark by which the register knows workers of the dialect."""
    return f"asyncflow {dialect.name}"


def find_type(request: CallRequest, name: str) -> TypeSnapshot:
    """The type of that name, else the only one that differs in capitals."""
    if not name:
        raise Refused(d.INPUT, "Name the type of task.")
    for max_age in (1.0, _NEW_TYPE_SECONDS):
        found = spellings_of(request, name, max_age)
        if name in found:
            return found[name]
        if len(found) == 1:
            return next(iter(found.values()))
    raise Refused(d.UNKNOWN_TYPE, f"There is no type {name[:80]!r}; register it first.")


def spellings_of(request: CallRequest, name: str, max_age: float) -> dict[str, TypeSnapshot]:
    """The types of that name, in whatever capitals, that the key may use."""
    return {
        known: type_
        for known, type_ in type_snapshots(max_age=max_age).items()
        if known.lower() == name.lower() and request.caller.may_use(known)
    }


def unknown_task(task: str) -> Refused:
    return Refused(d.UNKNOWN_TASK, f"There is no task {task[:80]!r}.")
