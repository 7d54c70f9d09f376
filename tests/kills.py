"""A process that dies in the middle of its work."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from typing import Any

from django.db import connection, connections


def killed_at(statement: int, work: Callable[[], object]) -> bool:
    """Do the work in a process that kills itself before its n-th statement; False when it ends
    before that."""
    connections.close_all()
    child = os.fork()
    if child == 0:
        # Beside a running event loop, as the browser's, Django keeps connections apart from those
        # that it has without one, and a fork has left the loop: those here are still the parent's.
        parents = connections.all(initialized_only=True)
        for each in parents:
            del connections[each.alias]
        seen = 0

        def count(execute: Any, sql: str, params: Any, many: bool, context: Any) -> Any:
            nonlocal seen
            seen += 1
            if seen == statement:
                os.kill(os.getpid(), signal.SIGKILL)
            return execute(sql, params, many, context)

        status = 1
        try:
            with connection.execute_wrapper(count):
                work()
            status = 0
        finally:
            os._exit(status)
    _, status = os.waitpid(child, 0)
    if os.WIFSIGNALED(status):
        assert os.WTERMSIG(status) == signal.SIGKILL
        return True
    assert os.WEXITSTATUS(status) == 0
    return False


def kills(work: Callable[[], object], *, more_than: int) -> Iterator[None]:
    """Kill the work before each of its statements in turn, and yield after each kill, until it gets
    through; the statements are more than so many."""
    statement = 1
    while killed_at(statement, work):
        yield
        statement += 1
    assert statement > more_than
