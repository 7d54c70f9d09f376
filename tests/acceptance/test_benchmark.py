"""`manage.py benchmark` as an operator runs it."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from apps.reports.rules.outcomes import SOURCES
from tests.acceptance.conftest import Template
from tests.benchmark import costly
from tests.benchmark.reports import PALETTE
from tests.processes import STOP_SECONDS, RunningProcess, eventually

Manage = Callable[..., subprocess.CompletedProcess[str]]

WORDS = ["figure", "value", "unit", "baseline", "ratio", "goal", "met"]


@pytest.fixture
def template_database(planned_database: Template) -> str:
    return planned_database.url


@pytest.fixture
def database(environment: dict[str, str]) -> Path:
    """The operator's, with what the demo plans."""
    Path(environment["VAR_DIR"]).mkdir(exist_ok=True)
    return Path(environment["DATABASE_URL"].removeprefix("sqlite:///"))


def content_of(database: Path) -> list[str]:
    connection = sqlite3.connect(database)
    try:
        return list(connection.iterdump())
    finally:
        connection.close()


@pytest.mark.long
@pytest.mark.sqlite
def test_quick_run_on_sqlite_prints_lines_and_leaves_the_data_alone(
    database: Path, manage: Manage, environment: Mapping[str, str]
) -> None:
    before, files = content_of(database), sorted(database.parent.glob("*.sqlite3"))
    measured = manage("benchmark", "dispatch", "--quick", "--json")
    assert measured.returncode == 0, measured.stderr
    [figure] = map(json.loads, measured.stdout.splitlines())
    assert list(figure) == WORDS
    assert figure["figure"] == "pull + callback in process, sqlite"
    assert (figure["unit"], figure["baseline"], figure["ratio"]) == ("pairs/s", None, None)
    assert figure["goal"] == ">= 300"
    assert figure["met"] is (figure["value"] >= 300)
    assert content_of(database) == before
    assert sorted(database.parent.glob("*.sqlite3")) == files


@pytest.mark.long
@pytest.mark.sqlite
def test_every_page_is_shown_beside_a_short_history(
    database: Path, manage: Manage, environment: Mapping[str, str]
) -> None:
    before = content_of(database)
    measured = manage("benchmark", "reports", "--quick", "--json")
    assert measured.returncode == 0, measured.stderr
    figures = {each["figure"]: each for each in map(json.loads, measured.stdout.splitlines())}
    names = [name.partition(" (")[0] for name in figures]
    first = 11 + len(PALETTE) + len(SOURCES)
    assert names[:first] == [
        "history of 26,000 entries and 5,000 live jobs",
        "totals of all of it",
        "overview as a whole",
        "overview refresh, trends",
        "overview refresh",
        "overview refresh, troubles anew",
        *(f"palette, {term}" for term in PALETTE),
        *(f"report of {source} by hour, 90d" for source in SOURCES),
        "plan to cancel all jobs of a type",
        "plan to retry all that failed",
        "plan to raise the priority of all that wait",
        "plan over rare payloads",
        "plan over every job",
    ]
    *pages, queries, rollups = list(figures.values())[first:]
    assert len(pages) >= 12
    assert [page["value"] for page in pages] == sorted(
        (page["value"] for page in pages), reverse=True
    )
    assert {(page["unit"], page["goal"]) for page in pages} == {("ms", "<= 200")}
    assert queries["goal"] == "<= 30"
    assert rollups["figure"] == "rollups of 1,000 entries/s, one process"
    assert (rollups["unit"], rollups["goal"]) == ("% of a core", "<= 20")
    # A thousand a second cannot be added up in next to no time.
    assert rollups["value"] > 0.1
    assert content_of(database) == before


@pytest.mark.long
@pytest.mark.sqlite
def test_costliest_requests_of_the_api_are_answered(database: Path, manage: Manage) -> None:
    measured = manage("benchmark", "api", "--quick", "--json")
    assert measured.returncode == 0, measured.stderr
    figures = {each["figure"]: each for each in map(json.loads, measured.stdout.splitlines())}
    beside = [name for name, each in figures.items() if each["baseline"]]
    assert {name.partition(":")[0] for name in beside if "/" in name} == {
        body.address for body in costly.BODIES
    }
    assert {figures[name]["goal"] for name in beside} == {"<= 4"}
    assert [figures[name]["goal"] for name in figures if name not in beside] == ["<= 1"] * 2


