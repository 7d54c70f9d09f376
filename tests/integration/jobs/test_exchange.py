"""S1.9, S4.8, I31, I40, I49: settling what has ended and holding what is next, in one step."""

from __future__ import annotations

from collections.abc import Collection
from functools import partial
from typing import Any

import pytest
from django.db import OperationalError, connection

from apps.jobs.models import Job
from apps.jobs.rules.outcome import HeldJob
from apps.jobs.services import claim, recent_work
from apps.jobs.services import exchange as exchange_module
from apps.jobs.services.exchange import exchange
from apps.jobs.services.hold import hold
from apps.jobs.services.protection import lock_states
from apps.jobs.services.recent_work import RecentWork
from tests.jobs import HERE, THERE, events_of, job_type, jobs, row, take
from tests.kills import kills
from tests.races import race

pytestmark = [pytest.mark.django_db, pytest.mark.both]

DEADLOCK = OperationalError(1213, "Deadlock found")
LOCKED = OperationalError("database is locked")


def exchanged(
    held: list[HeldJob],
    how: str = "succeeded",
    *,
    by: Any = HERE,
    limit: int = 100,
    types: Collection[str] = ("mail", "film"),
    **wanted: Any,
) -> tuple[Any, list[HeldJob]]:
    """Report all of these alike, and hold the next jobs of mail and film."""
    outcomes = [job.ended(how) for job in held]
    return exchange(outcomes=outcomes, holder=by, types=types, limit=limit, **wanted)


def test_outcomes_are_settled_by_themselves_when_the_hold_loses_a_lock(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """One job that somebody has locked keeps back no results."""
    job_type()
    numbers = jobs(3)
    held = take(1)
    locked = iter([DEADLOCK if connection.vendor == "mysql" else LOCKED])
    run = claim.execute_and_fetch

    def losing(*arguments: Any) -> Any:
        for error in locked:
            raise error
        return run(*arguments)

    monkeypatch.setattr(claim, "execute_and_fetch", losing)

    answers, following = exchanged(held)

    assert answers == ["succeeded"]
    assert [job.id for job in following] == numbers[1:]
    assert events_of(numbers[0]) == ["succeeded"]


def test_job_that_was_just_submitted_is_held_with_the_report_before_all_others() -> None:
    """S4.13: and others if somebody else has it."""
    job_type()
    jobs(1)
    held = take()
    other, new = jobs(2)

    answers, following = exchanged(held, types=["mail"], new=new)
    assert (answers, [job.id for job in following]) == (["succeeded"], [new])

    answers, following = exchanged(following, types=["mail"], new=new)
    assert (answers, [job.id for job in following]) == (["succeeded"], [other])


@pytest.mark.django_db(transaction=True)
def test_exchange_killed_at_any_statement_settles_and_holds_or_does_neither() -> None:
    job_type(max_running=1)
    numbers = jobs(2)
    held = take()
    for _ in kills(lambda: exchanged(held), more_than=5):
        assert [row(number).status for number in numbers] == ["running", "ready"]
        assert events_of(numbers[0]) == []

    assert [row(number).status for number in numbers] == ["succeeded", "running"]
    assert events_of(numbers[0]) == ["succeeded"]


@pytest.mark.mariadb
@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("settings", [{"max_running": 2}, {"breaker_enabled": True}, {}], ids=str)
def test_exchanges_of_two_workers_keep_the_limit_and_share_nothing(
    settings: dict[str, Any],
) -> None:
    """I40, I49: whatever they lock, in whatever order."""
    job_type("mail", **settings)
    job_type("film", **settings)
    numbers = jobs(60) + jobs(60, "film")
    held = [take(2, types=("mail", "film"), by=by) for by in (HERE, THERE)]
    recents = [RecentWork(), RecentWork()]
    seen = [job.id for some in held for job in some]
    while any(held):
        done = race(
            [
                partial(exchanged, some, by=by, limit=2, recent=recent)
                for some, by, recent in zip(held, (HERE, THERE), recents, strict=True)
            ]
        ).results
        held = [following for _, following in done]
        seen += [job.id for some in held for job in some]
        for name in ("mail", "film"):
            running = Job.objects.filter(status="running", type=name).count()
            assert running <= settings.get("max_running", 4)
    while some := take(types=("mail", "film")):
        seen += [job.id for job in some]
        exchanged(some, limit=1)

    assert len(seen) == len(set(seen))
    assert {row(number).status for number in numbers} <= {"succeeded", "running"}


def test_place_that_is_made_free_is_filled_without_a_lock(monkeypatch: pytest.MonkeyPatch) -> None:
    """I49: no other hold can take it, so nothing need be counted but at intervals."""
    job_type(max_running=2)
    jobs(9)
    recent, locks = RecentWork(), list[list[str]]()

    def noted(names: Any) -> Any:
        locks.append(sorted(names))
        return lock_states(locks[-1])

    monkeypatch.setattr(exchange_module, "lock_states", noted)
    held = take()
    for _ in range(2):
        _, held = exchanged(held, recent=recent)
    assert (len(held), locks) == (2, [["mail"]])

    job_type(max_running=1)
    _, held = exchanged(held, recent=recent)
    assert (len(held), locks) == (1, [["mail"]] * 2)

    monkeypatch.setattr(recent, "has_counted", lambda type_: False)
    _, held = exchanged(held, recent=recent)
    assert (len(held), locks) == (1, [["mail"]] * 3)


def test_report_that_ends_nothing_makes_no_place_free() -> None:
    """I49: it was settled before, but the answer was lost."""
    job_type(max_running=2)
    jobs(9)
    recent = RecentWork()
    _, held = exchanged(take(), recent=recent)
    _, following = exchanged(held, recent=recent)

    answers, more = exchanged(held, recent=recent)

    assert (answers, more) == (["succeeded"] * 2, [])
    assert Job.objects.filter(status="running").count() == len(following) == 2


def test_busy_worker_asks_at_intervals_for_the_types_that_had_no_work(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """S4.14: and at once when the others have none."""
    for name in ("mail", "film"):
        job_type(name)
    monkeypatch.setattr(recent_work, "LOOK_SECONDS", (3600.0, 3600.0))
    recent = RecentWork()

    def held() -> list[str]:
        found = hold(holder=HERE, types=["mail", "film"], limit=1, recent=recent)
        return [job.type for job in found]

    jobs(2, "mail")
    assert held() == ["mail"]
    jobs(1, "film", priority=100)
    assert held() == ["mail"]
    assert held() == ["film"]
    monkeypatch.setattr(recent_work, "LOOK_SECONDS", (0.0, 0.0))
    jobs(2, "mail")
    assert held() == ["mail"]
    jobs(1, "film")
    assert sorted(held() + held()) == ["film", "mail"]
