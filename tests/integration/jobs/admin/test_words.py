"""Every word that jobs leave in the journal is one that people are told: I55."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.utils import translation

from apps.common import clock
from apps.jobs.models import Job, TypeState
from apps.jobs.rules import breaker, transitions
from apps.jobs.rules.type_settings import SETTINGS
from apps.jobs.services import control, discard, types
from apps.jobs.services.type_snapshots import type_snapshots
from apps.journal.admin import words
from apps.journal.models import JournalEntry
from tests.frozen import FrozenClock
from tests.job_scenes import fill_yard
from tests.jobs import end, jobs, take

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
    assert discard.discard(spent, types=type_snapshots(), now=clock.now()) == 1

    entries = list(JournalEntry.objects.all())
    assert {entry.event for entry in entries} - words.EVENTS.keys() == set()
    states = {state for entry in entries for state in (entry.from_state, entry.to_state)}
    assert states - words.STATES.keys() == {""}
    facts = {name for entry in entries for name in _names(entry.data or {})}
    assert facts - words.NAMES.keys() - {"before", "after"} == set()
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


@pytest.mark.parametrize(
    ("reason", "told"),
    [
        ("its worker fell silent", "其工作进程失联"),
        ("attempt 4 of 4 was the last", "第 4 次尝试是最后一次（共 4 次）"),
        ("reported succeeded after its lease was lost", "租约丢失后才上报：成功"),
        ("Shop closed: attempt 4 of 4 was the last", "Shop closed: attempt 4 of 4 was the last"),
    ],
)
def test_reasons_of_the_platform_are_translated_and_those_of_people_are_not(
    reason: str, told: str
) -> None:
    with translation.override("zh-hans"):
        assert words.reason_of(reason) == told
    with translation.override("en"):
        assert words.reason_of(reason) == reason
