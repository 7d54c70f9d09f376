"""The caller of a request that comes through proxies, which add it to X-Forwarded-For."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network

# Some proxies add the port: 192.0.2.7:1234, [2001:db8::7]:1234.
_WITH_PORT = re.compile(r"\[(?P<v6>[^\]]+)\](:\d+)?|(?P<v4>[\d.]+):\d+", re.ASCII)


class Callers:
    """Finds the caller behind the trusted proxies."""

    def __init__(self, trusted: Iterable[str]) -> None:
        self._trusted = [ip_network(each) for each in trusted]
        self._address_of = lru_cache(maxsize=1024)(self._find)

    def address_of(self, peer: str, forwarded: str) -> str:
        """The nearest address that is no trusted proxy's; `peer` has opened the connection.

        Each proxy vouches for what it has added on the right. What is no address ends the way: the
        proxy that sent it is then the caller.
        """
        return self._address_of(peer, forwarded) if self._trusted else peer

    def _find(self, peer: str, forwarded: str) -> str:
        caller = _address(peer)
        if caller is None:
            return peer
        for claimed in reversed(forwarded.split(",")):
            if not self._is_trusted(caller):
                break
            before = _address(claimed.strip())
            if before is None:
                break
            caller = before
        return str(caller)

    def _is_trusted(self, address: IPv4Address | IPv6Address) -> bool:
        return any(address in network for network in self._trusted)


def _address(text: str) -> IPv4Address | IPv6Address | None:
    """An IPv4 address that is written as IPv6 is one of IPv4."""
    if match := _WITH_PORT.fullmatch(text):
        text = match["v6"] or match["v4"]
    try:
        address = ip_address(text)
    except ValueError:
        return None
    return getattr(address, "ipv4_mapped", None) or address
