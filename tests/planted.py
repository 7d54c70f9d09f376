"""Faults planted in the product one by one, to see whether the tests notice them.

`python -m tests.planted draw SEED` writes forty small ones into tests/planted.json, drawn over all
boxes and kinds of file. `python -m tests.planted try FOLDER [NUMBER …]` plants each in a copy of
the tree below FOLDER and prints what noticed it. First the tests near it run, one after another
until one fails: those of its box or of its name, which takes a minute for most faults. With
`--near` that is all. Else what they missed meets all tests that reach it, as `make test` runs them,
on MariaDB and Redis only when SQLite saw nothing, and the checks, which may take an hour.
`--tests REVISION` takes the tests of another revision, to compare. A person judges what nothing
notices: when it changes nothing that anybody feels, `harmless` in the list says why, and it is
tried no more.
"""

from __future__ import annotations

import argparse
import io
import json
import os
import random
import re
import subprocess
import sys
import tempfile
import tokenize
from collections.abc import Iterator
from dataclasses import asdict
from itertools import pairwise
from pathlib import Path

from tests.planting import Copy, Fault
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


# --- Drawing ------------------------------------------------------------------------------------


def faults_of(kind: str, file: str) -> Iterator[Fault]:
    """Every fault of the kind that the file can have."""
    text = (ROOT / file).read_text()
    lines = text.splitlines()
    swaps = {"template": _TEMPLATE, "script": _SCRIPT}.get(kind)
    if kind == "sql":
        swaps = _SQL
        lines = _sql_alone(text)
    elif kind == "template":
        lines = [re.sub(r"(\{%.*?%\})|.", lambda found: found[1] or " ", line) for line in lines]
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


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.planted", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("draw").add_argument("seed", type=int)
    trial = commands.add_parser("try")
    trial.add_argument("folder", type=Path)
    trial.add_argument("numbers", type=int, nargs="*")
    trial.add_argument("--near", action="store_true")
    trial.add_argument("--tests", default="", metavar="REVISION")
    options = parser.parse_args()
    if options.command == "draw":
        faults = [asdict(fault) for fault in draw(options.seed)]
        LIST.write_text(json.dumps(faults, indent=1, ensure_ascii=False) + "\n")
        return 0
    with tempfile.TemporaryDirectory(prefix="planted-", dir=options.folder) as folder:
        copy = Copy(Path(folder), options.tests)
        left: dict[int, Fault] = {}
        for number, fault in _listed(options.numbers):
            seen = copy.near_see(fault)
            if not seen:
                left[number] = fault
            if seen or options.near:
                _say(number, fault, seen)
        if left and not options.near:
            reached = copy.probe(left.values())
            for number, fault in list(left.items()):
                seen = copy.all_see(fault, reached[fault])
                _say(number, fault, seen)
                if seen:
                    del left[number]
    return min(len(left), 1)


def _listed(numbers: list[int]) -> Iterator[tuple[int, Fault]]:
    """The faults with these numbers, or all that are not harmless, where they are now."""
    for number, each in enumerate(json.loads(LIST.read_text())):
        fault = Fault(**each)
        if number in numbers if numbers else not fault.harmless:
            there = fault.in_text((ROOT / fault.file).read_text())
            assert there is not None, f"{fault.file} has changed; draw again"
            yield number, there


def _say(number: int, fault: Fault, seen: str) -> None:
    print(f"{number:2} {fault.kind:9} {fault.file}:{fault.line}", flush=True)  # noqa: T201
    print(f"   {seen or 'MISSED: ' + fault.after.strip()}", flush=True)  # noqa: T201


if __name__ == "__main__":
    os.chdir(ROOT)
    sys.exit(main())
