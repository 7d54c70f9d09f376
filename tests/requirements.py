"""Which test proves which requirement.

`python -m tests.requirements [SECTION]` reads tests/requirements.md and the docstrings of the test
modules, classes and functions, and prints every line with the tests that name it. It exits 1 when
a docstring names a line that does not exist, or when SECTION (`S0`) has a line without a test.

A line of the map is `- **S0.12** sentence`. `*later*` right after the number puts the whole line
off; inside the sentence it puts off a part, and the rest still needs a test.
"""

from __future__ import annotations

import argparse
import ast
import re
import sys
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TextIO

HERE = Path(__file__).resolve().parent
LATER = "*later*"

_HEADING = re.compile(r"## (S\d+) (.+)")
_LINE = re.compile(r"- \*\*(S\d+)\.(\d+)\*\* (.+)")
# `S0.3`, or `S0.3–S0.5` with a dash, a hyphen or dots between.
_MENTION = re.compile(r"\b(S\d+)\.(\d+)(?:\s?(?:–|-|…|\.\.+)\s?(S\d+)\.(\d+))?")

Documented = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef


class MapError(Exception):
    """The map itself is wrong; the message names the line of the file."""


@dataclass(frozen=True, order=True)
class Number:
    """The name of one line, `S0.12`; sorts by section, then by number."""

    section: str
    position: int

    def __str__(self) -> str:
        return f"{self.section}.{self.position}"


@dataclass(frozen=True)
class Requirement:
    number: Number
    sentence: str

    @property
    def is_later(self) -> bool:
        return self.sentence.startswith(LATER)

    @property
    def is_partly_later(self) -> bool:
        return LATER in self.sentence and not self.is_later


@dataclass(frozen=True)
class Mention:
    """A docstring's naming of a line; `test` is the path and, after `::`, the names inside."""

    number: Number
    test: str


@dataclass
class Coverage:
    """The map beside the tests."""

    titles: dict[str, str]
    requirements: dict[Number, Requirement]
    tests: dict[Number, list[str]] = field(default_factory=dict)
    mistakes: list[str] = field(default_factory=list)

    def of(self, section: str) -> list[Requirement]:
        return [r for r in self.requirements.values() if r.number.section == section]

    def gaps(self, section: str) -> list[Requirement]:
        return [r for r in self.of(section) if not r.is_later and r.number not in self.tests]


def read_map(path: Path) -> tuple[dict[str, str], dict[Number, Requirement]]:
    """Section titles and lines in their order; MapError for a line out of order or shape."""
    titles: dict[str, str] = {}
    requirements: dict[Number, Requirement] = {}
    section = ""
    for row, text in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1):
        place = f"{path.name}:{row}"
        if heading := _HEADING.fullmatch(text):
            section = heading[1]
            if section in titles:
                raise MapError(f"{place}: section {section} has a second heading; join the two")
            titles[section] = heading[2]
        elif line := _LINE.fullmatch(text):
            number = Number(line[1], int(line[2]))
            expected = Number(section, sum(n.section == section for n in requirements) + 1)
            if number != expected:
                raise MapError(f"{place}: {number} stands where {expected} is expected")
            requirements[number] = Requirement(number, line[3])
        elif text.startswith(("-", "##")):
            raise MapError(f"{place}: {text[:40]!r} is not of the form '- **S0.1** sentence'")
    return titles, requirements


def numbers_in(docstring: str) -> Iterator[Number]:
    """The lines a docstring names; ValueError for a range that has no middle."""
    for match in _MENTION.finditer(docstring):
        section, first = match[1], int(match[2])
        last = int(match[4] or first)
        if match[3] not in (None, section) or last < first:
            raise ValueError(f"{match[0]}, which is no range: name its lines one by one")
        yield from (Number(section, position) for position in range(first, last + 1))


