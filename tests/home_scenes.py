"""Two hours of work, added up: what the overview reports."""

from __future__ import annotations

from datetime import timedelta

from apps.common import clock
from apps.dispatch.models import Dispatch, Executor
from apps.reports.services import rollup
from tests import callback, factories
from tests.frozen import FrozenClock
from tests.jobs import end, job_type, jobs, take

MEMBERS = {"gid_shops": ["uid_ann", "uid_bob"], "gid_nights": ["uid_bob", "uid_eve"]}


def two_hours(frozen: FrozenClock) -> None:
    """Jobs of two types, of which one is idle in the last hour and a third all the time; tasks for
    two groups that share a member. The last minutes are busier than the others."""
    job_type("mail", max_attempts=2, retry_delay_seconds=1.0)
    job_type("sms")
    job_type("idle")
    for name, members in MEMBERS.items():
        group = factories.group(name, members=members)
        factories.rotation(group, f"Round of {name}", rule={"every_minutes": 10})
    for minute in range(120):
        started = frozen.instant
        if minute % 3 == 0 or minute > 110:
            _work_off_jobs(frozen, minute)
        if minute % 4 == 0:
            _work_off_task(frozen, minute)
        frozen.move_to(max(started + timedelta(minutes=1), frozen.instant))
    frozen.advance(seconds=11)
    add_up()


def add_up() -> None:
    """What the sweep does."""
    rollup.roll_up(until=clock.now() + timedelta(minutes=1))


def _work_off_jobs(frozen: FrozenClock, minute: int) -> None:
    kind = "sms" if minute < 50 and minute % 2 else "mail"
    for _ in range(1 + minute // 40):
        jobs(1, kind)
        frozen.advance(milliseconds=37 + 211 * (minute % 7))
        (held,) = take(1, types=(kind,))
        frozen.advance(milliseconds=120 + 97 * (minute % 11))
        if minute % 9:
            end(held)
        else:
            # Every other one for good.
            retry = "policy" if minute % 18 else "never"
            end(held, "failed", error="OSError: disk full", retry=retry)


def _work_off_task(frozen: FrozenClock, minute: int) -> None:
    uid = ("uid_ann", "uid_bob", "uid_eve")[minute // 4 % 3]
    taken = callback.take_next(Executor.objects.get(name=uid))
    if isinstance(taken, Dispatch):
        frozen.advance(seconds=5 + minute % 13)
        outcome = "failed" if minute % 5 == 0 else "succeeded"
        callback.call_back(executor=taken.executor, number=taken.pk, outcome=outcome)
