"""The tests and the processes that they start take nothing from the shell of the developer."""

from __future__ import annotations

import re
from pathlib import Path

from taskplatform.environment import BASE_DIR
from tests.environment import neutral

# The command of the tests sets these.
GIVEN = {"DATABASE_URL", "REDIS_URL"}


def test_every_variable_of_the_platform_is_shut_out(tmp_path: Path) -> None:
    settings = (BASE_DIR / "taskplatform" / "settings.py").read_text()
    read = set(re.findall(r"environment\.\w+\(\s*\"([A-Z_]+)\"", settings))
    for file in BASE_DIR.glob("apps/*/conf.py"):
        read.update(re.findall(r"^    ([A-Z_]+) = ", file.read_text(), re.MULTILINE))
    assert len(read) > 50

    assert read - GIVEN - set(neutral(tmp_path)) == set()