def mentions_in(path: Path, name: str, mistakes: list[str]) -> Iterator[Mention]:
    """What the docstrings of one test file name; `name` is the file in messages.

    Only docstrings above at least one test count: prose over an empty class proves nothing.
    Unreadable ranges go to `mistakes`.
    """
    tree = ast.parse(path.read_text(encoding="utf-8"), filename=str(path))
    yield from _mentions(tree, name, mistakes)


def _mentions(node: Documented, name: str, mistakes: list[str]) -> Iterator[Mention]:
    if not _holds_test(node):
        return
    try:
        for number in numbers_in(ast.get_docstring(node) or ""):
            yield Mention(number, name)
    except ValueError as error:
        mistakes.append(f"{name} names {error}")
    if isinstance(node, ast.Module | ast.ClassDef):
        for child in node.body:
            if isinstance(child, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
                yield from _mentions(child, f"{name}::{child.name}", mistakes)


def _holds_test(node: ast.AST) -> bool:
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
        return node.name.startswith("test_")
    if isinstance(node, ast.ClassDef):
        return node.name.startswith("Test") and any(map(_holds_test, node.body))
    return isinstance(node, ast.Module) and any(map(_holds_test, node.body))


def read_coverage(map_path: Path, tests: Path) -> Coverage:
    """The map at `map_path` beside every `test_*.py` below `tests`."""
    titles, requirements = read_map(map_path)
    coverage = Coverage(titles, requirements)
    found: dict[Number, list[str]] = defaultdict(list)
    for path in sorted(tests.rglob("test_*.py")):
        name = path.relative_to(tests.parent).as_posix()
        for mention in mentions_in(path, name, coverage.mistakes):
            if mention.number not in requirements:
                coverage.mistakes.append(
                    f"{mention.test} names {mention.number}, which is not in the map"
                )
            elif mention.test not in found[mention.number]:
                found[mention.number].append(mention.test)
    coverage.tests = dict(found)
    return coverage


def report(coverage: Coverage, out: TextIO, err: TextIO, section: str | None = None) -> int:
    """Print the coverage; 1 when a test names lines wrongly or `section` has a gap, else 0."""
    for name, title in coverage.titles.items():
        lines = coverage.of(name)
        due = [r for r in lines if not r.is_later]
        print(f"{name} · {title}: {len(due) - len(coverage.gaps(name))} of {len(due)}", file=out)
        for requirement in due:
            number = requirement.number
            for test in coverage.tests.get(number, ["— no test"]):
                print(f"  {number!s:6} {test}", file=out)
    _print_later(coverage, out)
    for mistake in coverage.mistakes:
        print(mistake, file=err)
    gaps = coverage.gaps(section) if section else []
    for requirement in gaps:
        print(f"{requirement.number} has no test: {requirement.sentence}", file=err)
    return 1 if coverage.mistakes or gaps else 0


def _print_later(coverage: Coverage, out: TextIO) -> None:
    print("Put off:", file=out)
    for requirement in coverage.requirements.values():
        if requirement.is_later:
            sentence = requirement.sentence.removeprefix(LATER).strip()
            print(f"  {requirement.number!s:6} {sentence}", file=out)
    print("Put off in part:", file=out)
    for requirement in coverage.requirements.values():
        if requirement.is_partly_later:
            print(f"  {requirement.number!s:6} {requirement.sentence}", file=out)


def main(arguments: Sequence[str], out: TextIO, err: TextIO, tests: Path = HERE) -> int:
    """0 when all is named rightly and SECTION, if given, is covered; 2 for a wrong call or map."""
    parser = argparse.ArgumentParser(prog="python -m tests.requirements")
    parser.add_argument("section", nargs="?", metavar="SECTION", help="for example S0")
    section: str | None = parser.parse_args(arguments).section
    try:
        coverage = read_coverage(tests / "requirements.md", tests)
    except MapError as error:
        print(error, file=err)
        return 2
    if section and section not in coverage.titles:
        known = ", ".join(coverage.titles)
        print(f"There is no section {section}; the map has {known}", file=err)
        return 2
    return report(coverage, out, err, section)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:], sys.stdout, sys.stderr))
