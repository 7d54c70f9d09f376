"""The calls of asyncflow by name, each with its scope and its number for a failure.

A call takes a CallRequest and returns the value of its answer; Refused and other PlatformErrors say
why it did nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from apps.access.rules.clients import Binding, Scope
from apps.asyncflow import dialects as d
from apps.asyncflow.call_request import CallRequest
from apps.asyncflow.reads import count, get, list_of_user, list_tasks
from apps.asyncflow.task_types import configure, list_settings, register_type
from apps.asyncflow.work import create, hold, set_task


class Call(NamedTuple):
    """A call: the function that carries it out, its scope, and its number for a failure."""

    run: Callable[[CallRequest], Any]
    scope: Scope
    failure: int

    @property
    def bindings(self) -> frozenset[Binding]:
        """The bindings that a key may have for the call: holding is not narrowed by users."""
        takes_users = self.scope in (Scope.READ, Scope.SUBMIT)
        return frozenset(Binding) if takes_users else frozenset({Binding.JOB_TYPES})


CALLS: Mapping[str, Call] = {
    "settings": Call(list_settings, Scope.HOLD, d.CONFIG),
    "hold": Call(hold, Scope.HOLD, d.INPUT),
    "set": Call(set_task, Scope.HOLD, d.SET),
    "create": Call(create, Scope.SUBMIT, d.CREATE),
    "get": Call(get, Scope.READ, d.UNKNOWN_TASK),
    "list": Call(list_tasks, Scope.READ, d.LIST),
    "list_of_user": Call(list_of_user, Scope.READ, d.LIST),
    "count": Call(count, Scope.READ, d.INPUT),
    "register": Call(register_type, Scope.OPERATE, d.REGISTER),
    "configure": Call(configure, Scope.OPERATE, d.CONFIG),
}
