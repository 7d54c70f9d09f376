"""Releases of this project, as CHANGELOG.md names them, and their code beside this one."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

from tests.processes import ROOT

# ## 0.3.0 · 2026-11 · commit 7e67c11f
_HEADING = re.compile(r"^## (\d+\.\d+\.\d+) · \d{4}-\d{2} · commit ([0-9a-f]{7,40})$", re.MULTILINE)


def last_release(changelog: str) -> tuple[str, str]:
    """Version and commit of the newest release in the text; AssertionError when it names none."""
    found = _HEADING.search(changelog)
    assert found, "CHANGELOG.md names no release as ## 0.3.0 · 2026-11 · commit 7e67c11f"
    return found[1], found[2]


def check_out(commit: str, folder: Path) -> None:
    """The files of the commit, in a new folder; AssertionError when this clone does not have it."""
    known = subprocess.run(
        ["git", "cat-file", "-e", f"{commit}^{{commit}}"], cwd=ROOT, capture_output=True
    )
    assert known.returncode == 0, (
        f"This clone does not have the commit {commit}: {known.stderr.decode().strip()}. "
        "Get the whole history with: git fetch --unshallow"
    )
    folder.mkdir()
    archive = folder / "release.tar"
    subprocess.run(["git", "archive", "--output", archive, commit], cwd=ROOT, check=True)
    subprocess.run(["tar", "--extract", "--file", archive], cwd=folder, check=True)
    archive.unlink()
