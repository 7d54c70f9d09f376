"""The file of the client: what it runs on, and how it learns the address and the key."""

from __future__ import annotations

import ast
import logging
import re
import subprocess
import sys
from pathlib import Path

import pytest

from taskplatform import sdk
from tests.stub_server import KEY, Stub, offers, problem, resets


def test_wrong_address_is_named(subtests: pytest.Subtests) -> None:
    for base_url in (
        *("", "http://", "tasks.example.com", "127.0.0.1:8000", "ftp://tasks.example.com"),
        *("http://tasks.example.com:port", "http://tasks.example.com:0", "http://[::1"),
        *("http://tasks.example.com/?x=1", "http://tasks.example.com/#top"),
    ):
        with subtests.test(base_url=base_url):
            with pytest.raises(ValueError, match="is not an address") as caught:
                sdk.Client(base_url, KEY)
            assert repr(base_url) in str(caught.value)


def test_address_with_a_password_is_refused_without_showing_it() -> None:
    with pytest.raises(ValueError, match="pass the key separately") as caught:
        sdk.Client("http://me:hunter2@tasks.example.com", KEY)
    assert "hunter2" not in str(caught.value)


def test_wrong_key_is_refused_without_showing_it(subtests: pytest.Subtests) -> None:
    for key in ("hunter2", "client.hunter 2", "client.\nX-Evil: 1", "client.秘密", "hunter2."):
        with subtests.test(key=key):
            with pytest.raises(ValueError, match="apiclient create") as caught:
                sdk.Client("http://127.0.0.1:8000", key)
            assert key not in str(caught.value)
            assert "hunter" not in str(caught.value)


@pytest.mark.parametrize("path", ["", "/", "/api/v1", "/api/v1/", "/tasks/"])
def test_address_may_end_in_a_slash_or_the_base_of_the_api(stub: Stub, path: str) -> None:
    """And begin with a prefix of its own."""
    stub.behaves(offers)
    with sdk.Client(stub.url + path, KEY + "\n") as client:
        client.pull("uid_alice")
    assert stub.seen[0].path == f"{'/tasks' if 'tasks' in path else ''}/api/v1/dispatch/"
    assert stub.seen[0].authorization == f"Bearer {KEY}"


def test_key_is_in_no_log_message_or_error(stub: Stub, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    stub.behaves(resets, problem(503, "unavailable"), problem(401, "not_authenticated"))
    client = sdk.Client(stub.url, KEY)
    with client, pytest.raises(sdk.ApiError) as caught:
        client.pull("uid_alice")
    secret = KEY.partition(".")[2]
    assert caplog.records
    assert secret not in f"{caplog.text}{caught.value!r}{client!r}"


def test_module_is_read_by_python_3_9() -> None:
    """What it imports is in tests/unit/test_import_contracts.py."""
    source = Path(sdk.__file__).read_text()
    ast.parse(source, feature_version=(3, 9))
    assert "from __future__ import annotations" in source


def test_copied_file_imports_outside_the_project(tmp_path: Path) -> None:
    (tmp_path / "sdk.py").write_text(Path(sdk.__file__).read_text())
    command = [sys.executable, "-I", "-S", "-W", "error", "-c"]
    # What Python 3.9 and 3.10 do not have.
    younger = "import datetime; del datetime.UTC"
    script = (
        f"{younger}; import sys; sys.path.insert(0, {str(tmp_path)!r}); import sdk; "
        "print(sdk.Client)"
    )
    done = subprocess.run([*command, script], capture_output=True, text=True, check=False)
    assert (done.stdout.strip(), done.stderr) == ("<class 'sdk.Client'>", "")


@pytest.mark.parametrize("readme", ["README.md", "README.zh.md", "apps/dispatch/README.md"])
def test_the_import_that_a_readme_prints_works_after_its_copy(tmp_path: Path, readme: str) -> None:
    """On a fresh clone, with nothing installed: `python -S` finds no packages."""
    root = Path(sdk.__file__).parent.parent
    [line] = re.findall(r"^(?:from|import) .*Client.*$", (root / readme).read_text(), re.MULTILINE)
    statement, copy = re.fullmatch(r"(.+?)  # (cp \S+ \.) – .*", line).groups()
    (tmp_path / "taskplatform").symlink_to(root / "taskplatform")

    subprocess.run(copy.split(), cwd=tmp_path, check=True)
    (tmp_path / "taskplatform").unlink()
    script = f"{statement}; print(Client.__module__)"
    done = subprocess.run(
        [sys.executable, "-S", "-E", "-c", script],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )

    assert (done.stdout.strip(), done.stderr) == ("sdk", "")
