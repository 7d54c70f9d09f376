"""S3.1, S3.7, I45: calls of a pool that come at the same instant."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any

import pytest

from apps.common import clock
from apps.common.errors import Conflict
from apps.jobs.models import Bucket, Job
from apps.jobs.services.rescue import rescue_due
from apps.journal.models import JournalEntry
from tests.pools import THEIRS, assign, check, fill, held, items_of, pool, report, waiting
from tests.races import Race

pytestmark = [pytest.mark.mariadb, pytest.mark.django_db(transaction=True)]
Racers = Callable[[Sequence[Callable[[], Any]]], Race]


def test_no_key_is_assigned_to_two_workers(racers: Racers) -> None:
    """S3.1: each gets all it asks for while there is enough, none of them twice."""
    pool({f"k{n}": n for n in range(200)})

    buckets = racers([lambda n=n: assign(f"w{n}", 20) for n in range(8)]).results

    assert [len(bucket) for bucket in buckets] == [20] * 8
    assert max(Counter(key for bucket in buckets for key in bucket).values()) == 1
    assert set(held()) == {key for bucket in buckets for key in bucket}
    assert {job.attempts for job in Job.objects.filter(status="running")} == {1}


def test_one_worker_that_asks_many_times_at_once_has_one_bucket(racers: Racers) -> None:
    """S3.5: a repeat that overtakes the first call takes nothing more."""
    pool({f"k{n}": n for n in range(100)})

    buckets = racers([lambda: [item.token for item in items_of("w", 10)]] * 6).results

    assert len(held()) == 10
    assert all(len(bucket) == 10 for bucket in buckets)
    assert Bucket.objects.count() == 1


def test_workers_go_on_while_the_pool_is_rebuilt(racers: Racers) -> None:
    """S3.7: assign beside done, release and rebuild; each key is with one worker at a time, and
    what a rebuild names and nobody has done is in the pool at its end."""
    items = {f"k{n}": n for n in range(120)}
    pool(items)

    def work(name: str) -> list[str]:
        mine = random.Random(name)
        done: list[str] = []
        for _round in range(12):
            keys = assign(name, mine.randrange(1, 12))
            assert check(*keys, worker=name) == ([], [])
            some = mine.sample(keys, len(keys) // 2)
            ended, refused = report("succeeded", *some, worker=name)
            assert not refused
            done += ended
            report("released", *mine.sample(keys, len(keys) // 3), worker=name)
        return done

    def rebuild(number: int) -> None:
        for epoch in range(4):
            fill(items, epoch=number * 10 + epoch, last=True)

    race = racers([*(lambda n=n: work(f"w{n}") for n in range(4)), lambda: rebuild(1)])
    *dones, _ = race.results

    counts = Counter(key for done in dones for key in done)
    ends = JournalEntry.objects.filter(event="succeeded").count()
    assert sum(counts.values()) == ends == Job.objects.filter(status="succeeded").count()
    assert not Job.objects.filter(status="cancelled").exists()
    open_keys = Counter(Job.objects.exclude(unique_key=None).values_list("key", flat=True))
    assert set(open_keys.values()) <= {1}
    fill(items)
    assert set(waiting()) | set(held()) == set(items)


def test_newest_of_two_rebuilds_wins(racers: Racers) -> None:
    """S3.7: whatever the order in which their chunks come, the older one undoes nothing."""
    pool({f"old{n}": n for n in range(50)})

    def chunks(epoch: int) -> bool:
        try:
            for start in range(0, 100, 10):
                named = {f"e{epoch}-{n}": n for n in range(start, start + 10)}
                fill(named, epoch=epoch, last=start == 90)
        except Conflict:
            return False
        return True

    outcomes = racers([lambda: chunks(1), lambda: chunks(2)]).results

    assert outcomes[1] is True
    assert set(waiting()) == {f"e2-{n}" for n in range(100)}


def test_pool_is_never_empty_while_it_is_rebuilt(racers: Racers) -> None:
    """S3.8: a worker that asks meanwhile gets something every time."""
    items = {f"k{n}": n for n in range(200)}
    pool(items)

    def ask() -> list[int]:
        found = []
        for _round in range(20):
            keys = assign("w", 5)
            found.append(len(keys))
            report("released", *keys, worker="w")
        return found

    def rebuild() -> list[int]:
        for _round in range(5):
            fill(items)
        return []

    asked, _ = racers([ask, rebuild]).results

    assert asked == [5] * 20


def test_late_report_and_rescue_have_one_winner(racers: Racers) -> None:
    """S3.9: the key is done, or back in the pool."""
    pool({f"k{n}": n for n in range(20)})
    keys = assign("w", 20)
    Job.objects.filter(status="running").update(lease_until=clock.now() - timedelta(seconds=1))

    (ended, refused), rescued, others = racers(
        [
            lambda: report("succeeded", *keys, worker="w"),
            lambda: rescue_due(until=clock.now() + timedelta(minutes=5)),
            lambda: assign("w", 20, caller=THEIRS),
        ]
    ).results

    assert len(ended) + len(refused) == 20
    assert set(refused.values()) <= {"lease_lost"}
    assert Job.objects.filter(status="succeeded").count() == len(ended)
    assert len(ended) + rescued == 20
    assert set(others) <= set(refused)
