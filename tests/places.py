"""From where the product sends statements, so that none is tried on SQLite alone.

Most tests run on SQLite only; those marked `both` run on MariaDB, too. `make test` notes in each of
its rounds which functions of the product send statements, to which table and with a search in
which columns. Its second round lists those that were met on SQLite alone, each with a test that
sends it: mark that test `both`, or another one of the same function. Pages are left out, because
`make test-long` opens them on MariaDB; so is what tests with random steps meet on SQLite, because
they may not come there a second time.
"""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import CodeType
from typing import Any

import pytest
from hypothesis import currently_in_test_context

from tests.processes import ROOT

_STATEMENT = re.compile(r"\W*(SELECT|INSERT|UPDATE|DELETE|REPLACE)\b", re.IGNORECASE)
_TABLE = re.compile(r"\b(?:FROM|INTO|UPDATE)\s+[`\"]?(\w+)", re.IGNORECASE)
_SEARCHED = re.compile(r"(?<![%\w])(\w+)[`\"]?\)?\s+(?:NOT\s+)?(?:LIKE|REGEXP)\b", re.IGNORECASE)
_PRODUCT = tuple(f"{ROOT / name}{os.sep}" for name in ("apps", "taskplatform"))
_TESTS = f"{ROOT / 'tests'}{os.sep}"
# With the middleware that pages alone pass through.
_PAGE = re.compile(r"taskplatform/|apps/\w+/admin|apps/common/addresses\.py|\S+ \S*__str__$")

# Of a place, the test that was the first to come there.
Places = dict[str, str]


def statement_of(sql: str) -> str:
    """What the statement is about, the same for each database; "" for what neither reads rows nor
    writes them."""
    verb = _STATEMENT.match(sql)
    table = _TABLE.search(sql)
    if verb is None or table is None or table[1].startswith("pragma_"):
        return ""
    # Without the types that a search casts a column to.
    searched = sorted({column.lower() for column in _SEARCHED.findall(sql)} - {"text", "char"})
    return " ".join([verb[1].lower(), table[1], *searched])


class Notes:
    """Of one process of tests: `attend` notes what its connections send."""

    def __init__(self, *, leaves_out_chance: bool) -> None:
        self._leaves_out_chance = leaves_out_chance
        self.places: Places = {}
        self._names: dict[CodeType, str] = {}

    def attend(self, connection: Any, **_signal: Any) -> None:
        if self._note not in connection.execute_wrappers:
            # The outermost, so that no other wrapper stands between it and the sender.
            connection.execute_wrappers.insert(0, self._note)

    def _note(self, execute: Callable[..., Any], sql: Any, *rest: Any) -> Any:
        if self._leaves_out_chance and currently_in_test_context():
            return execute(sql, *rest)
        if (function := self._sender()) and (statement := statement_of(str(sql))):
            test = os.environ.get("PYTEST_CURRENT_TEST", "").rpartition(" ")[0]
            self.places.setdefault(f"{function}: {statement}", test)
        return execute(sql, *rest)

    def _sender(self) -> str:
        """The innermost function of the product; "" where that of a test lies within it."""
        frame = sys._getframe(2)
        while frame is not None:
            name = self._names.get(frame.f_code)
            if name is None:
                name = self._names[frame.f_code] = _name_of(frame.f_code)
            if name:
                return "" if name == _TESTS else name
            frame = frame.f_back  # type: ignore[assignment]
        return ""


def _name_of(code: CodeType) -> str:
    if code.co_filename == __file__:
        return ""
    if code.co_filename.startswith(_TESTS):
        return _TESTS
    if code.co_filename.startswith(_PRODUCT):
        return f"{Path(code.co_filename).relative_to(ROOT)} {code.co_qualname}"
    return ""


def read(folder: Path, round_: str) -> Places:
    """What all processes of a round have noted."""
    places: Places = {}
    for file in sorted(folder.glob(f"{round_}-*.json")):
        places = json.loads(file.read_text()) | places
    return places


def missed(folder: Path) -> Iterator[str]:
    """A line for each place that was met on SQLite and not on MariaDB."""
    other = read(folder, "mysql")
    for place, test in sorted(read(folder, "sqlite").items()):
        if place not in other and not _PAGE.match(place.partition(":")[0]):
            yield f"{place}\n    sent by {test}"


# --- The plugin ---------------------------------------------------------------------------------


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--places", type=Path, help="the folder to note in where statements are sent")


def pytest_configure(config: pytest.Config) -> None:
    if config.option.places is not None:
        config.pluginmanager.register(_Round(config.option.places), "places of statements")


class _Round:
    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._missed: list[str] = []
        self._name = os.environ.get("DATABASE_URL", "").partition(":")[0] or "sqlite"
        self._notes = Notes(leaves_out_chance=self._name == "sqlite")

    def pytest_sessionstart(self) -> None:
        from django.db.backends.signals import connection_created

        connection_created.connect(self._notes.attend)

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self) -> None:
        process = os.environ.get("PYTEST_XDIST_WORKER", "gw")
        file = self._folder / f"{self._name}-{process}.json"
        file.write_text(json.dumps(self._notes.places))
        if "PYTEST_XDIST_WORKER" in os.environ or self._name == "sqlite":
            return
        self._missed = list(missed(self._folder))

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        if self._missed:
            terminalreporter.section("Statements that were sent on SQLite alone")
            terminalreporter.write_line("\n".join(self._missed))
            terminalreporter.write_line("Mark these tests `both`, or others of the same functions.")
