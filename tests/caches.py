"""What is cached: forgetting it, and being two processes that each have their own."""

from __future__ import annotations

from typing import Any


def clear_caches() -> None:
    """Empty the shared cache and those of this process: rows that a test takes back leave their
    numbers."""
    from django.core.cache import cache

    from apps.common import db
    from apps.dispatch.services import queue, silent_people
    from apps.jobs.services import outside, register
    from apps.jobs.services.preference import looks
    from apps.jobs.services.slices import forget_slice_map
    from apps.jobs.services.type_snapshots import forget_type_snapshots
    from apps.reports.admin.overview import page, tables
    from apps.reports.services import causes, counts_by_minute, fact_sheet, lately, of_type
    from apps.reports.watches import stored, troubles

    cache.clear()
    register.forget_seen()
    outside.forget()
    queue.plans.clear()
    queue.entries.clear()
    looks.clear()
    forget_type_snapshots()
    forget_slice_map()
    from taskplatform import badges, system_page

    facts = (
        badges.counted,
        system_page.states,
        fact_sheet.sheets,
        troubles.found,
        stored.kept,
        causes.found,
        db.logged_lately,
        *of_type.CACHES,
    )
    for kept in (
        silent_people.cached,
        lately.hours,
        lately.yesterdays,
        tables.groups_kept,
        page.steps_kept,
        counts_by_minute.kept,
        *facts,
    ):
        kept.forget()


class TwoProcesses:
    """This one is now one process of dispatch, now the other; each has plans and queues of its own.
    At the end it is the first again."""

    def __init__(self) -> None:
        from apps.dispatch.services import queue

        self._queue = queue
        self._first = self._present
        self._other = tuple(type(each)(each.maxsize, each.getsizeof) for each in self._first)

    def swap(self) -> None:
        """Be the other one."""
        self._other, self._present = self._present, self._other

    def end(self) -> None:
        self._present = self._first

    @property
    def _present(self) -> tuple[Any, ...]:
        return self._queue.plans, self._queue.entries

    @_present.setter
    def _present(self, both: tuple[Any, ...]) -> None:
        self._queue.plans, self._queue.entries = both
