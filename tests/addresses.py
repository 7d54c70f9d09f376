"""All addresses that the product answers at."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from django.urls import URLResolver, get_resolver


def every_address(
    patterns: Any = None, before: str = ""
) -> Iterator[tuple[str, Callable[..., Any]]]:
    """Each as it is written, such as `admin/jobs/job/<int:pk>/`, with its view."""
    for pattern in get_resolver().url_patterns if patterns is None else patterns:
        address = before + str(pattern.pattern)
        if isinstance(pattern, URLResolver):
            yield from every_address(pattern.url_patterns, address)
        else:
            yield address, pattern.callback
