"""A dialect of asyncflow at a port of its own, and nothing else there. S2.12."""

from __future__ import annotations

import os
import socket
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

import pytest
from django.core.management import CommandError, call_command
from django.test import override_settings

from apps.asyncflow.dialects import OWN_PORT
from taskplatform import web
from taskplatform.management.commands import serve
from taskplatform.startup import CannotStart
from tests.processes import free_port

# Importing it names the settings for this process, which other tests want unnamed.
with patch.dict(os.environ):
    from taskplatform import ports
    from taskplatform.ports import AtPort


def environ_of(application: AtPort, path: str) -> dict[str, Any]:
    scope: Any = SimpleNamespace(
        method="GET",
        path=path,
        query_string="",
        http_version="1.1",
        scheme="http",
        server="127.0.0.1:41555",
        client="127.0.0.1:50000",
        headers={},
    )
    return application._environ(scope)


def test_root_of_a_port_is_that_of_its_dialect(subtests: pytest.Subtests) -> None:
    for application, path, asked in (
        (ports.g1, "/hold_tasks", "/asyncflow/g1/hold_tasks"),
        (ports.g2, "/v1/ping", "/asyncflow/g2/v1/ping"),
        (ports.java, "/task/hold_task", "/asyncflow/java/task/hold_task"),
        (ports.api, "/api/task/setTask", "/asyncflow/api/task/setTask"),
        (ports.g1, "/admin/", "/asyncflow/g1/admin/"),
        (ports.g1, "/../api/v1/jobs/", "/asyncflow/g1/../api/v1/jobs/"),
        (ports.api, "/g2/v1/ping", "/asyncflow/api/g2/v1/ping"),
        (ports.api, "/api/v1/jobs/", "/asyncflow/api/v1/jobs/"),
    ):
        with subtests.test(application=application, path=path):
            environ = environ_of(application, path)
            assert environ["PATH_INFO"] == asked
            assert OWN_PORT in environ


@pytest.mark.parametrize(("https", "scheme"), [(False, "http"), (True, "https")])
def test_what_stays_on_this_machine_needs_no_tls(https: bool, scheme: str) -> None:
    with override_settings(HTTPS=https):
        assert environ_of(ports.g1, "/ping")["wsgi.url_scheme"] == scheme


def test_server_of_a_dialect_listens_on_this_machine_alone() -> None:
    command = web.local_command("g1", 41555, connections=100)

    assert command[command.index("--host") + 1] == "127.0.0.1"
    assert command[command.index("--port") + 1] == "41555"
    assert command[-1] == "taskplatform.ports:g1"


@override_settings(ASYNCFLOW_PORTS=(("g1", 41555), ("java", 8081)), HOST="0.0.0.0")  # noqa: S104
def test_platform_starts_a_server_for_each() -> None:
    command = serve.Command()
    command.host, command.port = "0.0.0.0", 8000  # noqa: S104

    found = {part.name: part for part in command._parts()}

    assert [*found] == ["web", "asyncflow-g1", "asyncflow-java", "sweeps", "drains"]
    assert "127.0.0.1" in found["asyncflow-java"].command
    assert not found["asyncflow-java"].leads


def test_port_that_is_taken_is_named_with_its_dialect() -> None:
    command = serve.Command()
    command.host, command.port = "127.0.0.1", free_port()
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        taken = other.getsockname()[1]
        with (
            override_settings(ASYNCFLOW_PORTS=(("g1", taken),)),
            pytest.raises(CannotStart, match=rf"Port {taken} on 127.0.0.1, of the dialect g1 in"),
        ):
            command._require_ports()
    with override_settings(ASYNCFLOW_PORTS=(("g1", free_port()),)):
        command._require_ports()


def test_address_of_another_machine_is_refused_with_what_to_change() -> None:
    command = serve.Command()
    command.host, command.port = "192.0.2.1", free_port()
    with pytest.raises(CannotStart, match=r"192\.0\.2\.1 .* Choose others with HOST and PORT\."):
        command._require_ports()


def test_web_server_shares_its_port_with_no_other(
    subtests: pytest.Subtests, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("os.execv", lambda *_command: pytest.fail("it started"))
    with socket.socket() as other:
        # As web servers have it, which lets a second one in.
        other.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        other.bind(("127.0.0.1", 0))
        other.listen()
        taken = other.getsockname()[1]
        for variables, options, message in (
            ({}, {"port": taken}, rf"Port {taken} .* manage.py web --port \d+$"),
            ({"ASYNCFLOW_PORTS": (("g1", taken),)}, {"asyncflow": "g1"}, f"Port {taken} .* g1 in"),
            ({}, {"host": "192.0.2.1"}, "cannot listen on 192.0.2.1 port 8000"),
        ):
            with (
                subtests.test(message),
                override_settings(**variables),
                pytest.raises(CommandError, match=message),
            ):
                call_command("web", **options)


def test_web_server_takes_what_its_settings_take(subtests: pytest.Subtests) -> None:
    for option in ("--port=0", "--port=65536", "--workers=0", "--host=nowhere", "--asyncflow=g1"):
        with subtests.test(option), pytest.raises(CommandError, match=option.partition("=")[0]):
            call_command("web", option)


def test_web_server_says_of_which_dialects_there_are_ports(subtests: pytest.Subtests) -> None:
    for ports, message in (((), "it is empty; write one such as"), ((("g2", 5100),), "it has g2")):
        with (
            subtests.test(message),
            override_settings(ASYNCFLOW_PORTS=ports),
            pytest.raises(CommandError, match=f"has no port of 'g1'; {message}"),
        ):
            call_command("web", "--asyncflow=g1")
