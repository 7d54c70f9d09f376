"""How the jobs of runs ended, and which schedules are in trouble by that."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import NamedTuple

from apps.common.chunks import chunks
from apps.common.db import fetch_each, table, transactional
from apps.common.leases import load_position, save_position
from apps.common.rows import update_rows
from apps.jobs.rules.transitions import FINAL
from apps.jobs.services.find import find_each
from apps.schedules.models import Schedule, ScheduleRun
from apps.schedules.rules.trouble import FAILED, GONE, OPEN, trouble_of
from apps.schedules.services.make import SWEEP

# Open runs that one pass looks at, in order of their numbers and round again, and how many jobs it
# reads at once.
LOOKED = 2_000
AT_ONCE = 500
# The newest runs by which trouble is seen: of many that are open at once it takes more.
NEWEST = 100
_Trouble = Schedule.Trouble


class InTrouble(NamedTuple):
    """A schedule, the type of its jobs, and what is wrong: see `Schedule.Trouble`."""

    schedule: int
    job_type: str
    trouble: str


def in_trouble(limit: int) -> list[InTrouble]:
    """The active schedules whose last run made no job, or whose last three jobs failed."""
    rows = Schedule.objects.filter(
        status=Schedule.Status.ACTIVE, trouble__in=[_Trouble.UNMADE, _Trouble.FAILING]
    )
    found = rows.order_by("pk").values_list("pk", "job_type", "trouble")[:limit]
    return [InTrouble(*row) for row in found]


def note_ends() -> int:
    """Note how the jobs of open runs ended, and what that says of their schedules; returns how
    many runs are over."""
    after = load_position(SWEEP).get("after", 0)
    rows = ScheduleRun.objects.filter(outcome=OPEN, pk__gt=after).order_by("pk")
    runs = list(rows.values_list("pk", "job")[:LOOKED])
    is_round = len(runs) < LOOKED
    noted = 0
    for some in chunks(runs, AT_ONCE):
        ends = _ends([job for _pk, job in some if job is not None])
        if over := [pk for pk, job in some if job in ends]:
            noted += _note_over(over)
    if after or not is_round:
        save_position(SWEEP, {"after": 0 if is_round else runs[-1][0]})
    return noted


def reopen(jobs: Collection[int]) -> None:
    """Reopen the runs of these jobs, which had ended and were retried or marked as done."""
    runs = ScheduleRun.objects.select_for_update().filter(job__in=jobs).order_by("pk")
    _note(dict.fromkeys(runs, OPEN))


def _ends(jobs: Collection[int]) -> dict[int, str]:
    """The outcomes of the jobs that have ended."""
    found = find_each(jobs, only=("status",))
    ended = {number: job.status for number, job in found.items() if job.status in FINAL}
    return {**dict.fromkeys({*jobs} - found.keys(), GONE), **ended}


@transactional
def _note_over(over: Collection[int]) -> int:
    """Note how the jobs of these runs ended; returns of how many.

    They are looked at again under the lock of the runs: some may have been retried meanwhile.
    """
    rows = ScheduleRun.objects.select_for_update().filter(pk__in=over, outcome=OPEN)
    runs = list(rows.order_by("pk"))
    ends = _ends([run.job for run in runs if run.job is not None])
    noted = {run: ends[run.job] for run in runs if run.job in ends}
    _note(noted)
    return len(noted)


def _note(outcomes: Mapping[ScheduleRun, str]) -> None:
    """Write the outcomes of locked runs; only a failure makes trouble, and any may end it."""
    changed = {run: outcome for run, outcome in outcomes.items() if run.outcome != outcome}
    failed = {run.schedule_id for run, outcome in changed.items() if outcome == FAILED}
    every = {run.schedule_id for run in changed}
    had = Schedule.objects.filter(pk__in=every).exclude(trouble=_Trouble.NONE)
    concerned = failed | {*had.values_list("pk", flat=True)}
    locked = Schedule.objects.select_for_update().filter(pk__in=concerned).order_by("pk")
    schedules = list(locked.values_list("pk", flat=True))
    update_rows(ScheduleRun, {run.pk: {"outcome": outcome} for run, outcome in changed.items()})
    update_rows(Schedule, {pk: {"trouble": trouble} for pk, trouble in _troubles(schedules)})


def _troubles(schedules: Sequence[int]) -> Iterator[tuple[int, str]]:
    """The trouble of each schedule by its newest runs."""
    newest = (
        f"SELECT id, schedule_id, outcome FROM {table(ScheduleRun)} WHERE schedule_id = %s "
        f"ORDER BY id DESC LIMIT {NEWEST}"
    )
    outcomes: dict[int, list[str]] = {pk: [] for pk in schedules}
    rows = fetch_each((newest, [pk]) for pk in schedules)
    for _id, schedule, outcome in sorted(rows, reverse=True):
        outcomes[schedule].append(outcome)
    return ((pk, trouble_of(found)) for pk, found in outcomes.items())
