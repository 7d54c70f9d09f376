"""Plant a fault in a copy of the tree, and see which tests and checks notice it."""

from __future__ import annotations

import ast
import contextlib
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Collection, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from taskplatform.bootstrap import end
from tests.databases import run_manage
from tests.gate import CHECKS, MARKED, ON_SERVERS, PYTEST, SHORT, isolated
from tests.processes import ROOT

# One after another, the nearest first, so that most faults are noticed by the first few.
ONE_BY_ONE = [sys.executable, "-m", "pytest", "-p", "no:randomly"]
# A fault may let a loop go on for ever.
NEAR_SECONDS, ALL_SECONDS = 900, 3600
NEAR_FILES = 20
_FAILED = re.compile(r"^(?:FAILED|ERROR) (\S.*?)(?: - |$)", re.MULTILINE)
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


@dataclass(frozen=True)
class Fault:
    """Line `line` of the file, from 1, is `before`, and `after` when the fault is planted."""

    kind: str
    file: str
    line: int
    before: str
    after: str
    # Why it changes nothing that anybody feels; "" of one that a test is to notice.
    harmless: str = ""

    def in_text(self, text: str) -> Fault | None:
        """The fault at the line where the text has it now; None where it has it no more."""
        lines = [number for number, line in enumerate(text.splitlines(), 1) if line == self.before]
        if not lines:
            return None
        return replace(self, line=min(lines, key=lambda number: abs(number - self.line)))


def near(fault: Fault) -> list[str]:
    """The files of tests that are near the fault, the nearest first: those that import its module,
    that bear its name, those of its box. Near a template are those of the modules that name it."""
    tests = [
        test
        for kind in (*(["browser"] if fault.kind == "script" else []), "unit", "integration")
        for test in (ROOT / "tests" / kind).rglob("test_*.py")
    ]
    scores = dict.fromkeys(tests, 0)
    for path in _modules_of(fault):
        module = ".".join(path.with_suffix("").parts)
        package, _, stem = map(re.escape, module.rpartition("."))
        imports = re.compile(
            rf"\b{re.escape(module)}\b|from {package} import (\([^)]*|[^\n(]*)\b{stem}\b"
        )
        words = [word.removesuffix("s") for word in re.findall(r"[a-z]{4,}", path.stem)]
        for test in tests:
            box = bool(set(path.parts[1:-1]) & set(test.parts))
            named = any(word in test.stem for word in words)
            score = 4 * bool(imports.search(test.read_text())) + 2 * named + box
            scores[test] = max(scores[test], score)
    found = [test for test, score in scores.items() if score]
    found.sort(key=lambda test: (-scores[test], tests.index(test)))
    return [str(test.relative_to(ROOT)) for test in found[:NEAR_FILES]]


def _modules_of(fault: Fault) -> list[Path]:
    own = Path(fault.file)
    if fault.kind != "template":
        return [own]
    name = str(own.relative_to("templates"))
    product = [path for box in ("apps", "taskplatform") for path in (ROOT / box).rglob("*.py")]
    return [path.relative_to(ROOT) for path in product if name in path.read_text()] or [own]


