"""Names that stand in addresses."""

from __future__ import annotations


def fits_address(name: str) -> bool:
    """Whether an address can hold the name as one part: clients and proxies split at slashes and
    resolve `.` and `..`."""
    return "/" not in name and name.strip(".") != ""
