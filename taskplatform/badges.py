"""The numbers beside entries of the menu: rows that need somebody, or wait.

They are read once for everybody who sees the same, and are some seconds old at most.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from django.utils.html import format_html
from django.utils.translation import gettext

from apps.common.db import apart
from apps.common.ttl_cache import TTLCache
from apps.dispatch.models import Dispatch
from apps.dispatch.services import silent_people
from apps.jobs.services import counts
from apps.reports.admin.overview.sight import Sight
from apps.reports.rules.outcomes import DISPATCH, JOB
from apps.reports.services.fact_sheet import current_sheet
from apps.reports.watches.troubles import visible_troubles

PROBLEMS, DISPATCHES, PEOPLE, JOBS, WORKERS = "problems", "dispatches", "people", "jobs", "workers"
MAX_COUNTED = 5_000
BAD, WARN, CALM = "bad", "warn", "calm"


class Badge(NamedTuple):
    """The number as it is drawn and as it is read aloud; the tone is one of the three above."""

    text: str
    spoken: str
    tone: str

    def __str__(self) -> str:
        """The text that the theme puts into the menu."""
        return format_html(
            '<span class="menu-badge menu-badge-{}" aria-hidden="true">{}</span>'
            '<span class="unseen">, {}</span>',
            self.tone,
            self.text,
            self.spoken,
        )


class Counts(NamedTuple):
    """The counts within some limits: jobs waiting, dispatches open, people silent."""

    waiting: int
    open: int
    silent: int


# The counts by the job types and the executors that people are limited to.
counted: TTLCache[Counts] = TTLCache(5.0)


def badges(user: Any) -> Mapping[str, Badge]:
    """The badges that entries have for this person, by the names above; none while they cannot be
    read, which breaks no page."""
    found: dict[str, Badge] = {}
    with apart("the badges of the menu"):
        sight = Sight(user)
        for name, read in _READ.items():
            badge = read(sight)
            if badge is not None:
                found[name] = badge
    return found


def short(count: int) -> str:
    """`14`, `1.2k`, `5k+` where counting stopped."""
    if count >= MAX_COUNTED:
        return f"{MAX_COUNTED // 1000}k+"
    return str(count) if count < 1_000 else f"{count / 1_000:.1f}k".replace(".0k", "k")


def _counts(sight: Sight) -> Counts:
    types = None if sight.job_types is None else frozenset(sight.job_types)
    bound = None if sight.bound is None else frozenset(sight.bound)
    return counted.get((types, bound), lambda: _count(sight))


def _count(sight: Sight) -> Counts:
    sheet = current_sheet()
    if sight.job_types is None:
        waiting = sheet.ready(MAX_COUNTED)
    else:
        waiting = counts.totals_of(sight.job_types, MAX_COUNTED)["ready"]
    if sight.bound is None:
        open_ = sheet.open_dispatches(MAX_COUNTED).open
    else:
        rows = sight.dispatches.filter(state=Dispatch.State.OPEN).order_by()
        open_ = rows[:MAX_COUNTED].count()
    return Counts(waiting, open_, silent_people.read_silent_people(sight.bound).silent.count)


def _problems(sight: Sight) -> Badge | None:
    found = visible_troubles(sight.view)
    if not found.open:
        return None
    count, critical = len(found.open), found.critical
    spoken = gettext("%s open") % count
    if critical:
        spoken = f"{spoken}, {gettext('%s critical') % critical}"
    return Badge(short(count), spoken, BAD if critical else WARN)


def _waiting(sight: Sight) -> Badge | None:
    count = _counts(sight).waiting if JOB in sight.shown else 0
    return _badge(count, gettext("%s waiting"), CALM)


def _open(sight: Sight) -> Badge | None:
    count = _counts(sight).open if DISPATCH in sight.shown else 0
    return _badge(count, gettext("%s open"), CALM)


def _silent_people(sight: Sight) -> Badge | None:
    sees = sight.permits("dispatch.view_executor") and sight.bound != []
    count = _counts(sight).silent if sees else 0
    return _badge(count, gettext("%s silent with work in hand"), WARN)


def _silent_workers(sight: Sight) -> Badge | None:
    sees = sight.sees_all and sight.permits("jobs.view_worker")
    count = len(current_sheet().lost_workers) if sees else 0
    return _badge(count, gettext("%s silent"), WARN)


def _badge(count: int, words: str, tone: str) -> Badge | None:
    return Badge(short(count), words % short(count), tone) if count else None


_READ: Mapping[str, Callable[[Sight], Badge | None]] = {
    PROBLEMS: _problems,
    DISPATCHES: _open,
    PEOPLE: _silent_people,
    JOBS: _waiting,
    WORKERS: _silent_workers,
}
