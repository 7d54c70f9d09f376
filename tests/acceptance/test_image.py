"""The commands of the Dockerfile make what the compose file starts, in an empty folder."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from taskplatform.bootstrap import BUILD_PACKAGES
from tests.databases import empty_database
from tests.deploy import DEPLOY, instructions, make_secrets
from tests.processes import ROOT, RunningProcess, free_port
from tests.serving import await_answer

# Of a container: here they are folders of the test.
PLACES = ("/opt/taskplatform", "/var/lib/taskplatform", "/run/secrets")
# What changes the machine itself: its packages are those that the tests need, too.
OF_DEBIAN = ("apt-get update", "rm -rf /var/lib/apt/lists/*")


class Image:
    """A folder that becomes what the instructions say. All stages share it, because a virtual
    environment works only where it was made; what Debian installs is there already."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.folder = root
        path = os.environ["PATH"]
        self.variables = {"PATH": f"{Path(sys.executable).parent}:{path}:/usr/sbin"}
        self.variables |= {
            name: os.environ[name] for name in ("HOME", "LANG") if name in os.environ
        }
        self.packages: list[str] = []
        self.said: dict[str, str] = {}
        self.users = root / "etc" / "passwd"
        self.users.parent.mkdir()
        for file in (self.users, self.users.with_name("group")):
            file.touch()

    def moved(self, text: str) -> str:
        for place in PLACES:
            text = re.sub(rf"(?<![\w.]){place}\b", f"{self.root}{place}", text)
        return text

    def carry_out(self, word: str, value: str) -> None:
        if word == "RUN":
            for command in value.split(" && "):
                self.run(command)
        elif word == "COPY":
            *sources, target = [each for each in value.split() if not each.startswith("--")]
            self.copy(sources, target, from_stage="--from=" in value)
        elif word == "WORKDIR":
            self.folder = Path(self.moved(value))
            self.folder.mkdir(parents=True, exist_ok=True)
        elif word == "ENV":
            for name, text in (each.split("=", 1) for each in shlex.split(value)):
                self.variables[name] = self.moved(text).replace("$PATH", self.variables["PATH"])
        else:
            self.said[word] = value

    def run(self, command: str) -> None:
        if command.startswith("apt-get install "):
            words = command.split()[2:]
            self.packages += [each for each in words if not each.startswith("--")]
        elif command not in OF_DEBIAN:
            here = re.sub(r"^useradd ", f"useradd --prefix {self.root} ", self.moved(command))
            subprocess.run(["sh", "-c", here], cwd=self.folder, env=self.variables, check=True)

    def copy(self, sources: list[str], target: str, *, from_stage: bool) -> None:
        for source in sources:
            if from_stage:
                assert source == target and Path(self.moved(source)).is_dir()
            elif (ROOT / source).is_dir():
                ignored = shutil.ignore_patterns("__pycache__")
                shutil.copytree(ROOT / source, self.folder / target, ignore=ignored)
            else:
                shutil.copy(ROOT / source, self.folder / target)


@pytest.mark.long
def test_image_migrates_and_serves(tmp_path: Path) -> None:
    image = Image(tmp_path)
    for word, value in instructions((DEPLOY / "Dockerfile").read_text()):
        image.carry_out(word, value)

    assert set(BUILD_PACKAGES) - {"python3-dev"} <= set(image.packages)
    assert image.users.read_text().startswith(f"taskplatform:!:{image.said['USER']}:")
    state = Path(image.moved("/var/lib/taskplatform"))
    # The key of the build is gone; the files are there.
    assert sorted(path.name for path in state.iterdir() if path.is_file()) == []
    assert (state / "static" / "staticfiles.json").exists() and (state / "running").is_dir()

    secrets = make_secrets(tmp_path)
    port = str(free_port())
    with empty_database(tmp_path) as url:
        (secrets / "database_url").chmod(0o644)
        (secrets / "database_url").write_text(url)
        variables = {
            **image.variables,
            "SECRET_KEY_FILE": str(secrets / "secret_key"),
            "DATABASE_URL_FILE": str(secrets / "database_url"),
            "ALLOWED_HOSTS": "tasks.example.org,127.0.0.1",
            "HTTPS": "1",
            "PORT": port,
        }
        subprocess.run(
            ["python", "manage.py", "migrate"], cwd=image.folder, env=variables, check=True
        )
        command = json.loads(image.said["CMD"])
        web = RunningProcess(command, variables, tmp_path / "web.log", root=image.folder)
        try:
            await_answer(web, int(port))
            check = json.loads(image.said["HEALTHCHECK"].partition(" CMD ")[2])
            check = [word.replace(":8000/", f":{port}/") for word in check]
            assert subprocess.run(check, env=variables, check=False).returncode == 0
        finally:
            web.end()
        assert subprocess.run(check, env=variables, check=False).returncode != 0
