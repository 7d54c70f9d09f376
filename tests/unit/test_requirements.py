"""The map of requirements: which docstrings count, and what fails a run."""

from __future__ import annotations

import ast
import io
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.requirements import HERE, Number, main, numbers_in, read_map

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


def test_gap_of_another_section_does_not_fail(tree: Path, run: Run) -> None:
    write(tree, 'def test_happens():\n    """S0.1 S0.3"""\n')

    assert run("S0")[0] == 0
    assert run()[0] == 0
    assert run("S1")[0] == 1


def test_lines_put_off_are_listed_apart_and_need_no_test(run: Run) -> None:
    _, out, _ = run()

    due, put_off = out.split("Put off:\n")
    assert "S0.2" not in due
    whole, in_part = put_off.split("Put off in part:\n")
    assert whole == "  S0.2   Another thing happens.\n"
    assert in_part == "  S0.3   A third thing happens; *later* twice.\n"


def test_docstring_naming_no_line_of_the_map_fails(tree: Path, run: Run) -> None:
    write(tree, 'def test_happens():\n    """S0.1, S0.3, S0.4"""\n')

    code, _, err = run()

    assert code == 1
    assert err == "tests/unit/test_thing.py::test_happens names S0.4, which is not in the map\n"


def test_naming_without_a_test_beneath_proves_nothing(
    subtests: pytest.Subtests, tree: Path, run: Run
) -> None:
    for case, name, source in (
        ("empty module", "unit/test_thing.py", '"""S0.1"""\n'),
        ("no test", "unit/test_thing.py", 'def helper():\n    """S0.1"""\n'),
        ("empty class", "unit/test_thing.py", 'class TestThing:\n    """S0.1"""\n'),
        (
            "not collected",
            "unit/test_thing.py",
            'class Made:\n  def test_x(self):\n    """S0.1"""\n',
        ),
        ("no docstring", "unit/test_thing.py", 'def test_x():\n    "Some S0.x"\n    x = "S0.1"\n'),
        ("no test file", "unit/thing.py", 'def test_happens():\n    """S0.1"""\n'),
    ):
        with subtests.test(case):
            write(tree, source, name)
            assert "S0.1   — no test" in run()[1]
            (tree / name).unlink()


def test_numbers_in_a_docstring(subtests: pytest.Subtests) -> None:
    for docstring, named in (
        ("S0.3: words", ["S0.3"]),
        ("S0.12, S0.13 and (S1.4)", ["S0.12", "S0.13", "S1.4"]),
        ("S0.3–S0.5", ["S0.3", "S0.4", "S0.5"]),
        ("S0.3 - S0.4", ["S0.3", "S0.4"]),
        ("S0.3…S0.4", ["S0.3", "S0.4"]),
        ("S0.3..S0.4", ["S0.3", "S0.4"]),
        ("S0.3 – 6 of 20 win", ["S0.3"]),
        ("I5, XS0.3, s0.3, S0", []),
    ):
        with subtests.test(docstring=docstring):
            assert [str(number) for number in numbers_in(docstring)] == named


@pytest.mark.parametrize("docstring", ["S0.5–S0.3", "S0.3–S1.1"])
def test_range_without_a_middle_fails(tree: Path, run: Run, docstring: str) -> None:
    write(tree, f'def test_happens():\n    """{docstring}"""\n')

    code, _, err = run()

    assert code == 1
    assert err == (
        f"tests/unit/test_thing.py::test_happens names {docstring}, "
        "which is no range: name its lines one by one\n"
    )


def test_unknown_section_is_refused_with_the_known_ones(run: Run) -> None:
    assert run("S7") == (2, "", "There is no section S7; the map has S0, S1\n")


def test_map_out_of_order_or_shape_is_refused(
    subtests: pytest.Subtests, tree: Path, run: Run
) -> None:
    for wrong, message in (
        ("- **S1.3** Skips one.\n", "requirements.md:10: S1.3 stands where S1.2 is expected\n"),
        ("- **S0.4** Strays.\n", "requirements.md:10: S0.4 stands where S1.2 is expected\n"),
        ("- S1.2 Plain.\n", "requirements.md:10: '- S1.2 Plain.' is not of the form"),
        ("## S0 Again\n", "requirements.md:10: section S0 has a second heading"),
    ):
        with subtests.test(wrong=wrong):
            (tree / "requirements.md").write_text(MAP + wrong)
            code, out, err = run()
            assert (code, out) == (2, "")
            assert err.startswith(message)


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
