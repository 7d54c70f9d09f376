"""How the jobs of runs ended, and which schedules are in trouble by that."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import NamedTuple

from apps.common.db import transactional
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
# Failing schedules of which a pass looks whether somebody has retried a job.
RECHECKED = 100
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
    _reopen_retried()
    after = load_position(SWEEP).get("after", 0)
    rows = ScheduleRun.objects.filter(outcome=OPEN, pk__gt=after).order_by("pk")
    runs = list(rows.values_list("pk", "schedule_id", "job")[:LOOKED])
    is_round = len(runs) < LOOKED
    noted = 0
    for start in range(0, len(runs), AT_ONCE):
        some = runs[start : start + AT_ONCE]
        ends = _ends([job for _pk, _schedule, job in some if job is not None])
        over = {pk: (schedule, ends[job]) for pk, schedule, job in some if job in ends}
        if over:
            _note(over)
            noted += len(over)
    if after or not is_round:
        save_position(SWEEP, {"after": 0 if is_round else runs[-1][0]})
    return noted


def _ends(jobs: Collection[int]) -> dict[int, str]:
    """The outcomes of those of the jobs that have ended."""
    found = find_each(jobs, only=("status",))
    ended = {number: job.status for number, job in found.items() if job.status in FINAL}
    return {**dict.fromkeys({*jobs} - found.keys(), GONE), **ended}


@transactional
def _note(over: Mapping[int, tuple[int, str]]) -> None:
    """Write the outcomes; only a failure makes trouble, and any end may take it away."""
    failed = {schedule for schedule, outcome in over.values() if outcome == FAILED}
    every = {schedule for schedule, _outcome in over.values()}
    had = Schedule.objects.filter(pk__in=every).exclude(trouble=_Trouble.NONE)
    concerned = failed | {*had.values_list("pk", flat=True)}
    locked = Schedule.objects.select_for_update().filter(pk__in=concerned).order_by("pk")
    schedules = list(locked.only("trouble"))
    by_outcome: dict[str, list[int]] = {}
    for pk, (_schedule, outcome) in over.items():
        by_outcome.setdefault(outcome, []).append(pk)
    for outcome, pks in by_outcome.items():
        ScheduleRun.objects.filter(pk__in=pks).update(outcome=outcome)
    update_rows(Schedule, {each.pk: {"trouble": trouble_of(_newest(each))} for each in schedules})


def _newest(schedule: Schedule) -> Iterator[str]:
    runs = schedule.runs.order_by("-pk").values_list("outcome", flat=True)
    return iter(runs[:NEWEST])


def _reopen_retried() -> None:
    """A job that is open or has succeeded after all is no failure any more."""
    active = Schedule.objects.filter(status=Schedule.Status.ACTIVE)
    failing = active.filter(trouble=_Trouble.FAILING).order_by("pk")[:RECHECKED]
    for schedule in failing:
        failed = schedule.runs.filter(outcome=FAILED).order_by("-pk")
        runs = dict(failed.values_list("job", "pk")[:3])
        jobs = find_each([job for job in runs if job], only=("status",))
        changed = [runs[job] for job, found in jobs.items() if found.status != FAILED]
        if changed:
            _note(dict.fromkeys(changed, (schedule.pk, OPEN)))
