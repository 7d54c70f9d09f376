"""Work on a platform in a fork of this process, which has loaded its code already: a new process
would take a second to.

The fork has the database and the Redis of the platform. Other settings are those of the tests, so
commands that follow others are run by `tests.databases.run_manage`.
"""

from __future__ import annotations

import importlib
import os
import subprocess
import sys
import tempfile
import traceback
from collections.abc import Callable, Mapping
from functools import partial
from typing import IO, NoReturn

from tests.kills import fork

# What tests that ask for no database may not: of pytest-django, from the begin of the run on.
allow_database: Callable[[], object] = bool


def forked(
    environment: Mapping[str, str], work: Callable[[], object]
) -> subprocess.CompletedProcess[str]:
    """Do the work on the platform with this environment: `.returncode`, `.stdout`, `.stderr`."""
    with tempfile.TemporaryFile("w+") as out, tempfile.TemporaryFile("w+") as errors:
        child = fork(partial(_become, environment, work, out, errors))
        code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        out.seek(0)
        errors.seek(0)
        return subprocess.CompletedProcess([], code, out.read(), errors.read())


def manage(environment: Mapping[str, str], *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run a command of manage.py that looks at nothing but the database."""
    from manage import main

    def work() -> None:
        sys.argv = ["manage.py", *arguments]
        main()

    return forked(environment, work)


def _become(
    environment: Mapping[str, str], work: Callable[[], object], out: IO[str], errors: IO[str]
) -> NoReturn:
    sys.stdout, sys.stderr = out, errors
    code = 0
    try:
        _move_to(environment)
        work()
    except SystemExit as ended:
        code = ended.code if isinstance(ended.code, int) else int(bool(ended.code))
        errors.write(ended.code if isinstance(ended.code, str) else "")
    except BaseException:  # noqa: BLE001 - whoever reads the output judges it
        traceback.print_exc(file=errors)
        code = 1
    out.flush()
    errors.flush()
    os._exit(code)


def _move_to(environment: Mapping[str, str]) -> None:
    """Leave the database of the tests for that of the platform, which may be of another kind."""
    from django.conf import settings
    from django.db import DEFAULT_DB_ALIAS, connections

    import taskplatform.settings
    from tests.caches import clear_caches

    clear_caches()
    os.environ.clear()
    os.environ.update(environment, DJANGO_SETTINGS_MODULE="taskplatform.settings")
    platform = importlib.reload(taskplatform.settings)
    connections.settings |= connections.configure_settings(platform.DATABASES)
    if hasattr(connections._connections, DEFAULT_DB_ALIAS):
        del connections[DEFAULT_DB_ALIAS]
    settings.REDIS_URL = platform.REDIS_URL
    allow_database()
