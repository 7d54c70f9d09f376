"""Updates the lock files from pyproject.toml: `python -m tests.locks`, or `make locks`.

A lock file holds names, versions and hashes, but no addresses of packages.
"""

from __future__ import annotations

import re
import sys
import tempfile
from pathlib import Path

from taskplatform.bootstrap import (
    DEV_LOCK,
    MYSQL_LOCK,
    ROOT,
    RUN_LOCK,
    CannotGoOn,
    last_line,
    pip,
    run,
    say,
    tool,
    write,
)

OPTIONS = ["--universal", "--python-version", "3.11", "--generate-hashes"]
BARE = ["--no-header", "--no-annotate"]
# Newer ones need Python 3.12; one version of each serves all Pythons, so there is one look to test.
HELD = "django<5.3\ndjango-unfold==0.91.0\n"


def compiled() -> dict[str, str]:
    """The text of each lock file; the later ones agree with the first."""
    with tempfile.TemporaryDirectory() as folder:
        constraint = Path(folder, RUN_LOCK)
        agreeing = ["--constraint", str(constraint)]
        constraint.write_text(HELD)
        texts = {RUN_LOCK: _compile("pyproject.toml", *agreeing)}
        constraint.write_text(texts[RUN_LOCK])
        mysql = _compile("pyproject.toml", "--extra", "mysql", *agreeing)
        texts[DEV_LOCK] = _compile("--group", "dev", *agreeing)
    # It is installed on top of the first, so it names only what that lacks.
    texts[MYSQL_LOCK] = without(mysql, texts[RUN_LOCK])
    return texts


def _compile(*what: str) -> str:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "lock")
        command = [tool("uv"), "pip", "compile", *OPTIONS, *BARE, "--output-file", str(path)]
        code, output = run([*command, *what], quiet=True)
        if code:
            raise CannotGoOn(f"uv could not pin {' '.join(what)}: {last_line(output)}")
        return path.read_text()


def entries(lock: str) -> list[str]:
    """The entries of a lock file: a pinned name with the hashes indented under it."""
    return re.findall(r"^\S.*\n(?:[ \t].*\n)*", lock, re.MULTILINE)


def without(lock: str, other: str) -> str:
    """The entries of `lock` that `other` lacks."""
    there = set(entries(other))
    return "".join(entry for entry in entries(lock) if entry not in there)


def require_no_address(name: str, text: str) -> None:
    if "://" in text:
        raise CannotGoOn(f"{name} would hold an address; a lock holds names and hashes only.")


def main() -> int:
    try:
        if not Path(tool("uv")).exists():
            pip(["uv"])
        texts = compiled()
        for name, text in texts.items():
            require_no_address(name, text)
        for name, text in texts.items():
            write(str(Path(ROOT, name)), text)
            say(f"{name}: {len(entries(text))} packages")
    except CannotGoOn as reason:
        sys.stderr.write(f"{reason}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
