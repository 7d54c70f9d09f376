"""Processes that die in the middle of their work."""

from __future__ import annotations

import json
import mmap
import os
import random
import signal
import time
import traceback
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from django.db import connection, connections

# Statements that change no rows, of a transaction or of others.
_READS = ("SELECT", "BEGIN", "SAVEPOINT", "RELEASE", "SET ", "EXPLAIN", "SHOW")


def killed_at(statement: int, work: Callable[[], object]) -> bool:
    """Do the work in a process that kills itself before its n-th statement; False when it ends
    before that."""
    return _killed(work, lambda number, _is_new: number == statement)[0]


def kills(work: Callable[[], object], *, more_than: int, every: bool = False) -> Iterator[None]:
    """Kill the work before each of its statements in turn, and yield after each kill, until it gets
    through; its statements and its end are more than so many.

    Those that follow one which only reads are left out, as the death before them leaves the same
    rows; `every` is for work that changes other things than rows.
    """
    last, is_killed = 0, True
    while is_killed:
        is_killed, seen = _killed(
            work, lambda number, is_new, last=last: number > last and (is_new or every)
        )
        # What gets through may have less to do than what was killed.
        last = max(last, seen)
        if is_killed:
            yield
    assert last >= more_than


def _killed(work: Callable[[], object], dies: Callable[[int, bool], bool]) -> tuple[bool, int]:
    """Whether the work died, and before which statement; else the number of its last.

    It dies where `dies` says so of the number of a statement, and of whether anything may have
    changed since the one before.
    """
    shared = mmap.mmap(-1, 8)
    seen, is_new = 0, True

    def count(execute: Any, sql: str, params: Any, many: bool, context: Any) -> Any:
        nonlocal seen, is_new
        seen += 1
        shared[:] = seen.to_bytes(8, "big")
        if dies(seen, is_new):
            die()
        is_new = not sql.lstrip("( ").upper().startswith(_READS)
        return execute(sql, params, many, context)

    def counted() -> None:
        commit = connection.commit

        def committed() -> None:
            nonlocal is_new
            commit()
            is_new = True

        connection.commit = committed  # type: ignore[method-assign]
        with connection.execute_wrapper(count):
            work()

    _, status = os.waitpid(fork(counted), 0)
    last = int.from_bytes(shared[:], "big")
    shared.close()
    if os.WIFSIGNALED(status):
        assert os.WTERMSIG(status) == signal.SIGKILL
        return True, last
    assert os.WEXITSTATUS(status) == 0
    return False, last


def die() -> None:
    """Kill this process."""
    os.kill(os.getpid(), signal.SIGKILL)


def fork(work: Callable[[], object]) -> int:
    """The number of a process that does the work and ends with it."""
    connections.close_all()
    child = os.fork()
    if child == 0:
        # Beside a running event loop, as the browser's, Django keeps connections apart from those
        # that it has without one, and a fork has left the loop: those here are still the parent's.
        parents = connections.all(initialized_only=True)
        for each in parents:
            del connections[each.alias]
        status = 1
        try:
            work()
            status = 0
        finally:
            os._exit(status)
    return child


class Diary:
    """What several processes note: a line for each, whoever of them dies."""

    def __init__(self, path: Path) -> None:
        self._path = path
        path.touch()

    def note(self, what: str, **fields: Any) -> None:
        line = json.dumps({"at": time.time(), "what": what, **fields}) + "\n"
        # In one piece, so that those of others do not come between.
        handle = os.open(self._path, os.O_WRONLY | os.O_APPEND)
        os.write(handle, line.encode())
        os.close(handle)

    def notes(self, *what: str) -> list[dict[str, Any]]:
        """The notes of these kinds, oldest first."""
        lines = map(json.loads, self._path.read_text().splitlines())
        return sorted((line for line in lines if line["what"] in what), key=lambda line: line["at"])


def play(
    roles: Mapping[str, Callable[[], object]],
    diary: Diary,
    *,
    seconds: float,
    is_over: Callable[[], bool],
) -> None:
    """Have a process for each of the roles play it again and again. For so long one of them is
    killed, and another one put in its place, about every half second; then they come to their end,
    which is asked for all the time.

    Notes each `kill`, also of one that killed itself, and as `error` what a role raised.
    """
    living = {_played(role, roles[role], diary): role for role in roles}
    until, limit = time.monotonic() + seconds, time.monotonic() + 20 * seconds + 60
    # A process needs a part of a second until it does anything.
    next_kill = time.monotonic() + 0.5
    try:
        while not is_over() or time.monotonic() < until:
            time.sleep(0.05)
            assert time.monotonic() < limit, "it comes to no end"
            if next_kill < time.monotonic() < until:
                os.kill(random.choice([*living]), signal.SIGKILL)
                next_kill = time.monotonic() + random.uniform(0.3, 0.7)
            for pid in [pid for pid in living if os.waitpid(pid, os.WNOHANG)[0]]:
                role = living.pop(pid)
                diary.note("kill", role=role)
                living[_played(role, roles[role], diary)] = role
    finally:
        for pid in living:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)


def _played(role: str, work: Callable[[], object], diary: Diary) -> int:
    def again_and_again() -> None:
        random.seed()
        while True:
            try:
                work()
            except Exception:  # noqa: BLE001 - whoever reads the diary judges it
                diary.note("error", role=role, error=traceback.format_exc())
                time.sleep(0.1)

    return fork(again_and_again)
