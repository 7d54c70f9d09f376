"""Every sweep, its period and its queue.

A new sweep gets a function in `sweeps.py` of its box and a row in `periods`, or is registered
`on_demand` if a scan starts it; no more. It has a queue of its own, which workers that know it read
beside `sweeps`. So during an upgrade no worker of the release before gets a message that it does
not know, and the sweep runs as soon as one worker of the new release does. With other arguments it
is another sweep, of another name.

One of `SHARING` is taken away in two releases: in the first one from `periods` and whoever else
sends it, in the next one with its function.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from apps.dispatch.conf import conf as dispatch
from apps.jobs.conf import conf as jobs
from apps.journal.conf import conf as journal
from apps.reports.conf import conf as reports

# Machines whose wall clocks differ by less can run each other's sweeps.
_MAX_CLOCK_DRIFT_SECONDS = 60
# Each sink of the journal has a sweep of its own.
_SINK = "journal.sink."
# The queue that operators name when they start a worker for sweeps.
QUEUE = "sweeps"
# The sweeps of release 0.3.0, which share that queue. None is added, as its workers know no other.
SHARING = frozenset(
    {
        *("alerts.deliver", "alerts.evaluate", "alerts.report", "bulk.purge", "common.tidy"),
        *("dispatch.expire", "dispatch.purge", "dispatch.roll", "jobs.archive", "jobs.drain"),
        *("jobs.forget", "jobs.give_up", "jobs.reorder", "jobs.rescue", "jobs.roll", "jobs.scan"),
        *("jobs.slices", "jobs.starving", "journal.carry", "journal.roll", "reports.rollup"),
        *("schedules.make", "schedules.purge"),
    }
)


def periods() -> dict[str, int]:
    """The seconds between two runs of each sweep."""
    return {
        "alerts.deliver": 15,
        "alerts.evaluate": 15,
        "common.tidy": 600,
        "bulk.purge": 3600,
        "dispatch.expire": dispatch.EXPIRY_SWEEP_SECONDS,
        "dispatch.purge": dispatch.PURGE_SWEEP_SECONDS,
        "dispatch.roll": 600,
        "jobs.scan": jobs.JOB_SCAN_SECONDS,
        "jobs.rescue": jobs.JOB_RESCUE_SECONDS,
        "jobs.archive": 60,
        "jobs.forget": 600,
        "jobs.give_up": 30,
        "jobs.roll": 60,
        "jobs.reorder": 10,
        "jobs.slices": 5,
        "jobs.starving": 10,
        "journal.roll": 3600,
        **{f"{_SINK}{sink.name}": 2 for sink in journal.JOURNAL_SINKS},
        "schedules.make": 5,
        "schedules.purge": 600,
        "reports.rollup": reports.REPORT_SWEEP_SECONDS,
    }


def schedule() -> dict[str, dict[str, Any]]:
    """Celery's beat schedule. Late messages expire, because the next one follows soon."""
    return {
        name: {
            **_task_of(name),
            "schedule": seconds,
            "options": {"expires": seconds * 2 + _MAX_CLOCK_DRIFT_SECONDS},
        }
        for name, seconds in periods().items()
    }


def route(sweep: str, *_: Any, **__: Any) -> dict[str, str]:
    """Celery's route of a sweep, for senders that name no queue."""
    return {"queue": sweep if _has_own_queue(sweep) else QUEUE}


def queues(serves: Iterable[str], tasks: Iterable[str]) -> list[str]:
    """The queues that a worker reads, told to read those of `serves`, which knows these tasks."""
    named = [*serves]
    own = sorted(filter(_has_own_queue, tasks)) if QUEUE in named else ()
    return [*dict.fromkeys([*named, *own])]


def _has_own_queue(task: str) -> bool:
    return task not in SHARING and not task.startswith("celery.")


def _task_of(name: str) -> dict[str, Any]:
    if name.startswith(_SINK):
        return {"task": "journal.carry", "args": [name.removeprefix(_SINK)]}
    return {"task": name}
