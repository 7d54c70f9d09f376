"""Sweeps that run only while there is work for them: the scan of each second asks, and starts them.

On an idle machine a question is a read of an index; a message of beat and the run that it starts
take fifteen times as long.
"""

from __future__ import annotations

from collections.abc import Callable

from apps.common.db import apart

_looks: dict[str, Callable[[], bool]] = {}


def register(sweep: str, has_work: Callable[[], bool]) -> None:
    """Start this sweep, by its name, whenever a scan finds that it `has_work`: one indexed read."""
    _looks[sweep] = has_work


def wanted() -> list[str]:
    """The sweeps with work. A look that breaks is logged and keeps no other from its own."""
    found = []
    for sweep, has_work in _looks.items():
        with apart(f"The look whether {sweep} has work"):
            if has_work():
                found.append(sweep)
    return found
