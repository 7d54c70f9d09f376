"""Each step of a start: what it does the first time, and that it does it once."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from django.contrib.auth import get_user_model
from django.db import OperationalError, connection, connections

from apps.access import services
from apps.access.models import ApiClient
from apps.access.services import find
from apps.dispatch.models import Executor, OnceTask
from taskplatform import startup
from taskplatform.startup import CannotStart

# --- The folder ---------------------------------------------------------------------------------


@pytest.fixture
def usual_mask() -> Iterator[None]:
    """New files are readable for all, before and after the test."""
    before = os.umask(0o022)
    yield
    os.umask(before)


def modes(folder: Path) -> dict[str, str]:
    found = [folder, *folder.rglob("*")]
    return {str(path.relative_to(folder)): oct(path.stat().st_mode & 0o777) for path in found}


@pytest.fixture
def open_folder(tmp_path: Path, usual_mask: None) -> Path:
    """One that an operator has made, or an earlier version."""
    folder = tmp_path / "var"
    (folder / "logs").mkdir(parents=True)
    for name in ("taskplatform.sqlite3", "secret_key", "logs/web.log"):
        (folder / name).touch()
    folder.chmod(0o755)
    return folder


def test_folder_that_all_share_is_left_and_named(open_folder: Path) -> None:
    open_folder.chmod(0o1777)

    assert "a folder that all share: name one of its own in VAR_DIR" in startup.protect(open_folder)
    assert modes(open_folder)["."] == "0o777"


def test_file_of_somebody_else_is_named(open_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(path: Path, mode: int) -> None:
        raise PermissionError(1, "Operation not permitted", str(path))

    monkeypatch.setattr(Path, "chmod", refuse)

    assert startup.protect(open_folder) == (
        f"Others can read {open_folder}: Operation not permitted; start as the owner of the files, "
        "or change it (chown -R)"
    )


def test_linked_file_elsewhere_keeps_its_mode(open_folder: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.touch(mode=0o644)
    (open_folder / "link").symlink_to(other)

    startup.protect(open_folder)

    assert stat.S_IMODE(other.stat().st_mode) == 0o644


# --- The database -------------------------------------------------------------------------------


class Server:
    """A database server that refuses with each of the errors, then accepts."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *errors: tuple[int, str]) -> None:
        self.errors = list(errors)
        self.now = 0.0
        monkeypatch.setattr(connection, "ensure_connection", self._connect)
        passing = SimpleNamespace(monotonic=lambda: self.now, sleep=self._sleep)
        monkeypatch.setattr(startup, "time", passing)

    def _connect(self) -> None:
        if self.errors:
            raise OperationalError(*self.errors.pop(0))

    def _sleep(self, seconds: float) -> None:
        self.now += seconds


