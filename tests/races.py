"""Calls let loose at the same instant, each in a thread with a database connection of its own."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any

from django.db import connection, connections

RACE_SECONDS = 300.0


class Race:
    """How each call ended: `outcomes` has what it returned or raised, in the order of the calls."""

    def __init__(self, outcomes: list[Any]) -> None:
        self.outcomes = outcomes

    @property
    def errors(self) -> list[Exception]:
        return [outcome for outcome in self.outcomes if isinstance(outcome, Exception)]

    @property
    def results(self) -> list[Any]:
        """What the calls returned; ExceptionGroup when any of them raised."""
        if self.errors:
            raise ExceptionGroup(f"{len(self.errors)} of the racing calls failed", self.errors)
        return self.outcomes


def race(calls: Sequence[Callable[[], Any]], *, seconds: float = RACE_SECONDS) -> Race:
    """Run all calls at once; TimeoutError when one is not done after `seconds`."""
    barrier = threading.Barrier(len(calls))
    outcomes: list[Any] = [None] * len(calls)

    def run(position: int, call: Callable[[], Any]) -> None:
        try:
            # Connecting takes longer than most calls and would spread them out.
            connection.ensure_connection()
            barrier.wait(seconds)
            outcomes[position] = call()
        except Exception as error:  # noqa: BLE001 - handed to the test as this call's outcome
            outcomes[position] = error
        finally:
            connections.close_all()

    threads = [
        threading.Thread(target=run, args=(position, call), daemon=True)
        for position, call in enumerate(calls)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(seconds)
        if thread.is_alive():
            raise TimeoutError(f"a racing call is not done after {seconds:.0f} s")
    return Race(outcomes)
