"""The addresses for programs: their answers are in English and JSON, never pages."""

from __future__ import annotations

_PROGRAMS = ["/api/v1/"]


def register_programs(prefix: str) -> None:
    """Addresses with this prefix are for programs, too."""
    if prefix not in _PROGRAMS:
        _PROGRAMS.append(prefix)


def is_for_programs(path: str) -> bool:
    """Whether the address is for programs alone."""
    return path.startswith(tuple(_PROGRAMS))


def is_in_english(path: str) -> bool:
    """Whether the address answers in English for everybody: the documents of the API, too."""
    return path.startswith("/api/") or is_for_programs(path)
