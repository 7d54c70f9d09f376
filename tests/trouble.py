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
from apps.dispatch.models import Dispatch, Executor, OnceTask
from apps.dispatch.services import executors, tasks
from apps.dispatch.services.pull import answer_pull
from apps.jobs.models import Job, JobType, Worker
from apps.jobs.services import register, types
from apps.journal.models import JournalEntry
from apps.journal.services.writing import error_key
from apps.reports.services import fact_sheet, rollup
from apps.reports.sweeps import note_standing
from apps.reports.watches import troubles
from taskplatform.demo.company import ACTOR
from tests import callback, history
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
NAMES = (
    *("Ann Baker", "Omar Aziz", "Grace Okafor", "Farid Haddad", "Marco Rossi", "Ben Carter"),
    *("Hugo Silva", "Nadia Petrova", "Priya Nair", "Quinn Murphy", "Diego Torres", "Rosa Diaz"),
    *("Sven Berg", "Jun Tanaka", "Kofi Mensah", "Chloe Martin", "Ines Costa", "Lena Vogt"),
    *("Wang Wei", "Tara Singh"),
)
# Neither they nor their groups are those of the demo, who have its work.
PEOPLE = [f"uid_{name.replace(' ', '_').lower()}" for name in NAMES]
# By group their members among the people; some are in two.
STOCK, PRICE, NIGHT = (
    ("gid_all_stock", "Stock count", PEOPLE[6:14]),
    ("gid_all_prices", "Price check", PEOPLE[13:20]),
    ("gid_night_shift", "Night shift", PEOPLE[16:20]),
)
SILENT = "shop-2"
DAY = timedelta(days=1)


def play() -> int:
    """Play the last two hours on a platform without any of it; returns how many things need
    somebody now, those of the platform before included."""
    now = clock.now()
    with patch.object(clock, "now", FrozenClock(now - LENGTH)) as frozen:
        play_up_to(frozen, now)
    history.add_up_since(now - 2 * DAY)
    # They were read while the scene was made.
    for kept in (fact_sheet.sheets, troubles.found):
        kept.forget()
    return troubles.open_troubles()


