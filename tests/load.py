"""Callers that go on while something happens to the platform, and keep what was acknowledged.

Their `library` is a client library: this one, or that of an earlier release.
"""

from __future__ import annotations

import random
import threading
import time
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from types import ModuleType
from typing import Any

from tests.workers import Workers

# The tasks of the demo, with a quota that nobody uses up.
PLAN = """
from apps.dispatch.models import OnceTask
from taskplatform.demo.planning import plan
plan()
OnceTask.objects.filter(mode="blocking").update(dispatch_times=100_000)
"""
_WORK_SECONDS = (0.2, 0.8)
# One answer to a callback in so many is lost, and asked for again.
_LOST_ONE_IN = 6
_GIVE_UP_SECONDS = 20.0
# The jobs of all submitters.
_OWN = "FROM jobs_job WHERE `key` LIKE 'load-%'"


class Submitter(threading.Thread):
    """Submits jobs like `job`, each under a key of its own, and never repeats a call that was not
    answered within `timeout` seconds."""

    def __init__(
        self,
        library: ModuleType,
        url: str,
        key: str,
        job: Mapping[str, Any],
        *,
        batch: int,
        pause: float,
        timeout: float,
    ) -> None:
        super().__init__()
        self._library = library
        self._client = library.Client(url, key, timeout=timeout, give_up_after=0.0)
        self._job, self._batch, self._pause = job, batch, pause
        self._ended = threading.Event()
        self.acknowledged: list[str] = []
        self.answered_at: list[float] = []
        self.failures: list[str] = []

    def run(self) -> None:
        number = 0
        while not self._ended.wait(self._pause):
            number += 1
            # Another submitter of the same kind has others.
            keys = [f"load-{id(self)}-{number}-{place}" for place in range(self._batch)]
            try:
                made = self._client.submit_many(
                    [{**self._job, "key": key, "unique": True} for key in keys]
                )
            except self._library.Unavailable as error:
                self.failures.append(str(error))
                continue
            self.acknowledged += [each.id for each in made]
            self.answered_at.append(time.monotonic())

    def end(self) -> None:
        self._ended.set()
        self.join()
        self._client.close()

    def longest_gap(self, since: float, until: float) -> float:
        """Between two answers that came then, in seconds."""
        times = [since, *(at for at in self.answered_at if since <= at <= until)]
        return max(later - earlier for earlier, later in pairwise(times))


class Executors:
    """People who pull, work and call back, each in a thread, from `start` to `end`.

    `ended` are the states that were the answers to callbacks, by number of dispatch, `trouble` what
    keeps one of them from going on, and `broken_repeats` the second answers that differed.
    """

    def __init__(self, library: ModuleType, url: str, key: str, uids: Sequence[str]) -> None:
        self._library, self._address, self._uids = library, (url, key), uids
        self._stop = threading.Event()
        self._pool = ThreadPoolExecutor(len(uids))
        self.ended: dict[str, str] = {}
        self.trouble: list[str] = []
        self.broken_repeats: list[str] = []

    def start(self) -> None:
        for uid in self._uids:
            self._pool.submit(self._run, uid)

    def end(self) -> None:
        self._stop.set()
        self._pool.shutdown()

    def _run(self, uid: str) -> None:
        draw = random.Random()
        callers = self

        class Forgetful(self._library.Client):  # type: ignore[misc]
            def callback(self, uid: str, number: str, *args: Any, **kwargs: Any) -> Any:
                ending = super().callback(uid, number, *args, **kwargs)
                callers.ended[number] = ending.state
                if draw.randrange(_LOST_ONE_IN):
                    return ending
                again = super().callback(uid, number, *args, **kwargs)
                if (again.number, again.state) != (ending.number, ending.state):
                    callers.broken_repeats.append(f"{uid}: {ending} became {again}")
                return again

        def work(_dispatch: Any) -> None:
            self._stop.wait(draw.uniform(*_WORK_SECONDS))

        try:
            with Forgetful(*self._address, give_up_after=_GIVE_UP_SECONDS) as client:
                client.run(uid, work, stop=self._stop)
        except Exception as error:  # noqa: BLE001 - the test reads it
            self.trouble.append(f"{uid} could not go on: {error}")


def harm(
    workers: Workers,
    submitters: Iterable[Submitter],
    executors: Iterable[Executors],
    begun: Mapping[str, int],
) -> dict[str, list[Any]]:
    """What was lost or done twice when all is at rest, by kind; `begun` says how often handlers
    over HTTP began each job."""
    kept = {number for (number,) in workers.rows(f"SELECT CAST(id AS CHAR) {_OWN}")}
    ends = workers.ends()
    sent = [number for each in submitters for number in each.acknowledged]
    callers = list(executors)
    said = {number: state for each in callers for number, state in each.ended.items()}
    states = dict(workers.rows("SELECT CAST(id AS CHAR), state FROM dispatch_dispatch"))
    same_key = f"SELECT `key`, COUNT(*) {_OWN} GROUP BY type, `key` HAVING COUNT(*) > 1"
    found: dict[str, list[Any]] = {
        "jobs lost": [number for number in sent if number not in kept],
        "jobs acknowledged twice": [n for n, times in Counter(sent).items() if times > 1],
        "jobs that ended not once": [number for number in kept if ends[int(number)] != 1],
        "jobs begun twice": [number for number, times in begun.items() if times > 1],
        "jobs with the same key": workers.rows(same_key),
        "callbacks that did not stay": [n for n, state in said.items() if states.get(n) != state],
        "callbacks with another answer": [one for each in callers for one in each.broken_repeats],
    }
    return {kind: cases for kind, cases in found.items() if cases}
