"""Forgetting all that is cached, wherever: rows that a test takes back leave their numbers."""

from __future__ import annotations


def clear_caches() -> None:
    """Empty the shared cache, and what this process keeps near."""
    from django.core.cache import cache

    from apps.dispatch.cache import near

    cache.clear()
    near.clear()