@transactional
def play_up_to(frozen: FrozenClock, now: datetime) -> None:
    """The same, by a clock that stands two hours before."""
    if JobType.objects.filter(name__in=TYPES).exists():
        raise CommandError("The scene is there already; play it on a new platform.")
    Channel.objects.update(enabled=False)
    AlertRule.objects.update(enabled=False)
    _make_types()
    _have_yesterday(now)
    _hold_work(frozen, now)
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
            _hand_out(PEOPLE[place // 15 + 1], TASK)
        note_standing()
        frozen.advance(minutes=1)
        if place == 36:
            jobs(984, PRICES, run_at=now - timedelta(seconds=250), status="ready")
    frozen.move_to(now)
    jobs(8, THUMBNAILS, run_at=now - timedelta(seconds=2))
    rollup.roll_up(until=now + MINUTE)
    _lose_worker(now)
    _fire(now)
    # All call but one, who holds work.
    Executor.objects.filter(kind="user").update(last_seen_at=now)
    Executor.objects.filter(name=PEOPLE[14]).update(last_seen_at=now - 38 * MINUTE)
    note_standing()


def _make_types() -> None:
    for name in TYPES:
        # Nobody runs them: their jobs stay as they are.
        types.create_type(name=name, handler="http_request", max_running=0, actor=ACTOR)
    rule = {"name": "Price recognition fails", "kind": "failure_rate", "severity": "critical"}
    create_rule(**rule, target=PRICES, actor=ACTOR)


# --- a quota that will not fill -------------------------------------------------------------------
def _begin_task(now: datetime) -> None:
    group = _group(PHOTOS, "Photo check", PEOPLE[:8])
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
        _hand_out(PEOPLE[place % 5], TASK)


def _group(name: str, title: str, members: list[str]) -> Executor:
    group = executors.create_executor(name=name, title=title, actor=ACTOR)
    executors.change_members(group=group, add=members, actor=ACTOR)
    for row in Executor.objects.filter(name__in=members, title=""):
        title = NAMES[PEOPLE.index(row.name)]
        executors.update_executor(executor=row, changes={"title": title}, actor=ACTOR)
    return group


def _hand_out(uid: str, title: str, *, is_done: bool = True) -> None:
    """One more of the task, done at once or left open."""
    taken = answer_pull(uid)
    if not isinstance(taken, Dispatch) or taken.title != title:
        raise CommandError(f"{uid} gets nothing of {title}.")
    if is_done:
        callback.call_back(executor=taken.executor, number=taken.pk, outcome="succeeded")


def _hold_work(frozen: FrozenClock, now: datetime) -> None:
    """Fourteen people hold work, two of them past their deadline; a group begins tomorrow."""
    began, lease = frozen.instant, 6 * 3600
    night = (now + DAY).replace(hour=1, minute=0, second=0, microsecond=0)
    for (name, title, members), times, done, begins, ends in (
        (STOCK, 25, 12, began, now + DAY - 17 * MINUTE),
        (PRICE, 25, 19, began, now + 2 * DAY),
        (NIGHT, 6, 0, night, night + DAY),
    ):
        tasks.create_task(
            OnceTask,
            actor=ACTOR,
            title=title,
            executor=_group(name, title, members),
            mode="blocking",
            dispatch_times=times,
            start_at=begins,
            end_at=ends,
            lease_seconds=lease,
        )
        if name == NIGHT[0]:
            continue
        holders = members if name == STOCK[0] else members[1:]
        for place in range(done):
            _hand_out(holders[place % len(holders)], title)
        for uid in holders:
            _hand_out(uid, title, is_done=False)
    open_ = Dispatch.objects.filter(state="open")
    open_.filter(executor__name__in=PEOPLE[18:]).update(deadline_at=now - MINUTE)
    open_.filter(executor__name=PEOPLE[14]).update(deadline_at=now + 30 * MINUTE)


# --- the same hour yesterday ----------------------------------------------------------------------
def _have_yesterday(now: datetime) -> None:
    """500 jobs ended, 3 of them badly, which waited and ran as usual."""
    made = []
    for minute in range(1, 51):
        at = now - DAY - minute * MINUTE
        for number in range(10):
            entry = _entry(at, number, MAILS, failed=20 <= minute < 23 and number == 0)
            entry.wait_ms, entry.run_ms = 3_100, 1_500
            made.append(entry)
    JournalEntry.objects.bulk_create(made)


# --- jobs that fail, and a worker that is lost ----------------------------------------------------
def _end_some(frozen: FrozenClock, place: int) -> None:
    """Of 928 jobs of an hour those of a minute: the last quarter has 64 failures of 128."""
    at = frozen.instant
    count = 14 if place < 44 else 13 if place < 48 else 12
    made = [_entry(at, n, MAILS if n % 2 else THUMBNAILS) for n in range(count)]
    if place >= 44:
        some = 9 if place < 52 else 8
        for number in range(some):
            is_bad = (number + place) % 2 == 0
            made.append(_entry(at, 100 + number, PRICES, failed=is_bad))
    JournalEntry.objects.bulk_create(made)
    bad = sum(each.to_state == "failed" for each in made)
    if bad:
        error = {"memo": ERROR, "error_key": error_key(ERROR)}
        jobs(bad, PRICES, status="failed", finished_at=at, **error)


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
        run_ms=1_600 if type_ == PRICES else 900 + 20 * (number % 40),
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
    """The alert of the failures, four of today that are over, and one that is snoozed."""
    rule = AlertRule.objects.get(name="Price recognition fails")
    began = now - timedelta(minutes=15, seconds=50)
    subject = f"job_type:{PRICES}"
    key = f"{rule.pk}:{subject}"
    columns = {"rule": rule, "subject": subject, "value": 0.5, "since": began, "fired_at": began}
    Alert.objects.create(**columns, open_key=key, unsent="alert.firing")
    Alert.objects.bulk_create([Alert(**columns, resolved_at=now) for _number in range(4)])
    columns |= {"subject": f"job_type:{MAILS}", "since": now - 2 * DAY, "fired_at": now - 2 * DAY}
    until = {"snoozed_until": now + 66 * MINUTE, "snoozed_by": "admin:Hugo Silva"}
    Alert.objects.create(**columns, **until, open_key=f"{rule.pk}:{columns['subject']}")
