"""What is cached and remembered: forgetting it, and being two processes that do."""

from __future__ import annotations

from typing import Any


def clear_caches() -> None:
    """Empty the shared cache, and what this process keeps near: rows that a test takes back leave
    their numbers."""
    from django.core.cache import cache

    from apps.dispatch.cache import near
    from apps.dispatch.services import memory
    from apps.jobs.services.type_snapshots import forget_type_snapshots

    cache.clear()
    near.clear()
    memory.forget_all()
    forget_type_snapshots()


class TwoProcesses:
    """This one is now one process of dispatch, now the other; each has queues and memories of its
    own. At the end it is the first again."""

    def __init__(self) -> None:
        from apps.dispatch import cache
        from apps.dispatch.services import memory

        self._cache, self._memory = cache, memory
        self._first = self._present
        self._other = (
            cache.Near(cache.MAX_NEAR, weigh=cache.near._weigh),
            cache.Near(memory.MAX_REMEMBERED, weigh=memory._memories._weigh),
        )

    def swap(self) -> None:
        """Be the other one."""
        self._other, self._present = self._present, self._other

    def end(self) -> None:
        self._present = self._first

    @property
    def _present(self) -> tuple[Any, Any]:
        return self._cache.near, self._memory._memories

    @_present.setter
    def _present(self, both: tuple[Any, Any]) -> None:
        self._cache.near, self._memory._memories = both
