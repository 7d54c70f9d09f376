"""The map of requirements: which docstrings count, and what fails a run."""

from __future__ import annotations

import ast
import io
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.requirements import HERE, Number, main, read_map

MAP = """# Map

## S0 First
- **S0.1** One thing happens.
- **S0.2** *later* Another thing happens.
- **S0.3** A third thing happens; *later* twice.

## S1 Second
- **S1.1** Something else happens.
"""

Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A folder `tests` with a map of two sections and no test."""
    tests = tmp_path / "tests"
    (tests / "unit").mkdir(parents=True)
    (tests / "requirements.md").write_text(MAP)
    return tests


@pytest.fixture
def run(tree: Path) -> Run:
    """Run the command on the made-up tree; exit code, output, errors."""

    def run(*arguments: str) -> tuple[int, str, str]:
        out, err = io.StringIO(), io.StringIO()
        return main(arguments, out, err, tests=tree), out.getvalue(), err.getvalue()

    return run


def write(tree: Path, source: str, name: str = "unit/test_thing.py") -> None:
    (tree / name).write_text(source)


def test_lines_named_by_module_class_and_function_are_listed_with_their_tests(
    tree: Path, run: Run
) -> None:
    write(
        tree,
        '''"""S1.1: all of it."""
class TestThing:
    """S0.3"""
    def test_happens(self):
        """S0.1, I5: it happens."""
''',
    )

    code, out, err = run("S0")

    assert (code, err) == (0, "")
    assert "S0 · First: 2 of 2" in out
    assert "S0.1   tests/unit/test_thing.py::TestThing::test_happens\n" in out
    assert "S0.3   tests/unit/test_thing.py::TestThing\n" in out
    assert "S1.1   tests/unit/test_thing.py\n" in out


def test_section_with_an_unnamed_line_fails_and_says_which(tree: Path, run: Run) -> None:
    write(tree, 'def test_happens():\n    """S0.1"""\n')

    code, out, err = run("S0")

    assert code == 1
    assert "S0.3   — no test" in out
    assert err == "S0.3 has no test: A third thing happens; *later* twice.\n"


def test_docstring_naming_no_line_of_the_map_fails(tree: Path, run: Run) -> None:
    write(tree, 'def test_happens():\n    """S0.1, S0.3, S0.4"""\n')

    code, _, err = run()

    assert code == 1
    assert err == "tests/unit/test_thing.py::test_happens names S0.4, which is not in the map\n"


def test_the_real_map_holds_every_line() -> None:
    titles, requirements = read_map(HERE / "requirements.md")

    counts = {section: sum(n.section == section for n in requirements) for section in titles}
    assert counts == {"S0": 34, "S1": 21, "S2": 22, "S3": 10, "S4": 19}
    assert not any(requirements[Number("S3", n)].is_later for n in range(1, 11))


def test_the_real_tests_name_only_lines_of_the_map() -> None:
    out, err = io.StringIO(), io.StringIO()

    assert (main([], out, err), err.getvalue()) == (0, "")


def test_every_invariant_and_fault_that_a_docstring_names_is_explained() -> None:
    explained = set(re.findall(r"^\| ([IF]\d+) \|", (HERE / "requirements.md").read_text(), re.M))
    named = set()
    number = re.compile(r"\b[IF][1-9]\d?\b")
    for source in (path.read_text() for path in HERE.rglob("test_*.py")):
        for node in ast.walk(ast.parse(source)) if number.search(source) else ():
            if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef):
                named.update(number.findall(ast.get_docstring(node) or ""))
    assert named and named <= explained
