"""The files of taskplatform/deploy fit each other, the platform and the tools that read them."""

from __future__ import annotations

import io
import json
import re
import shlex
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any, ClassVar

import pytest
import yaml
from celery.bin.celery import celery
from django.core.management import get_commands, load_command_class
from environ import Env

from taskplatform.bootstrap import tool
from tests.deploy import DEPLOY, instructions, make_secrets
from tests.environment import neutral
from tests.processes import ROOT
from tests.servers import binary

UNITS = sorted((DEPLOY / "systemd").glob("*.service"))
COMPOSE: dict[str, Any] = yaml.safe_load((DEPLOY / "compose.yaml").read_text())
SERVICES: dict[str, dict[str, Any]] = COMPOSE["services"]
OURS = {
    name: each for name, each in SERVICES.items() if each["image"] == COMPOSE["x-part"]["image"]
}
IMAGE = instructions((DEPLOY / "Dockerfile").read_text())


def run(*command: str, **environment: str) -> tuple[int, str]:
    """Exit code and output."""
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    return done.returncode, done.stdout + done.stderr


# --- What is started ------------------------------------------------------------------------------


def commands() -> Iterator[tuple[str, list[str]]]:
    """Each command that starts a part, with the file that has it."""
    for unit in UNITS:
        for line in re.findall(r"^ExecStart=(.*)", unit.read_text(), re.M):
            yield unit.name, shlex.split(line.replace("%%", "%"))
    for name, service in OURS.items():
        if "command" in service:
            yield f"compose.yaml: {name}", service["command"]
        if check := service.get("healthcheck", {}).get("test"):
            assert check[0] == "CMD-SHELL"
            yield f"compose.yaml: health of {name}", shlex.split(check[1])
    for word, value in IMAGE:
        if word == "CMD":
            yield "Dockerfile", json.loads(value)


def test_commands_are_there_with_their_options(subtests: pytest.Subtests) -> None:
    found = list(commands())
    assert len(found) > 8
    for where, command in found:
        with subtests.test(where=where):
            assert problems_of(command) == []
    assert problems_of(["celery", "-A", "taskplatform", "worker", "--hot"]) == ["--hot"]
    assert problems_of(["python", "manage.py", "web", "--hot"]) == ["--hot"]
    assert problems_of(["python", "manage.py", "brew"]) == ["brew"]


def problems_of(command: list[str]) -> list[str]:
    """Words that the program does not know."""
    program, *words = [word.rpartition("/")[2] if "/" in word else word for word in command]
    if program == "make":
        return [word for word in words if f"\n{word}:" not in (ROOT / "Makefile").read_text()]
    if program == "celery":
        assert words[:2] == ["-A", "taskplatform"]
        name, known = words[2], set[str]()
        if name not in celery.commands:
            return [name]
        for param in celery.commands[name].params:
            known.update(param.opts, param.secondary_opts)
        return [word for word in words[3:] if word.startswith("-") and word not in known]
    assert [program, words[0]] == ["python", "manage.py"]
    if words[1] not in get_commands():
        return [words[1]]
    app = get_commands()[words[1]]
    parser = (load_command_class(app, words[1]) if isinstance(app, str) else app).create_parser(
        "manage.py", words[1]
    )
    return [
        word for word in words[2:] if word[0] == "-" and word not in parser._option_string_actions
    ]


def test_variables_are_those_of_the_settings(tmp_path: Path) -> None:
    known = {*neutral(tmp_path), "DATABASE_URL", "REDIS_URL"}
    for service in OURS.values():
        assert set(service["environment"]) - known == set()
    given = [
        name for word, value in IMAGE if word == "ENV" for name in re.findall(r"(\w+)=", value)
    ]
    assert set(given) - known == {"PATH"}

    class Read(Env):
        ENVIRON: ClassVar[dict[str, str]] = {}

    Read.read_env(io.StringIO((DEPLOY / "production.env").read_text()))
    assert set(Read.ENVIRON) - known == set()


# --- Containers -----------------------------------------------------------------------------------


def test_compose_file_is_one() -> None:
    schema = ("--builtin-schema", "vendor.compose-spec")
    code, said = run(tool("check-jsonschema"), *schema, str(DEPLOY / "compose.yaml"))
    assert code == 0, said


def test_what_a_service_names_is_there(subtests: pytest.Subtests, tmp_path: Path) -> None:
    made = {file.name for file in make_secrets(tmp_path).iterdir()}
    assert {Path(each["file"]).name for each in COMPOSE["secrets"].values()} <= made
    used: set[str] = set()
    for name, service in SERVICES.items():
        with subtests.test(service=name):
            for secret in service.get("secrets", ()):
                used.add(secret if isinstance(secret, str) else secret["source"])
            for volume in service.get("volumes", ()):
                source, target = volume.split(":")[:2]
                assert (
                    (DEPLOY / source).is_file() if "/" in source else source in COMPOSE["volumes"]
                )
                assert target.startswith("/")
            for other, how in service.get("depends_on", {}).items():
                ended = how["condition"] == "service_completed_successfully"
                assert (SERVICES[other]["restart"] == "no") == ended
                assert SERVICES[other].get("healthcheck", {}).get("disable", False) == ended
            for variable, value in service.get("environment", {}).items():
                if variable.endswith("_FILE"):
                    assert value.removeprefix("/run/secrets/") in service["secrets"]
            # The image has a check, of the web server alone.
            assert "healthcheck" in service or service == COMPOSE["x-part"]
    assert used == set(COMPOSE["secrets"])
    mounted = {
        volume.split(":")[0] for each in SERVICES.values() for volume in each.get("volumes", ())
    }
    assert set(COMPOSE["volumes"]) <= mounted
    assert set(re.findall(r"server ([\w-]+):8000;", (DEPLOY / "nginx.conf").read_text())) == {
        name for name, service in OURS.items() if service == COMPOSE["x-part"]
    }
    proxy = SERVICES["proxy"]["networks"]["default"]["ipv4_address"]
    assert {service["environment"]["TRUSTED_PROXIES"] for service in OURS.values()} == {proxy}


