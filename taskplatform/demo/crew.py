"""Simulated executors: each pulls, works and calls back over HTTP, as a device of its own would."""

from __future__ import annotations

import random
import threading
from collections import Counter, deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, Literal

from taskplatform.sdk import ApiError, Client, Dispatch, Ending, PlatformError, Release

# One answer in so many is thrown away and asked for again.
LOSE_ONE_IN = 6
# Seconds after which an executor gives a call up; longer than any hiccup of a server at work.
GIVE_UP_AFTER = 20.0

_random = random.SystemRandom()


class WorkFailed(Exception):
    """What a handler raises when its work cannot be done."""


class Tally:
    """What the crew has met with so far; safe to share between threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._counts: Counter[str] = Counter()
        self.broken_repeats: list[str] = []

    def __getitem__(self, what: str) -> int:
        return self._counts[what]

    def count(self, what: str) -> None:
        with self._lock:
            self._counts[what] += 1


class Mishaps:
    """What the first hand-outs of some tasks, by source and number, end as; each is used once."""

    def __init__(self, planned: Mapping[tuple[str, int], Iterable[str]]) -> None:
        self._lock = threading.Lock()
        self._left = {task: deque(ends) for task, ends in planned.items()}

    def take(self, source: str, task: int) -> str:
        """The mishap that befalls this hand-out, "" for none."""
        with self._lock:
            left = self._left.get((source, task))
            return left.popleft() if left else ""


class ForgetfulClient(Client):
    """Loses some answers to callbacks and repeats those, as a device on a bad line does."""

    def __init__(self, base_url: str, key: str, *, tally: Tally) -> None:
        super().__init__(base_url, key, give_up_after=GIVE_UP_AFTER)
        self._tally = tally

    def callback(
        self,
        uid: str,
        number: str,
        outcome: Literal["succeeded", "failed"],
        result: Mapping[str, Any] | None = None,
        message: str = "",
        next: bool = False,  # noqa: A002 - as in Client
    ) -> Ending:
        ending = super().callback(uid, number, outcome, result, message, next)
        if _random.randrange(LOSE_ONE_IN):
            return ending
        lost, ending = ending, super().callback(uid, number, outcome, result, message, next)
        self._tally.count("repeated")
        if not _agree(lost, ending):
            self._tally.broken_repeats.append(f"{uid}: {lost} became {ending}")
        return ending


def _agree(first: Ending, second: Ending) -> bool:
    """The same answer, and the same next task where the first named one."""
    same_next = not isinstance(first.next, Dispatch) or (
        isinstance(second.next, Dispatch) and second.next.number == first.next.number
    )
    return same_next and (first.number, first.state, first.finished_at) == (
        second.number,
        second.state,
        second.finished_at,
    )


class Crew:
    """The executors at work while the `with` block runs; leaving it stops and awaits them.

    `pace` is the mean time in seconds that a simulated piece of work takes.
    """

    def __init__(
        self, url: str, key: str, uids: Sequence[str], *, pace: float, mishaps: Mishaps
    ) -> None:
        self.tally = Tally()
        self._url = url
        self._key = key
        self._uids = uids
        self._pace = pace
        self._mishaps = mishaps
        self._stop = threading.Event()
        self._pool = ThreadPoolExecutor(max_workers=len(uids), thread_name_prefix="executor")
        self._runs: dict[str, Future[int]] = {}

    def __enter__(self) -> Crew:
        self._runs = {uid: self._pool.submit(self._run, uid) for uid in self._uids}
        return self

    def __exit__(self, *exc_info: object) -> None:
        self._stop.set()
        self._pool.shutdown()

    def wait(self, seconds: float) -> bool:
        """Let the crew work on for so long; False at once when one of them cannot go on."""
        self._stop.wait(seconds)
        return not self._stop.is_set()

    @property
    def broken_repeats(self) -> list[str]:
        """Which callbacks got another answer when they were repeated."""
        return self.tally.broken_repeats

    @property
    def trouble(self) -> str:
        """What keeps one of the executors from working, "" when all could."""
        for uid, run in self._runs.items():
            error = run.exception() if run.done() else None
            if error is not None:
                return f"{uid} could not go on: {error}"
        return ""

    def _run(self, uid: str) -> int:
        try:
            with ForgetfulClient(self._url, self._key, tally=self.tally) as client:
                return client.run(uid, self._work, stop=self._stop)
        except BaseException:
            self._stop.set()
            raise

    def _work(self, dispatch: Dispatch) -> Mapping[str, Any]:
        self.tally.count("handed")
        in_a_hurry = self._stop.wait(_random.uniform(0.4, 1.6) * self._pace)
        # Nobody would be left to make up for a mishap after the end.
        mishap = "" if in_a_hurry else self._mishaps.take(dispatch.source, dispatch.task)
        if mishap:
            self.tally.count(mishap)
        if mishap == "failed":
            raise WorkFailed("The aisle was closed for cleaning")
        if mishap == "released":
            raise Release("Called away to the till")
        return _result_of(dispatch)


def _result_of(dispatch: Dispatch) -> Mapping[str, Any]:
    params = dispatch.params
    results: dict[str, Callable[[], Mapping[str, Any]]] = {
        "photo-check": lambda: {"photos": params["photos"], "sharp": True},
        "stock-count": lambda: {"counted": _random.randint(20, 400), "unit": params["unit"]},
        "price-check": lambda: {"checked": params["products"], "wrong": _random.randint(0, 3)},
    }
    name = dispatch.template["name"] if dispatch.template else ""
    return results[name]() if name in results else {}


def check_server(url: str, key: str, uid: str) -> None:
    """Return when a server answers there and the key may pull; PlatformError tells why not.

    It asks for a dispatch that cannot exist, so that nothing is handed out by looking.
    """
    with Client(url, key, give_up_after=0.0) as client:
        try:
            client.extend(uid, "1", 1)
        except ApiError as refusal:
            if refusal.code != "not_found":
                raise
            return
    raise PlatformError(f"{url} knows a dispatch that cannot exist")
