"""What `serve` shows and starts, by the settings of the machine."""

from __future__ import annotations

import signal
from pathlib import Path
from typing import Any

import pytest

from taskplatform.management.commands import serve


@pytest.mark.parametrize(
    ("host", "allowed", "https", "url"),
    [
        ("127.0.0.1", ["127.0.0.1", "localhost"], False, "http://127.0.0.1:8000"),
        ("0.0.0.0", ["127.0.0.1", "example.org"], False, "http://127.0.0.1:8000"),  # noqa: S104
        ("::1", ["[::1]"], False, "http://[::1]:8000"),
        ("::", ["*"], False, "http://[::1]:8000"),
        ("10.0.0.5", ["10.0.0.5"], False, "http://10.0.0.5:8000"),
        ("127.0.0.1", ["tasks.example.org"], False, "http://tasks.example.org:8000"),
        ("127.0.0.1", [".example.org", "localhost"], True, "https://example.org"),
    ],
)
def test_address_shown_is_one_that_the_settings_let_in(
    settings: Any, host: str, allowed: list[str], https: bool, url: str
) -> None:
    settings.ALLOWED_HOSTS = allowed
    settings.HTTPS = https
    command = serve.Command()
    command.host, command.port = host, 8000

    assert command.url == url


def test_only_a_web_that_cannot_run_stops_the_others(settings: Any, tmp_path: Path) -> None:
    """A disk that is full for half a minute kills sweeps and drains again and again."""
    command = serve.Command()
    command.var, command.host, command.port = tmp_path, settings.HOST, settings.PORT

    assert [part.name for part in command._parts() if not part.may_die] == ["web"]


def test_stop_waits_for_the_tables_unless_it_is_asked_for_twice(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    ends: list[str] = []
    monkeypatch.setattr(serve, "_end", lambda: ends.append("end"))
    command = serve.Command()

    with command._undivided():
        command._stop_setting_up(signal.SIGTERM, None)
        assert not ends
        assert capfd.readouterr().err.startswith("The tables are being set up: everything stops")
    assert len(ends) == 1

    with command._undivided():
        command._stop_setting_up(signal.SIGTERM, None)
        assert len(ends) == 2


def test_stop_beside_anything_else_ends_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    ends: list[str] = []
    monkeypatch.setattr(serve, "_end", lambda: ends.append("end"))
    command = serve.Command()
    with command._undivided():
        pass
    assert not ends

    command._stop_setting_up(signal.SIGTERM, None)

    assert len(ends) == 1
