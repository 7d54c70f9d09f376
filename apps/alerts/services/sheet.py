"""The fact sheet of the platform as readings of what rules watch."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple

from apps.alerts.rules import kinds
from apps.jobs.rules import breaker
from apps.reports.services.standing import Standing, standing
from apps.schedules.rules import trouble

# Returns the seconds between two rounds of each sweep.
Periods = Callable[[], Mapping[str, float]]

_periods: Periods = dict


def use(periods: Periods) -> None:
    """Name the sweeps; whoever composes the platform knows them."""
    global _periods
    _periods = periods


def present() -> Standing:
    """The sheet of now."""
    return standing(_periods())


class Reading(NamedTuple):
    """The value of one subject, which is named `job_type:mail`; None when too little is known of it
    to tell. `target` is what a rule may be limited to, mostly the name."""

    subject: str
    value: float | None
    target: str


def readings(kind: str, target: str, sheet: Standing) -> dict[str, Reading]:
    """What rules of the kind compare, by subject; of one target, or of each ("").

    A subject that is left out is well, or is no more.
    """
    return {
        each.subject: each for each in _READ[kind](sheet) if not target or each.target == target
    }


def _reading(kind: str, name: object, value: float | None, target: str = "") -> Reading:
    return Reading(f"{kind}:{name}", value, target or str(name))


def _failures(sheet: Standing) -> Iterator[Reading]:
    for name in sheet.type_names:
        found = sheet.ended_lately.get(name)
        is_enough = found is not None and found.ended >= kinds.MIN_ENDED
        yield _reading(kinds.JOB_TYPE, name, found.failed_share if found and is_enough else None)


def _due(sheet: Standing) -> Iterator[Reading]:
    paused = {each.name for each in sheet.types if each.is_paused(sheet.now)}
    for name, since in sheet.oldest_due_by_type.items():
        if name not in paused:
            waits = (sheet.now - since).total_seconds()
            yield _reading(kinds.JOB_TYPE, name, max(0.0, waits))


def _silent(sheet: Standing) -> Iterator[Reading]:
    for worker in sheet.lost_workers:
        silent = (sheet.now - worker.last_heartbeat_at).total_seconds()
        yield _reading(kinds.WORKER, worker.name, silent)
    for type_ in sheet.unserved:
        yield _reading(kinds.JOB_TYPE, type_.name, 0.0)


def _quotas(sheet: Standing) -> Iterator[Reading]:
    for task in sheet.quotas_ending:
        found = task.standing
        if found.quota:
            share = found.handed / found.quota
            yield _reading(kinds.ONCE_TASK, task.pk, share, task.executor.name)


def _sweeps(sheet: Standing) -> Iterator[Reading]:
    for sweep in sheet.sweeps:
        if sweep.overdue is not None:
            late = sweep.overdue.total_seconds() / sheet.periods[sweep.name]
            yield _reading(kinds.SWEEP, sweep.name, late)


def _breakers(sheet: Standing) -> Iterator[Reading]:
    for name, found in sheet.breakers.items():
        # An open one lets a job through now and then, and opens again.
        if found.state != breaker.CLOSED:
            yield _reading(kinds.JOB_TYPE, name, 1.0)


def _backlogs(sheet: Standing) -> Iterator[Reading]:
    for name, ready in sheet.growing.items():
        yield _reading(kinds.JOB_TYPE, name, ready)


def _schedules(sheet: Standing) -> Iterator[Reading]:
    subjects = {trouble.UNMADE: kinds.SCHEDULE_RUN, trouble.FAILING: kinds.SCHEDULE}
    for each in sheet.schedules_in_trouble:
        yield _reading(subjects[each.trouble], each.schedule, 1.0, each.job_type)


_READ: Mapping[str, Callable[[Standing], Iterator[Reading]]] = {
    kinds.FAILURE_RATE: _failures,
    kinds.OLDEST_DUE: _due,
    kinds.WORKER_SILENT: _silent,
    kinds.QUOTA_UNFILLED: _quotas,
    kinds.SWEEP_OVERDUE: _sweeps,
    kinds.BREAKER_OPEN: _breakers,
    kinds.BACKLOG_GROWTH: _backlogs,
    kinds.SCHEDULE_FAILED: _schedules,
}
