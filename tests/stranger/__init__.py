"""A Django project that is not ours, with a database of its own: it has `taskplatform_client` and
nothing of the platform. `Stranger` starts one; `cases.py` are tests that run inside of it."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import urlsplit

from tests.processes import ROOT, RunningProcess

PACKAGE = ROOT / "taskplatform" / "client"
GUIDE = ROOT / "taskplatform" / "docs" / "outbox.md"
_NUDGE = """
TASKPLATFORM["NUDGE"] = os.environ.get("TP_NUDGE") == "1"
"""


class Stranger:
    """A fresh project in the folder, with its tables. `python` is one that has Django; without an
    installed `taskplatform_client` it finds the files of the checkout, and nothing else of it."""

    def __init__(
        self, folder: Path, url: str, key: str, database_url: str = "", python: str = ""
    ) -> None:
        self.folder = folder / "shop"
        self.folder.mkdir(parents=True)
        own = f"sqlite:///{self.folder / 'db.sqlite3'}"
        self.database = database_url if database_url.startswith("mysql") else own
        self._python = python or sys.executable
        self._environment = {
            **{name: os.environ[name] for name in ("PATH", "HOME", "LANG") if name in os.environ},
            **{"TASKPLATFORM_URL": url, "TASKPLATFORM_KEY": key},
            "DJANGO_SETTINGS_MODULE": "shop.settings",
            **({} if python else {"PYTHONPATH": str(_linked(folder))}),
        }
        self.run("-m", "django", "startproject", "shop", ".", DJANGO_SETTINGS_MODULE="")
        with (self.folder / "shop" / "settings.py").open("a") as settings:
            settings.write(guide()["shop/settings.py"] + _NUDGE + _database(database_url))
        shutil.copy(ROOT / "tests" / "kills.py", self.folder / "kills.py")
        self.manage("migrate", "--verbosity", "0")

    def run(self, *arguments: str, **variables: str) -> str:
        """What its Python writes; AssertionError, with all of it, when it fails."""
        done = subprocess.run(
            [self._python, "-W", "error::DeprecationWarning:taskplatform_client", *arguments],
            cwd=self.folder,
            env={**self._environment, **variables},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=300,
            check=False,
        )
        assert done.returncode == 0, done.stdout
        return done.stdout

    def put(self, name: str, text: str) -> None:
        """Write a file of the project."""
        (self.folder / name).write_text(text)

    def manage(self, *arguments: str) -> str:
        return self.run("manage.py", *arguments)

    def script(self, code: str, **variables: str) -> str:
        """What these lines write, in the project."""
        return self.run("-c", f"import django; django.setup()\n{code}", **variables)

    def start(self, log: Path, *arguments: str) -> RunningProcess:
        """A command of manage.py that goes on."""
        command = [self._python, "-u", "manage.py", *arguments]
        return RunningProcess(command, self._environment, log, root=self.folder)


def guide() -> dict[str, str]:
    """The files that docs/outbox.md lets a reader write, by their names."""
    return dict(re.findall(r"```python\n# (shop/[a-z.]+)[^\n]*\n(.*?)```", GUIDE.read_text(), re.S))


def _linked(folder: Path) -> Path:
    place = folder / "packages"
    place.mkdir()
    (place / "taskplatform_client").symlink_to(PACKAGE)
    return place


def _database(url: str) -> str:
    if not url.startswith("mysql"):
        return ""
    address = urlsplit(url)
    named: Mapping[str, object] = {
        "ENGINE": "django.db.backends.mysql",
        **{"NAME": address.path[1:], "HOST": address.hostname, "PORT": address.port},
        **{"USER": address.username, "PASSWORD": address.password or ""},
        # The account of the tests may make databases whose names begin so.
        "TEST": {"NAME": f"{address.path[1:]}_test"},
    }
    return f"DATABASES = {{'default': {dict(named)!r}}}\n"
