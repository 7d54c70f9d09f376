"""Which addresses programs ask for: these get answers in English and as JSON, and no pages."""

from __future__ import annotations

_PROGRAMS = ["/api/v1/"]


def register_programs(prefix: str) -> None:
    """Addresses with this prefix are for programs, too."""
    if prefix not in _PROGRAMS:
        _PROGRAMS.append(prefix)


def is_for_programs(path: str) -> bool:
    """Whether programs alone ask for it."""
    return path.startswith(tuple(_PROGRAMS))


def is_in_english(path: str) -> bool:
    """Whether its answers are in English for everybody: the documents of the API, too."""
    return path.startswith("/api/") or is_for_programs(path)
