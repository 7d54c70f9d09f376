"""Calls from this machine itself, which may be trusted with what others need a key for."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

_LOOPBACK = {"127.0.0.1", "::1"}
# Headers that proxies add, and jobs that call for somebody else.
_OF_PROXIES = ("HTTP_X_FORWARDED_FOR", "HTTP_FORWARDED", "HTTP_X_REAL_IP", "HTTP_VIA")


def is_of_this_machine(meta: Mapping[str, Any]) -> bool:
    """Whether a program here asks for itself, and passes on nobody else's request."""
    is_passed_on = any(header in meta for header in _OF_PROXIES)
    return meta.get("REMOTE_ADDR") in _LOOPBACK and not is_passed_on
