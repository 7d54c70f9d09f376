"""Sweeps and edits of many rows work in sets: sixty take as many statements as one."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from functools import partial
from typing import Any

import pytest

from apps.common import clock
from apps.common.sweeps import tidy_up
from apps.dispatch.models import Dispatch, Executor, RotateTask
from apps.dispatch.services import executors, retention
from apps.jobs import sweeps
from apps.jobs.models import Job, JobType, Worker
from apps.jobs.services.submit import Submission, submit_many
from apps.jobs.services.type_snapshots import forget_type_snapshots
from tests import callback, factories
from tests.frozen import FrozenClock
from tests.statements import sent_by

pytestmark = [pytest.mark.django_db, pytest.mark.both, pytest.mark.usefixtures("frozen_clock")]

MANY = 60


def counted(make: Callable[[int], None], act: Callable[[], Any]) -> list[int]:
    """How many statements the act takes with one and with many."""
    counts = []
    for number in (1, MANY):
        make(number)
        # What is made once, such as the row of a sweep, is there.
        act()
        make(number)
        counts.append(len(sent_by(act)))
    return counts


def typed(number: int) -> list[str]:
    names = [f"type-{n}" for n in range(number)]
    for name in names:
        if not JobType.objects.filter(name=name).exists():
            factories.job_type(name, handler="echo")
    return names


def waiting(number: int) -> None:
    """A job of each type that is due."""
    submit_many([Submission(type=name) for name in typed(number)])


def used_up(number: int) -> None:
    waiting(number)
    Job.objects.filter(status="ready").update(attempts=9, max_attempts=9)


def of_deleted_types(number: int) -> None:
    waiting(number)
    JobType.objects.all().delete()


def silent_workers(number: int) -> None:
    Worker.objects.all().delete()
    for n in range(number):
        factories.worker(f"host-{n}:1", last_heartbeat_at=clock.now() - timedelta(hours=2))


def lost_jobs(number: int) -> None:
    waiting(number)
    past = clock.now() - timedelta(minutes=5)
    Job.objects.filter(status="ready").update(
        status="running",
        attempts=1,
        holds=1,
        held_at=past,
        started_at=past,
        worker="gone:1",
        host="gone",
        lease_token="t" * 32,
        lease_until=past,
        hard_end_at=past,
    )


def lost_jobs_of_guarded_types(number: int) -> None:
    lost_jobs(number)
    JobType.objects.update(breaker_enabled=True)
    forget_type_snapshots()


def bound_to_hosts(number: int) -> None:
    waiting(number)
    for n, pk in enumerate(Job.objects.filter(status="ready").values_list("pk", flat=True)):
        Job.objects.filter(pk=pk).update(affinity_host=f"host-{n}", affinity_until=None)


SWEEPS = {
    "scan": (waiting, sweeps.scan),
    "give up": (used_up, sweeps.discard_exhausted),
    "give up those of deleted types": (of_deleted_types, sweeps.discard_exhausted),
    "give up nothing": (waiting, sweeps.discard_exhausted),
    "lose workers": (silent_workers, sweeps.rescue),
    "rescue": (lost_jobs, sweeps.rescue),
    "rescue those of types with a breaker": (lost_jobs_of_guarded_types, sweeps.rescue),
    "free hosts": (bound_to_hosts, sweeps.rescue),
    "forget workers": (silent_workers, tidy_up),
    "starving": (waiting, sweeps.warn_of_starving),
}


@pytest.mark.parametrize("name", SWEEPS)
def test_sweeps_of_jobs(name: str, monkeypatch: Any) -> None:
    monkeypatch.setattr("apps.jobs.runner.scan._send", lambda *_task, **_sent: True)
    one, many = counted(*SWEEPS[name])
    assert many == one, f"{one} statements for one, {many} for {MANY}"


def test_found_jobs_of_deleted_types_are_ended_and_no_others() -> None:
    """Whatever place their types have among the others."""
    for name in ("a", "b", "c", "d", "e"):
        factories.job(name)
    JobType.objects.filter(name__in=["a", "c", "e"]).delete()

    assert sweeps.discard_exhausted() == 3

    assert set(Job.objects.filter(status="ready").values_list("type", flat=True)) == {"b", "d"}
    memos = Job.objects.filter(status="failed").order_by("type").values_list("memo", flat=True)
    assert memos[0] == "there is no job type a any more"


def test_without_any_type_all_waiting_jobs_end() -> None:
    of_deleted_types(3)
    assert sweeps.discard_exhausted() == 3


def test_more_than_one_read_of_a_type_are_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("apps.jobs.services.discard.MAX_READ", 2)
    monkeypatch.setattr("apps.jobs.services.discard.MAX_TOGETHER", 3)
    for _ in range(5):
        used_up(3)
    waiting(1)
    assert sweeps.discard_exhausted() == 15
    assert Job.objects.filter(status="ready").count() == 1


def members(number: int) -> list[str]:
    return [f"uid_{n}" for n in range(number)]


@pytest.mark.parametrize("known", [True, False])
def test_adding_and_removing_members(known: bool) -> None:
    """One more only for what SQLite takes at a time: 500 members in a dozen statements."""
    adding, removing = [], []
    for number in (1, 500):
        Executor.objects.all().delete()
        group = factories.group()
        if known:
            factories.group("gid_other", members(number))
        change = partial(executors.change_members, group=group, actor="o")
        adding.append(len(sent_by(partial(change, add=members(number)))))
        removing.append(len(sent_by(partial(change, remove=members(number)))))
    assert adding[1] - adding[0] <= 12
    assert removing[0] == removing[1]


def test_purge_of_what_is_over(frozen_clock: FrozenClock, settings: Any) -> None:
    """Tasks with and without a dispatch, rotations, dispatches and stocks."""
    settings.TASK_RETENTION = settings.DISPATCH_RETENTION = timedelta(days=120)

    def make(number: int) -> None:
        Executor.objects.update(enabled=False)
        for person in [factories.user(f"uid_{frozen_clock.instant:%j}_{n}") for n in range(number)]:
            factories.once_task(person)
            factories.rotation(person, start_at=clock.now() - timedelta(minutes=5))
            for _ in range(2):
                taken = callback.take_next(person)
                assert isinstance(taken, Dispatch)
                callback.call_back(executor=person, number=taken.pk, outcome="succeeded")
            factories.once_task(person, start_at=clock.now() + timedelta(hours=1))
        RotateTask.objects.update(end_at=clock.now() + timedelta(hours=1))
        frozen_clock.advance(days=100)

    removed = []

    def purge() -> None:
        # The first marks tasks deleted and moves dispatches, the second moves the tasks and forgets
        # what the first has moved.
        removed.append(retention.purge(until=clock.now() + timedelta(hours=1)))

    one, many = counted(make, purge)
    # The stocks of a hundred occurrences are read at a time.
    assert many - one <= 4, (one, many, removed)
    assert removed[-1]["dispatches"] == removed[-1]["archived_dispatches"] == 2 * MANY
    assert removed[-1]["archived_tasks"] > 0