def test_secrets_are_made_once(tmp_path: Path) -> None:
    folder = make_secrets(tmp_path)
    first = {file.name: file.read_text() for file in folder.iterdir()}
    assert len(first["secret_key"]) >= 50
    assert f":{first['database_password']}@database:3306/" in first["database_url"]
    assert folder.stat().st_mode & 0o777 == 0o700
    (folder / "certificate.pem").chmod(0o644)
    (folder / "certificate.pem").write_text("mine")

    make_secrets(tmp_path)

    assert {file.name: file.read_text() for file in folder.iterdir()} == first | {
        "certificate.pem": "mine"
    }


def test_dockerfile_follows_the_rules_of_its_linter() -> None:
    assert run(tool("hadolint"), str(DEPLOY / "Dockerfile")) == (0, "")


def test_last_stage_has_no_compiler_and_is_nobodys_in_particular() -> None:
    words = [word for word, _value in IMAGE]
    last = IMAGE[len(words) - words[::-1].index("FROM") :]
    packages = next(value for word, value in last if word == "RUN")
    assert not re.search(r"\b(gcc|g\+\+|make|build-essential|\S+-dev)\b", packages)
    assert [value for word, value in last if word == "USER"] == ["10001"]
    assert [word for word, _value in last[-3:]] == ["HEALTHCHECK", "ENTRYPOINT", "CMD"]


# --- Machines -------------------------------------------------------------------------------------


@pytest.fixture
def units(tmp_path: Path) -> Path:
    """The folder of units, whose programs are there."""
    folder = tmp_path / "units"
    shutil.copytree(DEPLOY / "systemd", folder)
    program = shutil.which("true")
    assert program
    for unit in folder.glob("*.service"):
        text = re.sub(r"^ExecStart=\S+", f"ExecStart={program}", unit.read_text(), flags=re.M)
        unit.write_text(text)
    return folder


def test_systemd_understands_the_units(units: Path) -> None:
    names = [str(each) for each in units.glob("taskplatform*") if each.is_file()]
    assert len(names) == 5
    analyze = (binary("systemd-analyze"), "verify", "--man=no")
    code, said = run(*analyze, *names, SYSTEMD_UNIT_PATH=f"{units}:")
    # What it does not know, it only mentions; and it may have to say something of other units.
    assert code == 0 and "taskplatform" not in said, said


def test_units_may_do_little(units: Path, subtests: pytest.Subtests) -> None:
    for unit in units.glob("*.service"):
        with subtests.test(unit=unit.name):
            rate = (binary("systemd-analyze"), "security", "--offline=yes", "--threshold=20")
            code, said = run(*rate, "--no-pager", str(unit), SYSTEMD_UNIT_PATH=f"{units}:")
            assert code == 0, said
    common = (units / "taskplatform-.service.d" / "common.conf").read_text()
    for line in ("User=taskplatform", "NoNewPrivileges=yes", "ProtectSystem=strict"):
        assert f"\n{line}\n" in common


def test_units_start_in_another_folder_by_the_command_of_the_docs(tmp_path: Path) -> None:
    docs = (ROOT / "taskplatform/docs/deployment.md").read_text()
    [command] = re.findall(r"\$ cd /etc/systemd/system && sudo (sed .*)", docs)
    shutil.copytree(DEPLOY / "systemd", tmp_path, dirs_exist_ok=True)
    files = [each for each in tmp_path.rglob("*") if each.is_file()]

    def places() -> set[str]:
        texts = "".join(each.read_text() for each in files)
        return set(re.findall(r"/opt/[\w-]+", texts))

    for folder in ("/opt/taskplatform-next", "/opt/taskplatform"):
        words = command.replace("|/opt/taskplatform-next|", f"|{folder}|")
        subprocess.run(["sh", "-c", words], cwd=tmp_path, check=True)
        assert places() == {folder}


def test_mariadb_understands_its_settings() -> None:
    settings = f"--defaults-file={DEPLOY / 'mariadb.cnf'}"
    code, said = run(binary("mariadbd"), settings, "--user=root", "--help", "--verbose")
    assert code == 0, said
    assert re.search(r"^innodb-buffer-pool-size +4294967296$", said, re.M)
    assert re.search(r"^collation-server +utf8mb4_bin$", said, re.M)


def test_nodes_of_a_cluster_and_their_proxy_name_each_other() -> None:
    node = (DEPLOY / "galera" / "70-galera.cnf").read_text()
    [members] = re.findall(r"gcomm://(\S+)", node)
    behind = re.findall(r"server n\d (\S+):3306", (DEPLOY / "galera" / "haproxy.cfg").read_text())
    assert behind == members.split(",")
