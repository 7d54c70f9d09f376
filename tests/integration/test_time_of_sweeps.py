"""Sweeps work for a part of the time of their lease, and only the one that has the lease."""

from __future__ import annotations

import ast
import importlib
import inspect
import operator
from collections.abc import Iterator
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any
from unittest.mock import MagicMock

import pytest
from django.conf import settings
from django.test import override_settings

from apps.common import leases
from apps.common.models import SweepLease
from apps.journal.conf import SinkAddress
from tests.frozen import FrozenClock

pytestmark = pytest.mark.django_db
LAKE = SinkAddress("lake", "file:///nowhere")


def limited() -> Iterator[tuple[Any, Any, str]]:
    """Each sweep that says how long its work may take, with the function that works: where it is
    and its name."""
    for path in sorted(Path(settings.BASE_DIR, "apps").glob("*/sweeps.py")):
        module = importlib.import_module(f"apps.{path.parent.name}.sweeps")
        for task in list(vars(module).values()):
            if not hasattr(task, "apply_async"):
                continue
            for node in ast.walk(ast.parse(inspect.getsource(task.run))):
                if isinstance(node, ast.Call) and "until" in {each.arg for each in node.keywords}:
                    place, _, called = f"module.{ast.unparse(node.func)}".rpartition(".")
                    home = operator.attrgetter(place)(MagicMock(module=module))
                    yield task, home, called


def test_each_ends_within_its_lease_and_works_with_it_alone(
    frozen_clock: FrozenClock, monkeypatch: pytest.MonkeyPatch, subtests: pytest.Subtests
) -> None:
    asked: list[datetime] = []
    ends: list[datetime | None] = []

    def work(*_args: Any, until: datetime, **_options: Any) -> Any:
        asked.append(until)
        held = SweepLease.objects.filter(held_until__isnull=False)
        ends.extend(held.values_list("held_until", flat=True))
        return MagicMock()

    found = list(limited())
    assert len(found) > 12
    for task, home, called in found:
        arguments = ["lake"] if task.name == "journal.carry" else []
        with (
            subtests.test(task=task.name),
            monkeypatch.context() as patched,
            override_settings(JOURNAL_SINKS=(LAKE,)),
        ):
            asked.clear()
            ends.clear()
            patched.setattr(home, called, work)
            task.run(*arguments)
            now = frozen_clock.instant
            [until], [end] = asked, ends
            assert now < until < end
            patched.setattr(leases, "_take_free", lambda *_: False)
            task.run(*arguments)
            assert asked == [until]
            assert end - now <= timedelta(minutes=2)
