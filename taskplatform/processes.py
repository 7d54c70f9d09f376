"""What a process that starts others has to ask of the system."""

from __future__ import annotations

import ctypes
import os
import signal
import sys
from collections.abc import Callable
from contextlib import suppress
from types import FrameType

_STOP_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
# Of prctl(2).
_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36


def on_stop(call: Callable[[int, FrameType | None], None]) -> None:
    """Call it on each signal that asks this process to stop: SIGINT, SIGTERM, SIGHUP."""
    for number in _STOP_SIGNALS:
        # Under nohup the end of the terminal is to be ignored. A shell that starts commands in the
        # background has them ignore SIGINT too, but then kill -INT would do nothing.
        if number != signal.SIGHUP or signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, call)


def end_with_parent(parent: int) -> Callable[[], None]:
    """What a child does before its command: ask for SIGTERM at the end of its parent, so that
    kill -9 for the supervisor leaves nothing running."""
    if sys.platform != "linux":
        return lambda: None
    # Looked up here: little is safe between fork and exec.
    prctl = ctypes.CDLL(None).prctl

    def prepare() -> None:
        prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
        if os.getppid() != parent:
            os._exit(1)

    return prepare


def adopt_orphans() -> None:
    """Become the parent of what those that die below this process leave behind. Else the first
    process of the system does, which in a container may bury nobody, or take its time."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1)


def kill_group(group: int) -> bool:
    """kill -9 for all processes of the group; False when there is none, not even a dead one."""
    try:
        os.killpg(group, signal.SIGKILL)
    except ProcessLookupError:
        return False
    return True


def bury(group: int) -> None:
    """Take the dead of the group that are children of ours, so that they are gone."""
    with suppress(ChildProcessError):
        while os.waitpid(-group, os.WNOHANG) != (0, 0):
            continue


def bury_orphans(own: set[int]) -> None:
    """The same with all dead children that are not among those, whose exit codes are awaited."""
    if sys.platform != "linux":
        # Nothing was adopted, and not every system can look at the dead without taking them.
        return
    with suppress(ChildProcessError):
        while dead := os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT):
            if dead.si_pid in own:
                return
            os.waitpid(dead.si_pid, 0)
