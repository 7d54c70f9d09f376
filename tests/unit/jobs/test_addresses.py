"""Which addresses http_request may connect to, and which hosts are listed."""

from __future__ import annotations

import ipaddress

import pytest

from apps.jobs.rules.addresses import host_is_listed, is_allowed, network_of

REFUSED = """
    0.0.0.0 10.0.0.1 10.255.255.255 100.64.0.1 100.127.255.255 127.0.0.1 127.255.255.254
    169.254.169.254 172.16.0.1 172.31.255.255 192.0.0.8 192.168.1.1 198.18.0.1 203.0.113.9
    224.0.0.1 239.255.255.255 240.0.0.1 255.255.255.255 :: ::1 ::ffff:127.0.0.1 ::ffff:10.0.0.1
    ::ffff:93.184.216.34 ::127.0.0.1 64:ff9b::7f00:1 fc00::1 fd12:3456::1 fe80::1 fe80::1%eth0
    fec0::1 ff02::1 2001::1 2001:db8::1 2002:7f00:1::1 3fff::1
""".split()
PUBLIC = """
    1.1.1.1 9.255.255.255 11.0.0.0 100.63.255.255 100.128.0.0 126.255.255.255 128.0.0.1
    172.15.255.255 172.32.0.0 192.167.255.255 223.255.255.255 2606:4700:4700::1111 2a00:1450::1
""".split()


def test_address_that_is_not_public_is_refused(subtests: pytest.Subtests) -> None:
    for address in REFUSED:
        with subtests.test(address=address):
            assert not is_allowed(ipaddress.ip_address(address))


def test_public_address_is_allowed(subtests: pytest.Subtests) -> None:
    for address in PUBLIC:
        with subtests.test(address=address):
            assert is_allowed(ipaddress.ip_address(address))


def test_network_that_is_named_is_allowed_too(subtests: pytest.Subtests) -> None:
    for address, network, allowed in (
        ("10.1.2.3", "10.1.0.0/16", True),
        ("10.2.0.1", "10.1.0.0/16", False),
        ("127.0.0.1", "127.0.0.1", True),
        ("::ffff:10.1.2.3", "10.1.0.0/16", False),
        ("fd00::5", "fd00::/8", True),
    ):
        with subtests.test(address=address):
            assert is_allowed(ipaddress.ip_address(address), [network_of(network)]) is allowed


def test_only_listed_hosts_are_called(subtests: pytest.Subtests) -> None:
    for host, port, listed in (
        ("api.example.com", 443, True),
        ("api.example.com", 8443, False),
        ("shop.example.org", 443, True),
        ("a.b.example.org", 443, True),
        ("example.org", 443, False),
        ("evilexample.org", 443, False),
        ("box", 8443, True),
        ("box", 443, False),
        ("api.example.com.evil.net", 443, False),
    ):
        with subtests.test(host=host, port=port):
            names = ["API.example.com", "*.example.org", "box:8443"]
            assert host_is_listed(host, port, 443, names) is listed
