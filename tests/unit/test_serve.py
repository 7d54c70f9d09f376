"""What `serve` shows and starts, by the settings of the machine."""

from __future__ import annotations

import resource
from pathlib import Path
from typing import Any

import pytest

from taskplatform import web
from taskplatform.management.commands import serve


def test_address_shown_is_one_that_the_settings_let_in(
    subtests: pytest.Subtests, settings: Any
) -> None:
    for host, allowed, https, url in (
        ("127.0.0.1", ["127.0.0.1", "localhost"], False, "http://127.0.0.1:8000"),
        ("0.0.0.0", ["127.0.0.1", "example.org"], False, "http://127.0.0.1:8000"),  # noqa: S104
        ("::1", ["[::1]"], False, "http://[::1]:8000"),
        ("::", ["*"], False, "http://[::1]:8000"),
        ("10.0.0.5", ["10.0.0.5"], False, "http://10.0.0.5:8000"),
        ("127.0.0.1", ["tasks.example.org"], False, "http://tasks.example.org:8000"),
        ("127.0.0.1", [".example.org", "localhost"], True, "https://example.org"),
    ):
        with subtests.test(host=host, allowed=allowed):
            settings.ALLOWED_HOSTS = allowed
            settings.HTTPS = https
            command = serve.Command()
            settings.HOST, command.port = host, 8000
            assert command.url == url


def test_slots_are_shared_by_as_few_processes_as_keep_the_cores_busy(
    subtests: pytest.Subtests,
) -> None:
    for slots, shared in ((1, [1]), (4, [4]), (7, [7]), (8, [4, 4]), (18, [5, 5, 4, 4])):
        with subtests.test(slots=slots):
            found = serve.drains(slots)
            assert [each for _name, each in found] == shared
            assert [name for name, _each in found][:2] == ["drains", "drains-2"][: len(found)]


def test_several_web_processes_count_together(settings: Any, tmp_path: Path) -> None:
    settings.VAR_DIR, settings.WORKER_SLOTS = tmp_path, 8
    command = serve.Command()
    command.host, command.port = "127.0.0.1", 8000
    for workers in (1, 3):
        settings.WEB_WORKERS = workers
        found = {part.name: part for part in command._parts()}
        assert ("--workers" in found["web"].command) == (workers > 1)
        folders = found["web"].variables.values()
        assert [Path(each).is_dir() for each in folders] == [True] * (workers > 1)
    assert found["drains-2"].variables == {}
    settings.REDIS_URL = ""
    many = web.MOST_CONNECTIONS
    [problem] = web.problems(many, 3)
    assert "3 web processes counts wrong keys" in problem
    assert list(web.problems(many, 1)) == []
    settings.REDIS_URL = "redis://127.0.0.1"
    assert list(web.problems(many, 3)) == []


@pytest.fixture
def exits(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Collects the exits of the process."""
    exits: list[str] = []
    monkeypatch.setattr(serve, "_exit_now", lambda: exits.append("exit"))
    return exits


def test_stop_waits_for_the_migrations_unless_it_is_requested_twice(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], exits: list[str]
) -> None:
    command = serve.Command()

    def migrate(*_arguments: Any, **_options: Any) -> None:
        command._stop_setup()
        assert not exits
        assert capfd.readouterr().err.startswith("Stopping after the migrations.")

    def migrate_slowly(*_arguments: Any, **_options: Any) -> None:
        command._stop_setup()
        assert len(exits) == 2

    monkeypatch.setattr(serve, "call_command", migrate)
    command._migrate()
    assert len(exits) == 1
    monkeypatch.setattr(serve, "call_command", migrate_slowly)
    command._migrate()


def test_stop_during_any_other_step_exits_at_once(
    monkeypatch: pytest.MonkeyPatch, exits: list[str]
) -> None:
    monkeypatch.setattr(serve, "call_command", lambda *_arguments, **_options: None)
    command = serve.Command()
    command._migrate()
    assert not exits

    command._stop_setup()

    assert len(exits) == 1


@pytest.mark.parametrize(
    ("soft", "hard", "raised", "connections"),
    [
        (1024, 524_288, [10_256], 10_000),
        (1024, resource.RLIM_INFINITY, [10_256], 10_000),
        (1024, 4096, [4096], 3840),
        (1024, 1024, [], 768),
        (100_000, 524_288, [], 10_000),
    ],
)
def test_web_server_may_open_as_many_files_as_the_system_allows(
    monkeypatch: pytest.MonkeyPatch, soft: int, hard: int, raised: list[int], connections: int
) -> None:
    given: list[int] = []
    monkeypatch.setattr(web.resource, "getrlimit", lambda _which: (soft, hard))
    monkeypatch.setattr(web.resource, "setrlimit", lambda _which, limits: given.append(limits[0]))

    assert web.raise_file_limit() == connections
    assert given == raised
