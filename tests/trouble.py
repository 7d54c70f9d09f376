"""`demo --trouble`: five things that need somebody, as a home page that shows all kinds has them.

The clock of this process goes through the last two hours. Services make what people and programs
make; ends and heartbeats of the past, which only workers bring about, are written as rows.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from unittest.mock import patch

from django.core.management.base import CommandError

from apps.alerts.models import Alert, AlertRule, Channel
from apps.alerts.services.settings import create_rule
from apps.common import clock, ids
from apps.common.db import transactional
from apps.dispatch.models import Dispatch, OnceTask
from apps.dispatch.services import executors, tasks
from apps.dispatch.services.pull import answer_pull
from apps.jobs.models import Job, JobType, Worker
from apps.jobs.services import register, types
from apps.journal.models import JournalEntry
from apps.journal.services.writing import error_key
from apps.reports.services import rollup
from apps.reports.sweeps import note_standing
from taskplatform.demo.company import ACTOR
from tests import callback
from tests.frozen import FrozenClock
from tests.jobs import jobs

LENGTH = timedelta(hours=2)
MINUTE = timedelta(minutes=1)
ERROR = "HTTP 503 from prices.example"
PRICES, INVOICES, THUMBNAILS, MAILS = TYPES = (
    "price-recognise",
    "invoice-send",
    "photo-thumbnail",
    "report-mail",
)
PHOTOS, TASK = "gid_shelf_photos", "Shelf photos, Nanjing Road"
PEOPLE = [f"uid_photo_{number}" for number in range(1, 9)]
SILENT = "shop-2"


def play() -> datetime:
    """Play the last two hours on a platform without any of it; returns now."""
    now = clock.now()
    with patch.object(clock, "now", FrozenClock(now - LENGTH)) as frozen:
        play_up_to(frozen, now)
    return now


@transactional
def play_up_to(frozen: FrozenClock, now: datetime) -> None:
    """The same, by a clock that stands two hours before."""
    if JobType.objects.filter(name__in=TYPES).exists():
        raise CommandError("The scene is there already; play it on a new platform.")
    Channel.objects.update(enabled=False)
    AlertRule.objects.update(enabled=False)
    _make_types()
    _begin_task(now)
    frozen.move_to(now - timedelta(minutes=104))
    invoices = JobType.objects.get(name=INVOICES)
    types.pause_type(
        job_type=invoices, reason="New tax rates from 20:30 on", actor="admin:Hugo Silva"
    )
    jobs(212, INVOICES)
    frozen.move_to(now - timedelta(minutes=59))
    for place in range(59):
        _end_some(frozen, place)
        if place in (30, 45):
            _hand_out(PEOPLE[place // 15 + 1])
        note_standing()
        frozen.advance(minutes=1)
        if place == 36:
            jobs(984, PRICES, run_at=now - timedelta(seconds=250), status="ready")
    frozen.move_to(now)
    jobs(8, THUMBNAILS, run_at=now - timedelta(seconds=2))
    rollup.roll_up(until=now + MINUTE)
    _lose_worker(now)
    _fire(now)
    note_standing()


def _make_types() -> None:
    for name in TYPES:
        # Nobody runs them: their jobs stay as they are.
        types.create_type(name=name, handler="http_request", max_running=0, actor=ACTOR)
    rule = {"name": "Price recognition fails", "kind": "failure_rate", "severity": "critical"}
    create_rule(**rule, target=PRICES, actor=ACTOR)


# --- a quota that will not fill -------------------------------------------------------------------
def _begin_task(now: datetime) -> None:
    group = executors.create_executor(name=PHOTOS, title="Photo check", actor=ACTOR)
    executors.change_members(group=group, add=PEOPLE, actor=ACTOR)
    tasks.create_task(
        OnceTask,
        actor=ACTOR,
        title=TASK,
        executor=group,
        mode="blocking",
        dispatch_times=18,
        end_at=now + timedelta(minutes=96),
        priority=9,
    )
    for place in range(9):
        _hand_out(PEOPLE[place % 5])


def _hand_out(uid: str) -> None:
    """One more of eleven, which is done at once."""
    taken = answer_pull(uid)
    if not isinstance(taken, Dispatch):
        raise CommandError(f"{uid} gets nothing of {TASK}.")
    callback.call_back(executor=taken.executor, number=taken.pk, outcome="succeeded")


# --- jobs that fail, and a worker that is lost ----------------------------------------------------
def _end_some(frozen: FrozenClock, place: int) -> None:
    """Of 928 jobs of an hour those of a minute: the last quarter has 64 failures of 128."""
    at = frozen.instant
    count = 14 if place < 44 else 13
    made = [_entry(at, n, MAILS if n % 2 else THUMBNAILS) for n in range(count)]
    if place >= 44:
        some = 9 if place < 52 else 8
        for number in range(some):
            is_bad = (number + place) % 2 == 0
            made.append(_entry(at, 100 + number, PRICES, failed=is_bad))
    JournalEntry.objects.bulk_create(made)
    bad = sum(each.to_state == "failed" for each in made)
    if bad:
        ended = {"status": "failed", "finished_at": at, "error_key": error_key(ERROR)}
        jobs(bad, PRICES, **ended)


def _entry(at: datetime, number: int, type_: str, *, failed: bool = False) -> JournalEntry:
    state = "failed" if failed else "succeeded"
    return JournalEntry(
        id=ids.lowest_id_at(at + timedelta(milliseconds=100 * number)) + number,
        at=at,
        source="job",
        subject_id=1,
        event=state,
        from_state="running",
        to_state=state,
        type_or_task=type_,
        wait_ms=41_000 if type_ == PRICES else 1_200,
        run_ms=900 + 20 * (number % 40),
        error=ERROR if failed else "",
        error_key=error_key(ERROR) if failed else "",
    )


def _lose_worker(now: datetime) -> None:
    register.register(name=SILENT, host=SILENT, capacity=4)
    Worker.objects.filter(name=SILENT).update(last_heartbeat_at=now - 3 * MINUTE)
    held = jobs(4, THUMBNAILS, run_at=now - 4 * MINUTE)
    Job.objects.filter(pk__in=held).update(
        status="running",
        worker=SILENT,
        host=SILENT,
        attempts=1,
        holds=1,
        held_at=now - 4 * MINUTE,
        started_at=now - 4 * MINUTE,
        lease_token="t" * 32,
        lease_until=now + 2 * MINUTE,
        hard_end_at=now + 15 * MINUTE,
    )


def _fire(now: datetime) -> None:
    """The alert of the failures, and four of today that are over."""
    rule = AlertRule.objects.get(name="Price recognition fails")
    began = now - timedelta(minutes=15, seconds=50)
    subject = f"job_type:{PRICES}"
    key = f"{rule.pk}:{subject}"
    columns = {"rule": rule, "subject": subject, "value": 0.5, "since": began, "fired_at": began}
    Alert.objects.create(**columns, open_key=key, unsent="alert.firing")
    Alert.objects.bulk_create([Alert(**columns, resolved_at=now) for _number in range(4)])
