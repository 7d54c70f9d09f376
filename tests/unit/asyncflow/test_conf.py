"""Settings of asyncflow."""

from __future__ import annotations

import pytest
from django.core.exceptions import ImproperlyConfigured

from apps.asyncflow.conf import AsyncflowConf


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