@pytest.mark.both
def test_database_that_is_still_starting_is_awaited_with_one_line(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    Server(monkeypatch, (2002, "no socket"), (2013, "lost"), (1040, "too many"))
    shown: list[str] = []

    startup.await_database(shown.append)

    assert shown == [f"Waiting for the database {startup.database_address()} to answer."]


@pytest.mark.both
@pytest.mark.parametrize(
    "error", [(1045, "Access denied for user 'u'@'h'"), (1049, "Unknown database 'x'")]
)
def test_database_that_refuses_is_reported_at_once(
    monkeypatch: pytest.MonkeyPatch, error: tuple[int, str]
) -> None:
    server = Server(monkeypatch, error)

    with pytest.raises(CannotStart) as stop:
        startup.await_database(lambda line: None)

    assert str(stop.value) == (
        f"The database {startup.database_address()} cannot be used: {error[1]}. Check "
        "DATABASE_URL; the database and its user or the folder of its file must exist."
    )
    assert server.now == 0


@pytest.mark.both
def test_database_that_never_answers_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    server = Server(monkeypatch, *[(2002, "Connection refused")] * 1000)

    with pytest.raises(CannotStart, match="cannot be used: Connection refused"):
        startup.await_database(lambda line: None)

    assert server.now == pytest.approx(startup.DATABASE_SECONDS, abs=1)


@pytest.mark.mariadb
@pytest.mark.django_db
def test_second_machine_waits_while_the_first_sets_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(startup, "_SETUP_LOCK_SECONDS", 0)
    mine, other = connection, connections.create_connection("default")
    try:
        with startup.setup_lock():
            monkeypatch.setattr(startup, "connection", other)
            with pytest.raises(CannotStart, match="Another machine"), startup.setup_lock():
                pytest.fail("both set up at once")
            monkeypatch.setattr(startup, "connection", mine)
        monkeypatch.setattr(startup, "connection", other)
        with startup.setup_lock():
            pass
    finally:
        other.close()


# --- Redis --------------------------------------------------------------------------------------


@pytest.mark.both
def test_redis_that_does_not_answer_is_reported_without_its_password(settings: Any) -> None:
    settings.REDIS_URL = "redis://:secret@127.0.0.1:1/0"

    problem = startup.redis_problem()

    assert problem == "Redis at 127.0.0.1:1 does not answer (Connection refused)"


# --- Static files -------------------------------------------------------------------------------


class Static:
    """A source folder of one file, and a count of the collections from it."""

    def __init__(self, folder: Path, settings: Any, monkeypatch: pytest.MonkeyPatch) -> None:
        self.var = folder / "var"
        self.root = self.var / "static"
        self.root.mkdir(parents=True)
        self.source = folder / "source" / "a.css"
        self.source.parent.mkdir()
        self.source.write_text("a{}")
        self.collected = 0
        settings.STATICFILES_DIRS = [self.source.parent]
        settings.STATICFILES_FINDERS = ["django.contrib.staticfiles.finders.FileSystemFinder"]
        settings.STATIC_ROOT = self.root
        monkeypatch.setattr(startup, "call_command", self._collect)

    def _collect(self, *_: Any, **__: Any) -> None:
        self.collected += 1
        (self.root / "staticfiles.json").touch()


@pytest.fixture
def static(tmp_path: Path, settings: Any, monkeypatch: pytest.MonkeyPatch) -> Static:
    return Static(tmp_path, settings, monkeypatch)


def test_static_files_are_collected_once_and_again_when_they_change(static: Static) -> None:
    assert "Run `manage.py collectstatic --no-input`" in startup.static_problem()
    for _ in range(2):
        startup.collect_static(static.var)
    assert (static.collected, startup.static_problem()) == (1, "")
    static.source.write_text("a{color:red}")
    startup.collect_static(static.var)

    assert static.collected == 2


def test_collection_that_broke_off_is_repeated(
    static: Static, monkeypatch: pytest.MonkeyPatch
) -> None:
    startup.collect_static(static.var)
    before = static.source.stat()
    # Of another length, because two writes may bear the same time.
    static.source.write_text("b{color:red}")

    def breaks_off(*_: Any, **__: Any) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as context:
        context.setattr(startup, "call_command", breaks_off)
        with pytest.raises(OSError, match="No space left"):
            startup.collect_static(static.var)
    static.source.write_text("a{}")
    os.utime(static.source, ns=(before.st_atime_ns, before.st_mtime_ns))
    startup.collect_static(static.var)

    assert static.collected == 2


# --- Login and key ------------------------------------------------------------------------------


@pytest.mark.both
@pytest.mark.django_db
def test_admin_is_made_once_with_a_password_that_is_kept(tmp_path: Path) -> None:
    password = startup.ensure_admin(tmp_path)
    again = startup.ensure_admin(tmp_path)

    user = get_user_model().objects.get(username="admin")
    assert user.check_password(password) and user.is_superuser
    assert (tmp_path / "admin_password").read_text() == password
    assert len(password) >= 16 and again == ""


@pytest.mark.both
@pytest.mark.django_db
def test_admin_of_an_older_database_keeps_its_password(tmp_path: Path) -> None:
    """A second machine, or a lost folder: nothing is reset and nothing is pretended."""
    get_user_model().objects.create_superuser(username="admin", password="chosen")

    assert startup.ensure_admin(tmp_path) == ""
    assert not (tmp_path / "admin_password").exists()


@pytest.fixture
def demo(settings: Any) -> None:
    settings.DEMO = True


@pytest.mark.both
@pytest.mark.django_db
def test_demo_key_and_data_are_made_once(demo: None, tmp_path: Path) -> None:
    key = startup.ensure_demo(tmp_path)
    tasks = OnceTask.objects.count()
    again = startup.ensure_demo(tmp_path)

    client = find(key.partition(".")[0])
    assert client.scopes == list(startup.DEMO_SCOPES)
    assert key == again and tasks == OnceTask.objects.count() > 0
    assert ApiClient.objects.count() == 1


@pytest.mark.django_db
def test_platform_without_demo_begins_empty(tmp_path: Path, settings: Any) -> None:
    settings.DEMO = False

    assert startup.ensure_demo(tmp_path) == ""

    assert not Executor.objects.exists() and not ApiClient.objects.exists()
    assert not (tmp_path / "demo_key").exists()


@pytest.mark.django_db
def test_demo_key_of_a_lost_database_is_made_anew(demo: None, tmp_path: Path) -> None:
    (tmp_path / "demo_key").write_text("demo-abcdef.secret")

    key = startup.ensure_demo(tmp_path)

    assert key != "demo-abcdef.secret"
    assert (tmp_path / "demo_key").read_text() == key


@pytest.mark.django_db
def test_revoked_demo_key_stays_revoked_and_is_not_shown(demo: None, tmp_path: Path) -> None:
    """I60: an operator's revocation outlives a restart."""
    key = startup.ensure_demo(tmp_path)
    services.revoke(find(key.partition(".")[0]), actor="operator")

    assert startup.ensure_demo(tmp_path) == ""
    assert ApiClient.objects.count() == 1


def test_secret_file_is_its_owners_alone_even_where_a_public_one_lay(tmp_path: Path) -> None:
    path = tmp_path / "demo_key"
    path.touch(0o644)

    startup.keep_secret(path, "secret")

    assert path.read_text() == "secret"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
