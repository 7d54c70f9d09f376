"""S3.1-S3.9, I45: any order of calls does what a plain model of a pool does."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from itertools import count
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from apps.common.errors import Conflict
from apps.jobs.models import Bucket, Job, JobType, TypeState
from apps.jobs.services.invariants import CHECKS
from apps.journal.models import JournalEntry
from tests.frozen import FrozenClock
from tests.jobs import rescue
from tests.pools import assign, check, fill, held, pool, report, waiting

pytestmark = [pytest.mark.django_db, pytest.mark.both]

KEYS = [f"k{n}" for n in range(8)]
WORKERS = ["w1", "w2"]
LEASE = 30
# Earlier ends are known of so many jobs of a key.
REMEMBERED = 3


class Model:
    """A pool as dicts: the scores of the keys that wait, and who holds which."""

    def __init__(self) -> None:
        self.scores: dict[str, float] = {}
        # By order of arrival: equal scores go by it.
        self.came: dict[str, int] = {}
        self.owner: dict[str, str] = {}
        self.until: dict[str, int] = {}
        self.unwanted: set[str] = set()
        # How the latest attempt of a worker at a key ended, and at which job of the key.
        self.ended: dict[tuple[str, str], tuple[str, int]] = {}
        self.made = Counter[str]()
        self.epoch = 0
        # The number of the latest rebuild, None for one without, and what it has named so far.
        self.chunked: int | None = None
        self.named: set[str] = set()
        self.now = 0
        self._numbers: Iterator[int] = count()

    def in_line(self) -> list[str]:
        return sorted(self.scores.keys() - self.owner.keys(), key=self._place)

    def bucket(self, worker: str) -> list[str]:
        mine = [key for key, owner in self.owner.items() if owner == worker]
        return sorted(mine, key=self._place)

    def _place(self, key: str) -> tuple[float, int]:
        return self.scores[key], self.came[key]

    def _renew(self, worker: str) -> None:
        for key in self.bucket(worker):
            self.until[key] = self.now + LEASE

    def _end(self, worker: str, key: str, end: str) -> None:
        self.ended[worker, key] = end, self.made[key]

    def _give_up(self, key: str) -> None:
        """The key is held no more; if no rebuild wants it, it is gone."""
        del self.owner[key], self.until[key]
        if key in self.unwanted:
            self._drop(key)

    def _drop(self, key: str) -> None:
        del self.scores[key]
        self.unwanted.discard(key)

    def assign(self, worker: str, limit: int) -> list[str]:
        for key in self.bucket(worker)[limit:]:
            self._give_up(key)
            self._end(worker, key, "released")
        for key in self.in_line()[: limit - len(self.bucket(worker))]:
            self.owner[key] = worker
        self._renew(worker)
        return self.bucket(worker)

    def check(self, worker: str, keys: list[str]) -> tuple[list[str], list[str]]:
        self._renew(worker)
        mine = set(self.bucket(worker))
        return sorted(mine - set(keys)), sorted(set(keys) - mine)

    def report(self, worker: str, end: str, keys: list[str]) -> tuple[list[str], dict[str, str]]:
        ended, refused = [], {}
        for key in keys:
            if self.owner.get(key) == worker:
                self._give_up(key)
                if end == "succeeded":
                    self.scores.pop(key, None)
                    self.unwanted.discard(key)
                self._end(worker, key, end)
                ended.append(key)
                continue
            before, job = self.ended.get((worker, key), (None, 0))
            if job <= self.made[key] - REMEMBERED:
                before = None
            if before == end:
                ended.append(key)
            else:
                refused[key] = {None: "not_found", "lost": "lease_lost"}.get(before, "conflict")
        self._renew(worker)
        return ended, refused

    def rebuild(self, items: dict[str, float], epoch: int | None) -> tuple[int, ...] | None:
        """The counts in the order of the answer; None for one that is outdated."""
        if epoch is not None and epoch < self.epoch:
            return None
        if epoch is None or epoch != self.chunked:
            self.named = set()
        self.chunked = epoch
        self.epoch = self.epoch + 1 if epoch is None else epoch
        # A later call with the same number adds to what the rebuild names.
        self.named |= items.keys()
        added = held_ = unchanged = moved = 0
        for key, score in items.items():
            if key not in self.scores:
                added += 1
                self.came[key] = next(self._numbers)
                self.made[key] += 1
            elif key in self.owner:
                held_ += 1
            elif self.scores[key] == score:
                unchanged += 1
            else:
                moved += 1
            self.scores[key] = score
            self.unwanted.discard(key)
        gone = self.scores.keys() - self.named
        withdrawn = gone - self.owner.keys()
        for key in withdrawn:
            self._drop(key)
        self.unwanted |= gone & self.owner.keys()
        return added, len(withdrawn), held_, unchanged, moved

    def expire(self) -> int:
        over = [key for key, until in self.until.items() if until <= self.now]
        for key in over:
            self._end(self.owner[key], key, "lost")
            self._give_up(key)
        return len(over)


SCORES = st.sampled_from([-1.5, 0, 1, 1.001, 2, 7])
SOME = st.lists(st.sampled_from(KEYS), unique=True)
STEPS = st.one_of(
    st.tuples(st.just("assign"), st.sampled_from(WORKERS), st.integers(1, 6)),
    st.tuples(st.just("check"), st.sampled_from(WORKERS), SOME),
    *(
        st.tuples(st.just(end), st.sampled_from(WORKERS), SOME)
        for end in ("succeeded", "released", "failed")
    ),
    st.tuples(
        st.just("rebuild"),
        st.dictionaries(st.sampled_from(KEYS), SCORES),
        st.none() | st.integers(1, 9),
    ),
    st.tuples(st.just("wait"), st.integers(1, 40)),
)


def _step(step: tuple[Any, ...], model: Model, clock: FrozenClock) -> tuple[Any, Any]:
    """What the pool and the model return for it."""
    match step:
        case "assign", worker, limit:
            return assign(worker, limit), model.assign(worker, limit)
        case "check", worker, keys:
            return check(*keys, worker=worker), model.check(worker, keys)
        case "rebuild", items, epoch:
            expected = model.rebuild(items, epoch)
            try:
                done = fill(items, epoch=epoch, last=epoch is not None)
            except Conflict:
                return None, expected
            counts = done.added, done.withdrawn, done.held, done.unchanged, done.moved
            return counts, expected
        case "wait", seconds:
            clock.advance(seconds=seconds)
            model.now += seconds
            return rescue(clock), model.expire()
        case end, worker, keys:
            return report(end, *keys, worker=worker), model.report(worker, end, keys)
    raise AssertionError(step)


@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(steps=st.lists(STEPS, min_size=8, max_size=40))
def test_pool_does_what_its_model_does(
    frozen_clock: FrozenClock, steps: list[tuple[Any, ...]]
) -> None:
    for table in (Job, JobType, Bucket, TypeState, JournalEntry):
        table.objects.all().delete()
    pool(lease_seconds=LEASE, retry_delay_seconds=0, max_attempts=10_000)
    model = Model()

    for step in [("rebuild", dict.fromkeys(KEYS, 1), None), *steps]:
        found, expected = _step(step, model, frozen_clock)
        assert found == expected, step
        in_line = [(key, model.scores[key]) for key in model.in_line()]
        assert list(waiting().items()) == in_line
        assert held() == dict(sorted(model.owner.items()))

    for each in CHECKS:
        assert not each.run(1_000).breaches
