"""The periodic pass of the reports, started by Celery beat."""

from __future__ import annotations

from celery import shared_task

from apps.common import clock
from apps.common.db import apart
from apps.common.leases import sweep_lease
from apps.dispatch.services import silent_people
from apps.reports.services import counts_by_minute, fact_sheet, problems, rollup
from apps.reports.watches import troubles

# Beyond these numbers nobody counts.
_MAX_COUNTED = 5_000


@shared_task(name=rollup.SWEEP)
def roll_up() -> int:
    """Add up what ended, for a quarter of a minute at most, and keep how things stand; returns how
    many seconds of it."""
    with sweep_lease(rollup.SWEEP, at_most=rollup.MAX_TIME) as mine:
        if not mine:
            return 0
        with apart("keeping how things stand"):
            note_standing()
        with apart("what is back again"):
            problems.reopen(clock.now())
        return rollup.roll_up(until=clock.now() + rollup.MAX_TIME / 4)


def note_standing() -> None:
    """Keep how things stand, once a minute."""
    now = clock.now()
    if counts_by_minute.is_noted(now):
        return
    sheet = fact_sheet.current_sheet()
    counts_by_minute.note(
        now,
        waiting=sheet.ready(_MAX_COUNTED),
        open=sheet.open_dispatches(_MAX_COUNTED).open,
        silent=silent_people.read_silent_people().silent.count,
        troubles=troubles.open_troubles(),
    )
