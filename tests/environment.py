"""The environment of the tests and of the processes they start."""

from __future__ import annotations

import os
import random
import shutil
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import TypeVar

from taskplatform.conf import ALL

T = TypeVar("T")

_MEMORY = Path("/dev/shm")  # noqa: S108
_MEMORY_BYTES = 2 * 2**30


def new_folder(prefix: str, *, in_memory: bool = True) -> Path:
    """A new folder for temporary data: below TMPDIR if that is set, else in memory if it has room.

    Creating a test database takes a twentieth of the time there.
    """
    is_wanted = in_memory and "TMPDIR" not in os.environ and _MEMORY.is_dir()
    has_room = is_wanted and shutil.disk_usage(_MEMORY).free > _MEMORY_BYTES
    return Path(tempfile.mkdtemp(prefix=prefix, dir=_MEMORY if has_room else None))


# Set for the long run, which draws all examples.
ALL_EXAMPLES = "ALL_EXAMPLES"


def examples(number: int) -> int:
    """So many drawn examples in the long run, and in the short one half of them on SQLite and a
    third on MariaDB: each takes three times as long there, and what is new to it are the
    statements, not the cases."""
    if os.environ.get(ALL_EXAMPLES):
        return number
    return max(number // (3 if os.environ.get("DATABASE_URL") else 2), 5)


class Deal:
    """Deals each item of a walk a share of a list: all of it in the long run, every `of`th in the
    short one, drawn by the seed.

    The share of the next item begins one further, so `of` items in a row are dealt the whole list.
    """

    def __init__(self, of: int) -> None:
        self._of = 1 if os.environ.get(ALL_EXAMPLES) else of
        self._next = random.randrange(self._of)

    def __call__(self, items: Sequence[T]) -> Sequence[T]:
        dealt = items[self._next :: self._of]
        self._next = (self._next + 1) % self._of
        return dealt


def neutral(var_dir: Path) -> dict[str, str]:
    """Every variable that changes what the settings do, but for DATABASE_URL and REDIS_URL, which
    the command of the tests sets.

    All are named, so that neither the shell nor a .env of the developer decides anything.
    """
    declared: dict[str, str] = {}
    for conf in ALL:
        for name, setting in conf.declared().items():
            declared[name] = ""
            if setting.is_secret:
                declared[f"{name}_FILE"] = ""
    del declared["DATABASE_URL"], declared["REDIS_URL"]
    return declared | {
        "VAR_DIR": str(var_dir),
        "SECRET_KEY": "a-key-for-tests-" * 4,
        "ALLOWED_HOSTS": "127.0.0.1,localhost",
        # Whatever the number of cores.
        "WEB_WORKERS": "1",
        "WORKER_SLOTS": "4",
        # Types that tests of workers submit jobs of.
        "JOB_READY_MADE": "echo,sleep,management_command,http_request",
    }
