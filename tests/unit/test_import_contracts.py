"""Each import contract, and that the tree keeps it, by breaking it in a copy of the tree."""

from __future__ import annotations

import ast
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
BREACHES = [
    ("apps/common/clock.py", "import taskplatform.settings", "no app imports it"),
    ("apps/journal/services/writing.py", "import apps.dispatch.models", "Arrows between the apps"),
    ("apps/shop/__init__.py", "", "Arrows between the apps"),
    ("apps/dispatch/models/task.py", "import apps.dispatch.services.pull", "Inside an app"),
    ("apps/access/models.py", "import apps.access.services", "Inside an app"),
    ("apps/dispatch/utils.py", "", "Inside an app"),
    ("apps/common/errors.py", "import apps.common.fields", "Inside common"),
    ("apps/common/helpers.py", "", "Inside common"),
    ("taskplatform/utils.py", "", "Inside taskplatform"),
    ("taskplatform/beat.py", "import taskplatform.health", "Inside taskplatform"),
    ("apps/dispatch/services/ending.py", "import apps.dispatch.services.pull", "no circle"),
    ("apps/dispatch/rules/policy.py", "import django.utils.timezone", "Rules are pure"),
    ("apps/dispatch/rules/policy.py", "import apps.common.clock", "Rules are pure"),
    ("apps/journal/services/writing.py", "import celery", "Services know neither HTTP nor Celery"),
    ("apps/dispatch/services/pull.py", "import rest_framework", "Services know neither HTTP"),
    ("apps/dispatch/models/task.py", "import rest_framework", "Models know nothing of HTTP"),
    ("taskplatform/sdk.py", "import apps.common.errors", "What runs without"),
    ("taskplatform/sdk.py", "import django", "What runs without"),
    (
        "apps/access/rules/clients.py",
        "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    import django",
        "Rules are pure",
    ),
]


def lint(folder: Path) -> tuple[int, list[str]]:
    """The exit code of import-linter and the contracts it calls broken."""
    linter = Path(sys.executable).with_name("lint-imports")
    ended = subprocess.run(
        [linter, "--no-cache"],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(folder), "COLUMNS": "200"},
        capture_output=True,
        text=True,
        check=False,
    )
    return ended.returncode, [line for line in ended.stdout.splitlines() if "BROKEN" in line]


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A copy of what the contracts are about."""
    for name in ("apps", "taskplatform"):
        shutil.copytree(ROOT / name, tmp_path / name, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    return tmp_path


def test_tree_as_it_is_keeps_every_contract(tree: Path) -> None:
    assert lint(tree) == (0, [])


@pytest.mark.parametrize(("file", "source", "contract"), BREACHES)
def test_breach_breaks_its_contract(tree: Path, file: str, source: str, contract: str) -> None:
    path = tree / file
    path.parent.mkdir(exist_ok=True)
    with path.open("a") as opened:
        opened.write(f"\n{source}\n")

    code, broken = lint(tree)

    assert code == 1
    assert [line for line in broken if contract in line]


@pytest.mark.parametrize("name", ["sdk", "bootstrap"])
def test_module_for_machines_without_packages_imports_the_standard_library_only(name: str) -> None:
    tree = ast.parse((ROOT / "taskplatform" / f"{name}.py").read_text())
    imported: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            imported.update(alias.name.partition(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            imported.add("." * node.level + (node.module or "").partition(".")[0])
    assert imported - sys.stdlib_module_names == set()
