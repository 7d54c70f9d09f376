"""Scenes that many tests share: played once in a process, then put back as rows."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Any, Generic, TypeVar

from django.apps import apps
from django.db import connection, models

from apps.common import ids
from tests.frozen import FrozenClock

# People and their roles are those of the test itself, and so are the leases of its process.
APPS = ("journal", "dispatch", "jobs", "schedules", "flows", "bulk", "reports")

T = TypeVar("T")


# Ids that stay free for what a test has made before the scene.
ROOM = 1000


class Scene(Generic[T]):
    """`Scene(play)`: the rows that `play` makes, and what it returns of them."""

    def __init__(self, play: Callable[[FrozenClock], T]) -> None:
        self._play = play
        self._kept: tuple[T, datetime, list[list[models.Model]]] | None = None
        self._inserts: list[tuple[str, Any]] = []

    def show(self, clock: FrozenClock) -> T:
        """Let the rows be there, and the clock stand where the scene ends."""
        ids.next_ids(ROOM)
        if self._kept is None:
            before = [{row.pk for row in model._base_manager.all()} for model in _models()]
            played = self._play(clock)
            rows = [
                [row for row in model._base_manager.all() if row.pk not in known]
                for model, known in zip(_models(), before, strict=True)
            ]
            self._kept = played, clock.instant, rows
            return played
        played, ends_at, rows = self._kept
        clock.move_to(ends_at)
        if self._inserts:
            # Composing the same statements for each test would take longer than running them.
            with connection.cursor() as cursor:
                for sql, values in self._inserts:
                    cursor.execute(sql, values)
        else:
            with connection.execute_wrapper(self._keep):
                for model, own in zip(_models(), rows, strict=True):
                    model._base_manager.bulk_create(own)
        # The ids of the test go on behind those of the scene.
        ids.next_ids(sum(map(len, rows)))
        return played

    def _keep(self, execute: Any, sql: str, values: Any, many: bool, context: Any) -> Any:
        self._inserts += [(sql, values)] if sql.startswith("INSERT") else []
        return execute(sql, values, many, context)


def _models() -> list[type[models.Model]]:
    return [model for name in APPS for model in apps.get_app_config(name).get_models()]
