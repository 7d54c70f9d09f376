"""Whose request it is, when proxies stand in front."""

from __future__ import annotations

import pytest

from taskplatform.callers import Callers

TRUSTED = ["10.0.0.4", "10.1.0.0/16", "2001:db8::/64"]


def test_caller_is_the_nearest_address_that_is_no_proxy(subtests: pytest.Subtests) -> None:
    for peer, forwarded, caller in (
        ("10.0.0.4", "203.0.113.1", "203.0.113.1"),
        # Everybody may claim what stands on the left.
        ("10.0.0.4", "127.0.0.1, 203.0.113.1", "203.0.113.1"),
        ("10.0.0.4", "203.0.113.1, 10.1.2.3,10.1.2.4", "203.0.113.1"),
        ("10.0.0.4", "10.1.2.3", "10.1.2.3"),
        ("10.0.0.4", "", "10.0.0.4"),
        # Who is no proxy speaks for nobody.
        ("192.0.2.1", "203.0.113.1", "192.0.2.1"),
        # No addresses.
        ("10.0.0.4", "unknown", "10.0.0.4"),
        ("10.0.0.4", "203.0.113.1, <b>me</b>", "10.0.0.4"),
        ("10.0.0.4", "203.0.113.1, nobody, 10.1.2.3", "10.1.2.3"),
        ("10.0.0.4", "203.0.113.1,", "10.0.0.4"),
        ("10.0.0.4", "999.0.0.1", "10.0.0.4"),
        # As some proxies and dual-stack sockets write them.
        ("10.0.0.4", "203.0.113.1:4711", "203.0.113.1"),
        ("10.0.0.4", "[2001:db8:1::7]:4711", "2001:db8:1::7"),
        ("10.0.0.4", "2001:0DB8:1::0007", "2001:db8:1::7"),
        ("::ffff:10.0.0.4", "::ffff:203.0.113.1", "203.0.113.1"),
        ("2001:db8::4", "203.0.113.1", "203.0.113.1"),
    ):
        with subtests.test(peer=peer, forwarded=forwarded):
            assert Callers(TRUSTED).address_of(peer, forwarded) == caller


def test_nobody_is_believed_without_trusted_proxies() -> None:
    assert Callers([]).address_of("127.0.0.1", "203.0.113.1") == "127.0.0.1"
