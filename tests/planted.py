"""Faults planted in the product one by one, to see whether the tests notice them.

`python -m tests.planted draw SEED` writes forty small ones into tests/planted.json, drawn over all
boxes and kinds of file. `python -m tests.planted try FOLDER [NUMBER …]` plants each in a copy of
the tree below FOLDER, runs the tests that reach it as `make test` does, on MariaDB and Redis only
when SQLite saw nothing, and prints what noticed it. `--tests REVISION` takes the tests of another
revision, to compare. It takes hours; a fault that nothing notices is to be judged by a person: it
may change nothing.
"""

from __future__ import annotations

import argparse
import ast
import io
import json
import os
import random
import re
import shutil
import subprocess
import sys
import tempfile
import tokenize
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from itertools import pairwise
from pathlib import Path

from tests.gate import CHECKS, MARKED, ON_SERVERS, PYTEST, SHORT, isolated
from tests.processes import ROOT

LIST = ROOT / "tests" / "planted.json"
# How many faults of each kind, and where its files are.
KINDS: dict[str, tuple[int, str]] = {
    "rule": (8, r"apps/\w+/rules/.*\.py"),
    "service": (9, r"apps/\w+/services/.*\.py"),
    "sql": (3, r"apps/.*\.py"),
    "model": (2, r"apps/\w+/models.*\.py"),
    "api": (3, r"apps/\w+/(api|wire)/.*\.py"),
    "admin": (4, r"apps/\w+/admin.*\.py"),
    "process": (2, r"apps/\w+/(sweeps|runner|handlers).*\.py"),
    "common": (2, r"apps/common/.*\.py"),
    "platform": (2, r"taskplatform/.*\.py"),
    "template": (2, r"templates/.*\.html"),
    "script": (1, r"static/taskplatform/.*\.js"),
    "migration": (2, r"apps/\w+/migrations/\d.*\.py"),
}
_NUMBER = re.compile(r"[2-9]|[1-9]\d+")
_WORDS = {
    **{"<": "<=", "<=": "<", ">": ">=", ">=": ">", "==": "!=", "!=": "==", "+": "-", "-": "+"},
    **{"and": "or", "or": "and", "not": "", "True": "False", "False": "True"},
    **{"min": "max", "max": "min", "any": "all", "all": "any", "continue": "break"},
}
_SQL = {
    **{" < ": " <= ", " <= ": " < ", " > ": " >= ", " AND ": " OR ", "MAX(": "MIN("},
    **{" ASC": " DESC", "MIN(": "MAX(", " = %s": " <> %s", "COUNT(*)": "COUNT(1) + 1"},
}
_TEMPLATE = {"{% if not ": "{% if ", "{% if ": "{% if not ", " and ": " or ", " or ": " and "}
_SCRIPT = {"===": "!==", "!==": "===", "&&": "||", "||": "&&", "true": "false", "false": "true"}


@dataclass(frozen=True)
class Fault:
    """Line `line` of the file, from 1, is `before`, and `after` when the fault is planted."""

    kind: str
    file: str
    line: int
    before: str
    after: str


# --- Drawing ------------------------------------------------------------------------------------


def faults_of(kind: str, file: str) -> Iterator[Fault]:
    """Every fault of the kind that the file can have."""
    text = (ROOT / file).read_text()
    lines = text.splitlines()
    swaps = {"template": _TEMPLATE, "script": _SCRIPT}.get(kind)
    if kind == "sql":
        swaps = _SQL
        lines = _sql_alone(text)
    if swaps is not None:
        found = _by_text(lines, swaps)
    else:
        found = _by_word(text)
    own = text.splitlines()
    for line, column, before, after in found:
        whole = own[line - 1]
        changed = f"{whole[:column]}{after}{whole[column + len(before) :]}"
        yield Fault(kind, file, line, whole, changed)


def _by_text(lines: list[str], swaps: dict[str, str]) -> Iterator[tuple[int, int, str, str]]:
    for number, line in enumerate(lines, 1):
        for before, after in swaps.items():
            if (column := line.find(before)) >= 0:
                yield number, column, before, after
                break


