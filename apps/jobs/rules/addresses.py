"""The addresses of other machines that a job may connect to."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable, Sequence

Address = ipaddress.IPv4Address | ipaddress.IPv6Address
Network = ipaddress.IPv4Network | ipaddress.IPv6Network

# Named here and not taken from `is_global`, whose answer differs between releases of Python.
_REFUSED_V4 = tuple(
    ipaddress.ip_network(each)
    for each in (
        "0.0.0.0/8",  # this host
        "10.0.0.0/8",
        "100.64.0.0/10",  # behind a carrier's NAT
        "127.0.0.0/8",
        "169.254.0.0/16",  # link-local: the metadata of clouds
        "172.16.0.0/12",
        "192.0.0.0/24",
        "192.0.2.0/24",
        "192.88.99.0/24",
        "192.168.0.0/16",
        "198.18.0.0/15",
        "198.51.100.0/24",
        "203.0.113.0/24",
        "224.0.0.0/4",  # multicast
        "240.0.0.0/4",
    )
)
# All of IPv6 that is routed lies in 2000::/3; ::1, v4-mapped, NAT64, link-local and unique local
# addresses do not.
_ROUTED_V6 = ipaddress.ip_network("2000::/3")
_REFUSED_V6 = tuple(
    ipaddress.ip_network(each)
    for each in (
        "2001::/23",  # Teredo and others that carry an IPv4 address
        "2001:db8::/32",
        "2002::/16",  # 6to4 carries an IPv4 address
        "3fff::/20",
    )
)


def is_address(host: str) -> bool:
    """Whether the host is an address itself, which needs no look-up."""
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True


def is_allowed(address: Address, networks: Sequence[Network] = ()) -> bool:
    """Whether the address is a public one, or lies in a network that the deployer names."""
    if any(address in network for network in networks if network.version == address.version):
        return True
    if isinstance(address, ipaddress.IPv4Address):
        return not any(address in network for network in _REFUSED_V4)
    return address in _ROUTED_V6 and not any(address in network for network in _REFUSED_V6)


def host_is_listed(host: str, port: int, default_port: int, listed: Iterable[str]) -> bool:
    """Whether the list has the host: `api.example.com`, `*.example.com`, each with `:8443` where
    the port is not the usual one of the scheme."""
    for entry in listed:
        name, _, wanted = entry.lower().partition(":")
        if int(wanted or default_port) != port:
            continue
        if host == name or (name.startswith("*.") and host.endswith(name[1:])):
            return True
    return False


def network_of(text: str) -> Network:
    """`10.1.0.0/16` or one address; ValueError otherwise."""
    return ipaddress.ip_network(text)