def processes_with(variable: str) -> dict[int, str]:
    """The commands of all processes that have this in their environment."""
    found = {}
    for folder in Path("/proc").glob("[0-9]*"):
        # A process that is ending, or another user's.
        with contextlib.suppress(OSError):
            if variable.encode() in (folder / "environ").read_bytes().split(b"\0"):
                command = (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode()
                found[int(folder.name)] = command
    return found


@pytest.mark.long
def test_benchmark_that_is_ended_has_told_its_figures_and_leaves_nothing(
    start: Callable[..., RunningProcess],
    tmp_path: Path,
    subtests: pytest.Subtests,
) -> None:
    """Also when nothing can tidy up."""
    term, kill = signal.SIGTERM, signal.SIGKILL
    cases = [(["jobs", "drain", "pick-up"], term), (["jobs", "pick-up"], kill)]
    for arguments, number in cases:
        with subtests.test(arguments=arguments, number=number):
            folder = tmp_path / str(int(number))
            folder.mkdir()
            command = [sys.executable, "manage.py", "benchmark", *arguments, "--quick", "--json"]
            benchmark = start(*command, TMPDIR=str(folder))
            variable = f"TMPDIR={folder}"
            eventually(
                lambda variable=variable: (
                    sum("celery" in line for line in processes_with(variable).values()) > 1
                )
            )
            told = [line for line in benchmark.output.splitlines() if line.startswith("{")]
            assert [json.loads(line)["figure"] for line in told] == (
                ["drain in process, SQLite"] if "drain" in arguments else []
            )
            benchmark.process.send_signal(number)

            eventually(lambda variable=variable: not processes_with(variable))
            assert benchmark.process.wait(STOP_SECONDS) == (130 if number == term else -kill)
            if number == term:
                assert benchmark.output.endswith("CommandError: The benchmark was stopped.\n")
                assert not list(folder.iterdir())


@pytest.mark.long
@pytest.mark.mariadb
def test_benchmark_that_is_ended_leaves_no_web_server(
    start: Callable[..., RunningProcess], tmp_path: Path
) -> None:
    """Nor one that is just starting."""
    command = [sys.executable, "manage.py", "benchmark", "workers", "--quick"]
    # Beside the database of this one its user may make no other.
    whole = os.environ["DATABASE_URL"]
    benchmark = start(*command, TMPDIR=str(tmp_path), DATABASE_URL=whole)
    variable = f"TMPDIR={tmp_path}"
    eventually(
        lambda: sum("granian" in line for line in processes_with(variable).values()) > 1,
        seconds=120,
    )
    benchmark.process.terminate()

    eventually(lambda: not processes_with(variable))
    assert benchmark.process.wait(STOP_SECONDS) == 130


@pytest.mark.long
@pytest.mark.mariadb
def test_bare_views_stand_beside_dispatch_and_workers_over_http(
    start: Callable[..., RunningProcess], tmp_path: Path, subtests: pytest.Subtests
) -> None:
    """Each in a web server of its own."""
    wanted = {
        "dispatch": {"pull over HTTP", "callback over HTTP", "empty answer"},
        "workers": {"hold + settle over HTTP, one by one", "empty hold beside an empty DRF view"},
    }
    for area, names in wanted.items():
        with subtests.test(area=area):
            command = [sys.executable, "manage.py", "benchmark", area, "http", "--quick", "--json"]
            whole = os.environ["DATABASE_URL"]
            benchmark = start(*command, TMPDIR=str(tmp_path), DATABASE_URL=whole)
            assert benchmark.process.wait(300) == 0, benchmark.output
            lines = [line for line in benchmark.output.splitlines() if line.startswith("{")]
            figures = {each["figure"]: each for each in map(json.loads, lines)}
            assert names <= figures.keys()
            assert all(figures[name]["baseline"] > 0 for name in names)
