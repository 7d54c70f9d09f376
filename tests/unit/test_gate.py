"""The order and the ends of the checks, and what a lock file may hold."""

from __future__ import annotations

from contextlib import nullcontext
from itertools import product
from pathlib import Path

import pytest
from _pytest.mark.expression import Expression

from taskplatform.bootstrap import CannotGoOn
from tests import gate, locks, newest

LOCK = """\
amqp==5.4.2 \\
    --hash=sha256:aa \\
    --hash=sha256:bb
celery==5.7.0 \\
    --hash=sha256:cc
"""


pytestmark = pytest.mark.usefixtures("signal_handlers")


@pytest.fixture
def commands(monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """The commands that the gate runs; those that name "bad" fail. It compiles nothing."""
    ran: list[list[str]] = []

    def run(
        command: list[str], environment: dict[str, str] | None = None, quiet: bool = False
    ) -> tuple[int, str]:
        assert environment is not None
        assert environment["DATABASE_URL"] == "" and environment["REDIS_URL"] == ""
        ran.append(command)
        return (1, "what is bad\n") if "bad" in command else (0, "all fine\n")

    monkeypatch.setattr(gate, "run", run)
    monkeypatch.setattr(gate, "compiling", nullcontext)
    return ran


def test_check_stops_at_the_first_failure_and_names_it(
    commands: list[list[str]], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(
        gate, "CHECKS", [("lint", ["good"]), ("types", ["bad"]), ("contracts", ["good"])]
    )

    code = gate.main("check")

    shown = capsys.readouterr()
    assert code == 1 and commands == [["good"], ["bad"]]
    assert "what is bad" in shown.out and "all fine" not in shown.out
    assert shown.err == "The check failed at: types. Its output is above.\n"


def test_suite_on_the_servers_follows_only_a_good_one_on_sqlite(
    commands: list[list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gate, "CHECKS", [])
    assert gate.main("test") == 0
    assert [("tests.servers" in command) for command in commands] == [False, True]
    assert "-m" not in commands[0][3:]
    *_, marks = commands[1][: -len(gate.marked_files())]
    assert marks == "(both or mariadb) and not long and not cluster"
    commands.clear()

    monkeypatch.setattr(gate, "PYTEST", ["bad"])

    assert gate.main("test") == 1
    assert len(commands) == 1


def test_files_of_the_second_round_are_all_that_have_a_marked_test(
    request: pytest.FixtureRequest,
) -> None:
    """Of those that this run has collected."""
    marked = {str(item.path) for item in request.session.items if item.get_closest_marker("both")}
    assert marked <= set(gate.marked_files())


def test_every_test_runs_in_a_short_round_or_in_a_long_one(
    commands: list[list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """On SQLite what is neither long nor of MariaDB, and everything on MariaDB in one of two."""
    monkeypatch.setattr(gate, "CHECKS", [])
    monkeypatch.setattr(newest, "newest", lambda: ("3.13", "python3.13"))
    monkeypatch.setattr(newest, "python", lambda: "python-next")
    assert [gate.main("test"), gate.main("test-long")] == [0, 0]
    # Those of the newest packages are the short ones without a browser, and one walk in it.
    again = [command for command in commands if command[0] == "python-next"]
    assert [command[-1] for command in again] == ["--ignore=tests/browser", gate.WALK]
    marks = [gate.SHORT]
    for command in [each for each in commands[1:] if each not in again]:
        last = len(command) - 1 - command[::-1].index("-m")
        marks.append(command[last + 1])
    short, on_both, long, the_rest, cluster = map(Expression.compile, marks)
    for names in (set(each) for each in product(["both", ""], ["mariadb", ""], ["long", ""])):

        def has(name: str, names: set[str] = names) -> bool:
            return name in names

        assert short.evaluate(has) != long.evaluate(has)
        assert on_both.evaluate(has) != the_rest.evaluate(has)
        assert not cluster.evaluate(has)


def test_long_run_begins_with_a_python_for_the_newest_packages(
    commands: list[list[str]], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(newest, "_found", lambda version: iter(()))

    assert gate.main("test-long") == 1
    assert commands == []
    assert "needs Python 3.12 or newer" in capsys.readouterr().err


def test_lock_on_top_of_another_keeps_what_that_lacks() -> None:
    lock = LOCK + "mysqlclient==2.3.1 \\\n    --hash=sha256:dd\n"

    assert locks.without(lock, LOCK) == "mysqlclient==2.3.1 \\\n    --hash=sha256:dd\n"


def test_lock_with_an_address_is_refused() -> None:
    locks.require_no_address("requirements.lock", LOCK)
    with pytest.raises(CannotGoOn, match=r"requirements\.lock would hold an address"):
        locks.require_no_address("requirements.lock", "x @ https://example.org/x.whl\n" + LOCK)


def test_newest_packages_are_asked_for_by_name_alone() -> None:
    asked = newest.requirements()

    assert {"django>=6", "django-unfold>=0.92"} < {*asked}
    assert any(each.startswith("pytest>") for each in asked)
    assert [each for each in asked if "/" in each or "==" in each] == []


def test_locks_keep_one_version_of_django_and_of_the_theme() -> None:
    text = Path(locks.ROOT, locks.RUN_LOCK).read_text()
    kept = [each.partition("==")[0] for each in locks.entries(text) if each.startswith("django")]
    assert [kept.count("django"), kept.count("django-unfold")] == [1, 1]
    assert "django-unfold==0.91.0" in locks.HELD and "django-unfold==0.91.0" in text