def _sql_alone(text: str) -> list[str]:
    """The lines, empty but for texts that are SQL."""
    lines = [""] * len(text.splitlines())
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.STRING and re.search(r"\b(SELECT|UPDATE|WHERE)\b", token.string):
            for number in range(token.start[0], token.end[0] + 1):
                lines[number - 1] = text.splitlines()[number - 1]
    return lines


def _by_word(text: str) -> Iterator[tuple[int, int, str, str]]:
    tokens = list(tokenize.generate_tokens(io.StringIO(text).readline))
    for token, following in pairwise(tokens):
        if re.match(r"\s*(import|from|def|class|@|\)|async def)", token.line):
            continue
        word = token.string
        if token.type == tokenize.NUMBER and _NUMBER.fullmatch(word):
            yield *token.start, word, str(int(word) + 1)
        elif word in ("min", "max", "any", "all") and following.string != "(":
            continue
        elif word == "not" and following.string == "in":
            yield *token.start, "not ", ""
        elif word in _WORDS and token.type in (tokenize.OP, tokenize.NAME):
            yield *token.start, word, _WORDS[word]


def draw(seed: int) -> list[Fault]:
    """Box by box, so that a large one does not have them all."""
    chance = random.Random(seed)
    listed = subprocess.run(
        ["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout.split()
    drawn: list[Fault] = []
    for kind, (count, pattern) in KINDS.items():
        boxes: dict[str, list[Fault]] = {}
        for file in listed:
            if re.fullmatch(pattern, file) and (kind == "migration" or "/migrations/" not in file):
                boxes.setdefault("/".join(file.split("/")[:2]), []).extend(faults_of(kind, file))
        full = sorted(box for box, faults in boxes.items() if faults)
        chosen = chance.sample(full * (1 + count // len(full)), count)
        drawn += [chance.choice(boxes[box]) for box in chosen]
    return drawn


# --- Planting -----------------------------------------------------------------------------------

PROBE = """
import os
_seen = set()

def hit(number):
    test = os.environ.get("PYTEST_CURRENT_TEST", "").rpartition(" ")[0]
    if (number, test) not in _seen:
        _seen.add((number, test))
        with open({file!r}, "a") as opened:
            opened.write(f"{{number}} {{test}}\\n")
"""


class Copy:
    """A copy of the tree to plant in, with the tests of a revision, "" for those of the tree."""

    def __init__(self, folder: Path, revision: str) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="planted-", dir=folder))
        listed = subprocess.run(
            ["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True
        )
        for name in listed.stdout.split():
            (self.folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, self.folder / name)
        self.selected = SHORT, f"{MARKED} and {SHORT}"
        if revision:
            shutil.rmtree(self.folder / "tests")
            archive = ["git", "archive", revision, "tests", "pyproject.toml"]
            unpacked = subprocess.run(archive, cwd=ROOT, capture_output=True, check=True)
            subprocess.run(["tar", "x"], cwd=self.folder, input=unpacked.stdout, check=True)
            self.selected = "not calendar and not cluster", "not calendar and not cluster"

    def probe(self, faults: list[Fault]) -> dict[int, set[str]]:
        """The tests that reach each fault: one run of all. "" is among them when processes that
        tests start do; None is that nobody can tell."""
        seen = self.folder / "planted-seen"
        (self.folder / "planted_probe.py").write_text(PROBE.format(file=str(seen)))
        by_file: dict[str, dict[int, list[int]]] = {}
        for number, fault in enumerate(faults):
            if place := place_of(fault):
                by_file.setdefault(fault.file, {}).setdefault(place, []).append(number)
        for file, places in by_file.items():
            lines = (self.folder / file).read_text().splitlines()
            for place in sorted(places, reverse=True):
                indent = re.match(r"\s*", lines[place - 1])[0]  # type: ignore[index]
                calls = [f'{indent}__import__("planted_probe").hit({n})' for n in places[place]]
                lines[place - 1 : place - 1] = calls
            (self.folder / file).write_text("\n".join(lines) + "\n")
        self.pytest(PYTEST, "-m", self.selected[0])
        self.pytest(ON_SERVERS, "-m", self.selected[1])
        for file in by_file:
            shutil.copy(ROOT / file, self.folder / file)
        # Else the checks would see it, whatever is planted.
        (self.folder / "planted_probe.py").unlink()
        reached: dict[int, set[str]] = {}
        for line in seen.read_text().splitlines():
            number, _, test = line.partition(" ")
            reached.setdefault(int(number), set()).add(test)
        return reached

    def pytest(self, command: list[str], *arguments: str) -> str:
        """The last lines of a run; "" when all is well."""
        with tempfile.TemporaryDirectory() as folder:
            ended = subprocess.run(
                [*command, "-q", "-p", "no:cacheprovider", *arguments],
                cwd=self.folder,
                env=isolated(folder),
                capture_output=True,
                text=True,
                check=False,
            )
        if ended.returncode in (0, 5):
            return ""
        return "\n".join((ended.stdout + ended.stderr).splitlines()[-4:])

    def judge(self, fault: Fault, reaching: set[str] | None) -> str:
        """What notices the fault, "" for nothing."""
        path = self.folder / fault.file
        lines = path.read_text().splitlines()
        assert lines[fault.line - 1] == fault.before, f"{fault.file} has changed; draw again"
        lines[fault.line - 1] = fault.after
        path.write_text("\n".join(lines) + "\n")
        try:
            return self._tests_see(reaching) or self._checks_see()
        finally:
            shutil.copy(ROOT / fault.file, path)

    def _tests_see(self, reaching: set[str] | None) -> str:
        for command, selected in zip((PYTEST, ON_SERVERS), self.selected, strict=True):
            chosen: list[str] = []
            if reaching is not None and "" not in reaching:
                listed = self.folder / "planted-tests"
                listed.write_text("\n".join(sorted(reaching)))
                chosen = [f"@{listed}"]
            if reaching != set() and (seen := self.pytest(command, "-x", "-m", selected, *chosen)):
                return seen
        return ""

    def _checks_see(self) -> str:
        for name, command in CHECKS:
            with tempfile.TemporaryDirectory() as folder:
                environment = isolated(folder)
                if (
                    "--deploy" not in command
                    and subprocess.run(
                        command, cwd=self.folder, env=environment, capture_output=True, check=False
                    ).returncode
                ):
                    return name
        return ""


def place_of(fault: Fault) -> int:
    """The line before which a call notes that the fault is reached; 0 where none can."""
    if not fault.file.endswith(".py"):
        return 0
    place = 0
    tree = ast.parse((ROOT / fault.file).read_text())
    for function in ast.walk(tree):
        if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
            for node in ast.walk(function):
                for body in (getattr(node, name, None) for name in ("body", "orelse", "finalbody")):
                    for part in body if isinstance(body, list) else ():
                        end = part.end_lineno or 0
                        is_elif = (
                            "elif" in (ROOT / fault.file).read_text().splitlines()[part.lineno - 1]
                        )
                        if part.lineno <= fault.line <= end and not is_elif:
                            place = max(place, part.lineno)
    return place


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.planted", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("draw").add_argument("seed", type=int)
    attempt = commands.add_parser("try")
    attempt.add_argument("folder", type=Path)
    attempt.add_argument("numbers", type=int, nargs="*")
    attempt.add_argument("--tests", default="", metavar="REVISION")
    options = parser.parse_args()
    if options.command == "draw":
        faults = [asdict(fault) for fault in draw(options.seed)]
        LIST.write_text(json.dumps(faults, indent=1, ensure_ascii=False) + "\n")
        return 0
    every = [Fault(**each) for each in json.loads(LIST.read_text())]
    copy = Copy(options.folder, options.tests)
    reached = copy.probe(every)
    missed = 0
    for number in options.numbers or range(len(every)):
        fault = every[number]
        seen = copy.judge(fault, reached.get(number, set()) if place_of(fault) else None)
        missed += not seen
        print(f"{number:2} {fault.kind:9} {fault.file}:{fault.line}", flush=True)  # noqa: T201
        print(f"   {seen or 'MISSED: ' + fault.after.strip()}", flush=True)  # noqa: T201
    return min(missed, 1)


if __name__ == "__main__":
    os.chdir(ROOT)
    sys.exit(main())
