"""Each import contract, by breaking all in a copy of the tree, which `make check` sees keep all."""

from __future__ import annotations

import ast
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from apps.common import tidy
from tests.environment import neutral

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
    ("apps/dispatch/rules/policy.py", "import django.utils.timezone", "Rules are pure"),
    ("apps/dispatch/rules/policy.py", "import apps.common.clock", "Rules are pure"),
    ("apps/journal/services/writing.py", "import celery", "Services know neither HTTP nor Celery"),
    ("apps/dispatch/services/pull.py", "import rest_framework", "Services know neither HTTP"),
    ("apps/reports/watches/jobs.py", "import rest_framework", "Services know neither HTTP"),
    ("apps/alerts/services/judging.py", "import apps.jobs.services.counts", "Alerts read the plat"),
    ("apps/dispatch/models/task.py", "import rest_framework", "Models know nothing of HTTP"),
    ("apps/jobs/api/jobs.py", "import django_filters", "Filters are declared in one way"),
    ("taskplatform/demo/work.py", "import apps.dispatch.sweeps", "The past is played"),
    ("taskplatform/client/sdk.py", "import apps.common.errors", "What runs without"),
    ("taskplatform/client/words.py", "import django", "What runs without"),
    ("taskplatform/client/outbox/models.py", "import apps.common.clock", "What other projects"),
    ("taskplatform/client/outbox/conf.py", "import taskplatform.settings", "Inside taskplatform"),
    (
        "apps/access/rules/clients.py",
        "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    import django",
        "Rules are pure",
    ),
]
CIRCLE = ("apps/dispatch/services/ending.py", "import apps.dispatch.services.pull", "no circle")


def lint(folder: Path) -> tuple[int, dict[str, str]]:
    """The exit code of import-linter and what it says of each contract that is broken."""
    linter = Path(sys.executable).with_name("lint-imports")
    ended = subprocess.run(
        [linter, "--no-cache"],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(folder), "COLUMNS": "200"},
        capture_output=True,
        text=True,
        check=False,
    )
    _, _, broken = ended.stdout.partition("Broken contracts\n")
    parts = re.split(r"^(.+)\n-+\n", broken, flags=re.MULTILINE)
    return ended.returncode, dict(zip(parts[1::2], parts[2::2], strict=True))


def fault(file: str, source: str) -> str:
    """How import-linter names a module that has no place, or an import that may not be."""
    module = file.removesuffix("/__init__.py").removesuffix(".py").replace("/", ".")
    imported = source.rpartition(" ")[2]
    is_own = imported.startswith(("apps.", "taskplatform."))
    target = imported if is_own else imported.partition(".")[0]
    return f"{module} -> {target} (l." if source else f"- {module}\n"


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A copy of what the contracts are about."""
    for name in ("apps", "taskplatform"):
        shutil.copytree(ROOT / name, tmp_path / name, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    return tmp_path


def test_each_breach_is_found_by_its_contract(subtests: pytest.Subtests, tree: Path) -> None:
    for file, source, _contract in (*BREACHES, CIRCLE):
        path = tree / file
        path.parent.mkdir(exist_ok=True)
        with path.open("a") as opened:
            opened.write(f"\n{source}\n")

    code, broken = lint(tree)

    assert code == 1
    for file, source, contract in BREACHES:
        with subtests.test(file=file, source=source):
            [said] = [text for name, text in broken.items() if contract in name]
            assert fault(file, source) in said
    [said] = [text for name, text in broken.items() if CIRCLE[-1] in name]
    assert "No cycles are allowed in apps.dispatch.services." in said


@pytest.mark.parametrize("name", ["client/sdk", "bootstrap"])
def test_module_for_machines_without_packages_imports_the_standard_library_only(name: str) -> None:
    tree = ast.parse((ROOT / "taskplatform" / f"{name}.py").read_text())
    imported: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            imported.update(alias.name.partition(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            imported.add("." * node.level + (node.module or "").partition(".")[0])
    assert imported - sys.stdlib_module_names == set()


# --- the theme ------------------------------------------------------------------------------------
# What its documentation names; everything else changes with any of its releases.
OF_THE_THEME = {
    "unfold.admin": "ModelAdmin|TabularInline|StackedInline",
    "unfold.forms": r"\w+Form",
    "unfold.sites": "UnfoldAdminSite",
    "unfold.widgets": r"Unfold\w+Widget",
}
# Where it has neither a block nor a setting: the palette and the list of keys that are replaced by
# those of the platform, the search of the menu, titles, the sign for what is not there, and the
# errors of a field, whose list has no id that the field could name.
REPLACED = {"command", "field_readonly_value", "form_errors", "header_title", "search"}
REPLACED |= {"shortcuts", "welcomemsg"}


def private_names(source: str) -> list[str]:
    """What the source imports of the theme and its documentation does not name."""
    found: list[str] = []
    # Parsing takes longest.
    for node in ast.walk(ast.parse(source)) if "unfold" in source else ():
        if isinstance(node, ast.Import):
            found += [each.name for each in node.names if each.name.partition(".")[0] == "unfold"]
        elif isinstance(node, ast.ImportFrom) and (node.module or "").partition(".")[0] == "unfold":
            public = OF_THE_THEME.get(node.module or "", "")
            found += [
                f"{node.module}.{each.name}"
                for each in node.names
                if not re.fullmatch(public, each.name)
            ]
    return found


def test_of_the_theme_only_what_its_documentation_names_is_used() -> None:
    bad = (
        "from unfold.utils import display_for_value\nfrom unfold.admin import ModelAdmin, checkbox"
    )
    assert private_names(bad) == ["unfold.utils.display_for_value", "unfold.admin.checkbox"]
    for folder in ("apps", "taskplatform"):
        for path in (ROOT / folder).rglob("*.py"):
            assert private_names(path.read_text()) == [], path
    templates = [*(ROOT / "templates").rglob("*.html"), *(ROOT / "apps").rglob("*.html")]
    assert [path for path in templates if "unfold_list" in path.read_text()] == []
    assert {path.stem for path in (ROOT / "templates/unfold").rglob("*.html")} == REPLACED


def printed_by(program: str, tmp_path: Path) -> list[str]:
    """The words that a process of a platform on one machine prints."""
    environment = {**os.environ, **neutral(tmp_path), "REDIS_URL": "", "DATABASE_URL": ""}
    found = subprocess.run(
        [sys.executable, "-c", program],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    )
    return found.stdout.split()


def test_process_without_redis_loads_nothing_of_it(tmp_path: Path) -> None:
    """It takes 5 MB of each process of a platform on one machine."""
    loads = "import sys, taskplatform.wsgi, taskplatform.urls; print('redis' in sys.modules)"
    assert printed_by(loads, tmp_path) == ["False"]


def test_drain_loads_no_page_and_tidies_what_pages_leave(tmp_path: Path) -> None:
    """Pages take a third of its start and 20 MB of it; the sweeps of their tables run in it."""
    program = (
        "import sys, taskplatform.celery, django; django.setup(); from apps.common import tidy;"
        "print(*(each for each in sys.modules if each in {'unfold.admin', 'apps.jobs.admin.jobs',"
        " 'rest_framework.views', 'taskplatform.site'}), 'and', *sorted(tidy._small))"
    )
    printed = " ".join(printed_by(program, tmp_path))
    assert printed == f"and {' '.join(sorted(tidy._small))}"
    assert "sent forms" in printed
