"""Whoever takes the platform along can tell under which licenses all of it is."""

from __future__ import annotations

import tomllib

from taskplatform.environment import BASE_DIR

NOTICE = (BASE_DIR / "NOTICE").read_text()
# Where work of others lies, unchanged: static/ and tests/browser/.
VENDORED = [each for top in ("static", "tests") for each in (BASE_DIR / top).glob("**/vendor/*")]


def test_notice_names_each_vendored_folder_with_its_licenses() -> None:
    assert len(VENDORED) > 1
    for folder in VENDORED:
        licenses = [
            each for each in folder.rglob("*") if each.name.startswith(("LICENSE", "NOTICE"))
        ]
        texts = [each.relative_to(BASE_DIR).as_posix() for each in licenses if each.is_file()]
        assert texts, f"{folder}: put its license beside it"
        assert [each for each in texts if each not in NOTICE] == []


def test_project_names_its_license_and_the_files_that_say_so() -> None:
    project = tomllib.loads((BASE_DIR / "pyproject.toml").read_text())["project"]

    assert (project["license"], project["license-files"][:2]) == ("MIT", ["LICENSE", "NOTICE"])
    for pattern in project["license-files"]:
        assert list(BASE_DIR.glob(pattern)), pattern
    assert (BASE_DIR / "LICENSE").read_text().startswith("MIT License")
    # What other projects install is of the same release.
    client = tomllib.loads((BASE_DIR / "taskplatform/client/pyproject.toml").read_text())["project"]
    assert (client["version"], client["license"]) == (project["version"], {"text": "MIT"})
    license_text = (BASE_DIR / "LICENSE").read_text()
    assert (BASE_DIR / "taskplatform/client/LICENSE").read_text() == license_text
    # Which is copied alone.
    assert "SPDX-License-Identifier: MIT" in (BASE_DIR / "taskplatform" / "sdk.py").read_text()
