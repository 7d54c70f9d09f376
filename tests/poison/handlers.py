"""Handlers good and bad. Those that leave a trace append a line to the file of their context."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path
from typing import Any

from apps.jobs.handlers import Context, handler

# Its leases outlast whatever a busy machine does to a worker that lives.
QUICK = {"retry_delay_seconds": 0, "lease_seconds": 60, "max_attempts": 2, "retry_jitter": 0}


@handler("good", **QUICK)
def good(context: Any) -> Any:
    return _trace(context)


@handler("nap", **{**QUICK, "max_attempts": 5})
def nap(context: Any, ctx: Context) -> Any:
    """Sleeps for its seconds, or until the file `until` is there; its second attempt does not."""
    _trace(context)
    wakes_at = time.monotonic() + context.get("seconds", 600)
    while ctx.attempt == 1 and time.monotonic() < wakes_at:
        if "until" in context and Path(context["until"]).exists():
            break
        time.sleep(0.02)
        ctx.log("sleeps")
    return os.getpid()


handler("short-lease", **{**QUICK, "lease_seconds": 3, "max_attempts": 5})(nap)


@handler("exits", **QUICK)
def exits(context: Any) -> Any:
    os._exit(3)


@handler("segfaults", **QUICK)
def segfaults(context: Any) -> Any:
    if context.get("always", True):
        os.kill(os.getpid(), signal.SIGSEGV)
    return _trace(context)


@handler("loops", **QUICK, max_processing_seconds=1)
def loops(context: Any) -> Any:
    while True:
        pass


@handler("rants", **QUICK)
def rants(context: Any) -> Any:
    raise ValueError("x" * 10_000_000)


class Unpicklable(Exception):
    def __reduce__(self) -> Any:
        raise TypeError("not to be pickled")


@handler("unpicklable", **QUICK)
def unpicklable(context: Any) -> Any:
    raise Unpicklable(lambda: None)


def _trace(context: Any) -> int:
    if "file" in context:
        with Path(context["file"]).open("a") as file:
            file.write(f"{os.getpid()}\n")
    return os.getpid()
