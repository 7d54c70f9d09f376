"""An environment beside .venv with the newest Python, Django and theme that there are.

The locks keep one version of each for all Pythons; here is what people get who install by the names
and ranges of pyproject.toml.
"""

from __future__ import annotations

import os
import shutil
import tomllib
from collections.abc import Iterator
from pathlib import Path

from taskplatform.bootstrap import ROOT, CannotGoOn, last_line, pip, run, say, succeeds

PYTHONS = ("3.14", "3.13", "3.12")
FOLDER = Path(ROOT, ".venv-next")
NEEDED = {"django": "6", "django-unfold": "0.92"}


def python() -> str:
    """The interpreter of the environment, which is made or brought up to date.

    CannotGoOn without a Python that is new enough, and where pip finds nothing new for it.
    """
    version, base = newest()
    interpreter = str(FOLDER / "bin" / "python")
    if not _is(version, interpreter):
        say(f"Creating the virtual environment {FOLDER.name} with Python {version}.")
        code, output = run([base, "-m", "venv", "--clear", str(FOLDER)], quiet=True)
        if code:
            raise CannotGoOn(f"{FOLDER.name} could not be created: {last_line(output)}")
    say(f"Installing the newest packages into {FOLDER.name}; this takes a minute.")
    pip(["--upgrade", "--upgrade-strategy", "eager", *requirements()], interpreter)
    return interpreter


def requirements() -> list[str]:
    """All that pyproject.toml asks for, and what makes Django and the theme new."""
    project = tomllib.loads(Path(ROOT, "pyproject.toml").read_text())
    extras = project["project"]["optional-dependencies"].values()
    groups = [project["project"]["dependencies"], *extras, project["dependency-groups"]["dev"]]
    new = [f"{name}>={version}" for name, version in NEEDED.items()]
    return [*new, *dict.fromkeys(each for group in groups for each in group)]


def newest() -> tuple[str, str]:
    """The version and the path of the newest Python of this machine; CannotGoOn without one."""
    for version in PYTHONS:
        for path in _found(version):
            # A name in the PATH may belong to a tool that knows no such version.
            if _is(version, path):
                return version, path
    raise CannotGoOn(
        f"The newest Django needs Python {PYTHONS[-1]} or newer with its venv module, and none is "
        f"there. Install one, on Debian 13 or Ubuntu 24.04 by: sudo apt-get install python3-venv; "
        f"elsewhere by: pyenv install {PYTHONS[-2]}"
    )


def _found(version: str) -> Iterator[str]:
    if found := shutil.which(f"python{version}"):
        yield found
    pyenv = Path(os.environ.get("PYENV_ROOT") or Path.home() / ".pyenv")
    yield from sorted(str(each) for each in pyenv.glob(f"versions/*/bin/python{version}"))


def _is(version: str, path: str) -> bool:
    code = f"import ensurepip, sys, venv; sys.exit('%d.%d' % sys.version_info[:2] != {version!r})"
    return succeeds([path, "-c", code])
