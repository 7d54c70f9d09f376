"""I55: the journal page has a word for everything that jobs write there."""

from __future__ import annotations

from datetime import timedelta
from itertools import chain

import pytest
from django.utils import translation

from apps.common import clock
from apps.jobs.models import Job, JobType, TypeState
from apps.jobs.rules import breaker, reasons, transitions
from apps.jobs.rules.type_settings import SETTINGS
from apps.jobs.runner.attempt import interrupted
from apps.jobs.services import control, discard, register, types
from apps.jobs.services.register import WorkerKey
from apps.jobs.services.settle import settle
from apps.jobs.services.type_snapshots import type_snapshots
from apps.journal.admin import words
from apps.journal.admin.entries import ASIDE
from apps.journal.models import JournalEntry
from tests.frozen import FrozenClock
from tests.job_scenes import fill_yard
from tests.jobs import HERE, end, job_type, jobs, rescue, take
from tests.pools import fill, pool

pytestmark = pytest.mark.django_db

BY = {"actor": "admin:olga", "reason": "Storm"}


def test_events_states_and_facts_of_jobs_have_words(frozen_clock: FrozenClock) -> None:
    yard = fill_yard(frozen_clock, many=1)
    _step_in(yard.type.name)
    control.cancel(job=yard.running, **BY)
    control.cancel(job=yard.running, force=True, **BY)
    made = types.create_type(name="new", stages=["pack", "send"], actor="admin:olga")
    _settle_stages(frozen_clock)
    types.pause_type(job_type=made, until=clock.now() + timedelta(hours=1), **BY)
    types.resume_type(job_type=made, **BY)
    types.update_type(job_type=made, changes={"lane": "slow", "weight": 4}, actor="admin:olga")
    TypeState.objects.update_or_create(type="new", defaults={"breaker": breaker.OPEN})
    types.reset_breaker(job_type=made, **BY)
    types.delete_type(job_type=types.create_type(name="spare", actor="x"), actor="x")
    spent = jobs(1, "new", attempts=9)
    assert discard.discard(spent, types=type_snapshots(), now=clock.now())

    entries = list(JournalEntry.objects.all())
    assert {entry.event for entry in entries} - words.EVENTS.keys() == set()
    states = {state for entry in entries for state in (entry.from_state, entry.to_state)}
    assert states - words.STATES.keys() == {""}
    facts = {name for entry in entries for name in _names(entry.data or {})}
    assert facts - words.NAMES.keys() - ASIDE == set()
    assert len({entry.event for entry in entries}) > 16


def _step_in(type_name: str) -> None:
    """Every arrow of an operator, once."""
    (number,) = jobs(1, type_name, run_at=clock.now() + timedelta(hours=1))
    job = Job.objects.get(pk=number)
    control.edit(job=job, version=job.version, changes={"priority": 4}, **BY)
    control.run_now(job=job, **BY)
    control.mark_done(job=job, **BY)
    control.retry(job=job, **BY)
    control.cancel(job=job, **BY)


def _settle_stages(frozen: FrozenClock) -> None:
    jobs(2, "new", stage="pack")
    one, two = take(2, types=("new",))
    end(one, "stage_done", stage="send")
    end(two, "released")


def _names(data: dict[str, object]) -> set[str]:
    inner = [value for value in data.values() if isinstance(value, dict)]
    return {*data, *(name for part in inner for name in part)}


def test_every_end_of_an_attempt_and_every_setting_has_a_word() -> None:
    ends = {value for name, value in vars(transitions).items() if name.startswith("END_")}
    assert ends - words.EVENTS.keys() == set()
    assert set(transitions.STATUSES) - words.STATES.keys() == set()
    assert set(SETTINGS) - words.NAMES.keys() == set()


def test_every_reason_that_the_services_write_has_a_template(frozen_clock: FrozenClock) -> None:
    """One job for each way to fail or be discarded, and each way to lose a worker."""
    job_type(max_attempts=9, expires_after_seconds=60, max_processing_seconds=30)

    jobs(run_at=clock.now())
    end(take()[0], "failed", retry="never")
    jobs(run_at=clock.now(), max_attempts=1)
    end(take()[0], "failed")
    jobs(run_at=clock.now())
    held = take()[0]
    rescue(frozen_clock, lost=[WorkerKey("", HERE.name)])
    end(held)
    [again] = take()
    frozen_clock.advance(seconds=29)
    end(again, "failed", retry_after=timedelta())
    take()
    frozen_clock.advance(seconds=30)
    rescue(frozen_clock)
    jobs(run_at=clock.now())
    settle(outcomes=[interrupted(take()[0], timedelta(hours=1))])
    jobs(run_at=clock.now())
    held = take()[0]
    Job.objects.filter(pk=held.id).update(expected_at=clock.now() - timedelta(minutes=2))
    end(held, "failed")
    jobs(run_at=clock.now() - timedelta(minutes=2))
    jobs(run_at=clock.now(), attempts=9)
    discard.discard_exhausted(until=clock.now() + timedelta(seconds=1))
    jobs(run_at=clock.now())
    [held] = take()
    rescue(frozen_clock, lost=[WorkerKey("", HERE.name)], records=lambda: {held.token: {}})
    JobType.objects.all().delete()
    discard.discard_exhausted(until=clock.now() + timedelta(seconds=1))
    register.register(name="a", host="host-a")
    register.lose(workers=[WorkerKey("", "a")], reason=reasons.PROCESS_GONE)
    register.register(name="b", host="host-b")
    frozen_clock.advance(minutes=1)
    register.lose_overdue(now=clock.now())

    pool({"a": 1})
    fill({})

    written = set(JournalEntry.objects.exclude(reason="").values_list("reason", flat=True))
    found = {
        each: {template for made_by, template in words.MESSAGES.items() if made_by.fullmatch(each)}
        for each in written
    }
    assert [each for each, templates in found.items() if not templates] == []
    assert {*reasons.ALL} - {*chain(*found.values())} == set()


@pytest.mark.parametrize(
    ("reason", "shown"),
    [
        ("its worker was lost", "其工作进程失联"),
        ("attempt 4 of 4 was the last", "第 4 次尝试是最后一次（共 4 次）"),
        ("reported succeeded after its lease was lost", "租约丢失后才上报：成功"),
        ("Shop closed: attempt 4 of 4 was the last", "Shop closed: attempt 4 of 4 was the last"),
    ],
)
def test_reasons_of_the_platform_are_translated_and_those_of_people_are_not(
    reason: str, shown: str
) -> None:
    with translation.override("zh-hans"):
        assert words.reason_of(reason) == shown
    with translation.override("en"):
        assert words.reason_of(reason) == reason
