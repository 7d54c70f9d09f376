"""Forgetting all that is cached, wherever: rows that a test takes back leave their numbers."""

from __future__ import annotations


def clear_caches() -> None:
    """Empty the shared cache, and what this process keeps near."""
    from django.core.cache import cache

    from apps.dispatch.cache import near
    from apps.jobs.services.policies import forget_policies
    from apps.jobs.services.terms import forget_terms

    cache.clear()
    near.clear()
    forget_terms()
    forget_policies()