class Copy:
    """A copy of the tree in an empty folder to plant in, with the tests of a revision, "" for those
    of the tree."""

    def __init__(self, folder: Path, revision: str) -> None:
        self.folder = folder
        # Tests that fail without a fault, too: in a copy, or at times.
        self.useless: list[str] = []
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
        # For runs of a few tests, most of whose time the migrations would take.
        self.migrated = self.folder / "planted.sqlite3"
        with tempfile.TemporaryDirectory() as empty:
            environment = {**isolated(empty), "DATABASE_URL": f"sqlite:///{self.migrated}"}
            made = run_manage(environment, "migrate", "--verbosity", "0", root=self.folder)
        assert made.returncode == 0, made.stderr

    # --- Who notices ----------------------------------------------------------------------------

    def near_see(self, fault: Fault) -> str:
        """What of the tests near the fault notices it, "" for nothing; the migrations are compared
        with the models first where it is in one of them."""
        if fault.kind in ("model", "migration") and (seen := self._checks_see(fault, "migrations")):
            return seen
        files = [file for file in near(fault) if (self.folder / file).exists()]
        return self._tests_see(fault, NEAR_SECONDS, ONE_BY_ONE, *files) if files else ""

    def all_see(self, fault: Fault, reaching: set[str] | None) -> str:
        """What of all tests and checks notices it; `reaching` is what `probe` found."""
        for command, selected in zip((PYTEST, ON_SERVERS), self.selected, strict=True):
            chosen = ["-m", selected]
            if reaching is not None and "" not in reaching:
                listed = self.folder / "planted-tests"
                listed.write_text("\n".join(sorted(reaching)))
                chosen.append(f"@{listed}")
            if reaching == set():
                continue
            if seen := self._tests_see(fault, ALL_SECONDS, command, *chosen):
                return seen
        return self._checks_see(fault)

    def _tests_see(self, fault: Fault, seconds: int, command: list[str], *arguments: str) -> str:
        while True:
            left_out = [f"--deselect={test}" for test in self.useless]
            with self._planted(fault):
                output = self._pytest(seconds, command, "-x", *left_out, *arguments)
            if not output:
                return ""
            failed = sorted(set(_FAILED.findall(output)))
            on_servers = command if command is ON_SERVERS else ONE_BY_ONE
            if not failed or not self._pytest(NEAR_SECONDS, on_servers, *failed):
                return ", ".join(failed) or output.splitlines()[-1]
            self.useless += failed

    def _checks_see(self, fault: Fault, only: str = "") -> str:
        for name, command in CHECKS:
            if "--deploy" in command or (only and name != only):
                continue
            with self._planted(fault):
                code, output = self._run(command, ALL_SECONDS)
            if code:
                return f"{name}: {output.strip().splitlines()[-1]}"
        return ""

    @contextlib.contextmanager
    def _planted(self, fault: Fault) -> Iterator[None]:
        path = self.folder / fault.file
        lines = path.read_text().splitlines()
        lines[fault.line - 1] = fault.after
        path.write_text("\n".join(lines) + "\n")
        try:
            yield
        finally:
            shutil.copy(ROOT / fault.file, path)

    # --- Who could notice -----------------------------------------------------------------------

    def probe(self, faults: Collection[Fault]) -> dict[Fault, set[str] | None]:
        """The tests that reach each fault: one run of all. "" is among them when processes that
        tests start do; None is that nobody can tell."""
        seen = self.folder / "planted-seen"
        seen.touch()
        reached: dict[Fault, set[str] | None] = dict.fromkeys(faults)
        by_file: dict[str, dict[int, list[int]]] = {}
        for number, fault in enumerate(faults):
            if place := place_of(fault):
                reached[fault] = set()
                by_file.setdefault(fault.file, {}).setdefault(place, []).append(number)
        if not by_file:
            return reached
        (self.folder / "planted_probe.py").write_text(PROBE.format(file=str(seen)))
        for file, places in by_file.items():
            lines = (self.folder / file).read_text().splitlines()
            for place in sorted(places, reverse=True):
                indent = re.match(r"\s*", lines[place - 1])[0]  # type: ignore[index]
                calls = [f'{indent}__import__("planted_probe").hit({n})' for n in places[place]]
                lines[place - 1 : place - 1] = calls
            (self.folder / file).write_text("\n".join(lines) + "\n")
        self._pytest(ALL_SECONDS, PYTEST, "-m", self.selected[0])
        self._pytest(ALL_SECONDS, ON_SERVERS, "-m", self.selected[1])
        for file in by_file:
            shutil.copy(ROOT / file, self.folder / file)
        # Else the checks would see it, whatever is planted.
        (self.folder / "planted_probe.py").unlink()
        ordered = list(faults)
        for line in seen.read_text().splitlines():
            number, _, test = line.partition(" ")
            if (tests := reached[ordered[int(number)]]) is not None:
                tests.add(test)
        return reached

    # --- Running --------------------------------------------------------------------------------

    def _pytest(self, seconds: int, command: list[str], *arguments: str) -> str:
        """What a run printed; "" when all is well."""
        code, output = self._run([*command, "-q", "-p", "no:cacheprovider", *arguments], seconds)
        return "" if code in (0, 5) else output

    def _run(self, command: list[str], seconds: int) -> tuple[int, str]:
        with tempfile.TemporaryDirectory() as folder:
            environment = isolated(folder)
            if command[: len(ONE_BY_ONE)] == ONE_BY_ONE:
                environment["MIGRATED_DATABASE"] = str(self.migrated)
            process = subprocess.Popen(
                command,
                cwd=self.folder,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                errors="replace",
                start_new_session=True,
            )
            try:
                output, _ = process.communicate(timeout=seconds)
            except subprocess.TimeoutExpired:
                return 1, f"no end after {seconds} s"
            finally:
                end(process)
        return process.returncode, output


def place_of(fault: Fault) -> int:
    """The line before which a call notes that the fault is reached; 0 where none can."""
    if not fault.file.endswith(".py"):
        return 0
    place = 0
    text = (ROOT / fault.file).read_text()
    lines = text.splitlines()
    for function in ast.walk(ast.parse(text)):
        if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
            for node in ast.walk(function):
                for body in (getattr(node, name, None) for name in ("body", "orelse", "finalbody")):
                    for part in body if isinstance(body, list) else ():
                        last = part.end_lineno or 0
                        is_elif = "elif" in lines[part.lineno - 1]
                        if part.lineno <= fault.line <= last and not is_elif:
                            place = max(place, part.lineno)
    return place
