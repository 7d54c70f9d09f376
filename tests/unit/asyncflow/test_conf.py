"""Settings of asyncflow, and what its dialects call the states of jobs."""

from __future__ import annotations

import pytest
from django.core.exceptions import ImproperlyConfigured

from apps.asyncflow.conf import AsyncflowConf
from apps.asyncflow.dialects import BY_NAME
from apps.jobs.rules import transitions as t


@pytest.mark.parametrize(
    ("text", "ports"),
    [("g1:41555", (("g1", 41555),)), (" java:8081 , g2:1 ", (("java", 8081), ("g2", 1)))],
)
def test_ports_of_dialects(text: str, ports: tuple[tuple[str, int], ...]) -> None:
    assert AsyncflowConf.ASYNCFLOW_PORTS.read(text) == ports


def test_wrong_port_of_a_dialect_stops_the_start(subtests: pytest.Subtests) -> None:
    for text, message in (
        ("go:41555", r"'go:41555' is no dialect with a port. Allowed: dialects .g2, g1, java, api"),
        ("g1", "is no dialect with a port"),
        ("g1:0", "is no dialect with a port"),
        ("g1:65536", "is no dialect with a port"),
        ("g1:port", "is no dialect with a port"),
        ("g1:1,g1:2", "a port that another one has already"),
        ("g1:1,g2:1", "a port that another one has already"),
    ):
        with subtests.test(text=text):
            with pytest.raises(ImproperlyConfigured, match=f"ASYNCFLOW_PORTS: .*{message}"):
                AsyncflowConf.ASYNCFLOW_PORTS.read(text)


@pytest.mark.parametrize("text", ["Lark workers", "lark.secret", "x" * 65])
def test_what_is_no_client_id_stops_the_start(text: str) -> None:
    with pytest.raises(ImproperlyConfigured, match=r"is no client id\. .*the part of a key"):
        AsyncflowConf.ASYNCFLOW_LOOPBACK_CLIENT.read(text)


def test_all_that_waits_is_1_and_is_found_by_it() -> None:
    """Also what waits for a place of its key, of which no worker of asyncflow has heard."""
    for dialect in BY_NAME.values():
        assert {dialect.number(status) for status in t.WAITING} == {1}
        assert {*dialect.statuses(1)} == {t.SCHEDULED, t.BLOCKED, t.READY}
