"""Simulated executors: each pulls, works and calls back over HTTP, as a device would."""

from __future__ import annotations

import logging
import random
import threading
from collections import Counter, deque
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from typing import Any

from taskplatform import sdk
from taskplatform.sdk import Client, Dispatch, Ending, Release

# One answer in this number is dropped and requested again.
LOSE_ONE_IN = 6
# Seconds after which an executor gives a call up; longer than any hiccup of a server at work.
RETRY_SECONDS = 20.0

_random = random.SystemRandom()


class WorkFailed(Exception):
    """The error of a handler whose work cannot be done."""


@dataclass
class Clients:
    """The executors, at work in the `with` block; its end stops them and waits for them.

    A simulated piece of work takes `pace` seconds on average. `mishaps` are what the first
    hand-outs of tasks, by source and number, end as. `trouble` is what keeps one of the executors
    from going on, "" when all can.
    """

    url: str
    key: str
    uids: Sequence[str]
    pace: float
    mishaps: Mapping[tuple[str, int], deque[str]]
    counts: Counter[str] = field(default_factory=Counter)
    broken_repeats: list[str] = field(default_factory=list)
    trouble: str = ""

    def __post_init__(self) -> None:
        self._lock = threading.Lock()
        self._stop = threading.Event()
        self._pool = ThreadPoolExecutor(len(self.uids), thread_name_prefix="executor")

    def __enter__(self) -> Clients:
        # Failed and repeated calls are part of the demo.
        self._level = sdk.logger.level
        sdk.logger.setLevel(logging.ERROR)
        for uid in self.uids:
            self._pool.submit(self._run, uid)
        return self

    def __exit__(self, *exc_info: object) -> None:
        self._stop.set()
        self._pool.shutdown()
        sdk.logger.setLevel(self._level)

    def count(self, event: str) -> None:
        with self._lock:
            self.counts[event] += 1

    def _run(self, uid: str) -> None:
        try:
            with ForgetfulClient(self, self.url, self.key) as client:
                client.run(uid, self._work, stop=self._stop)
        except Exception as error:  # noqa: BLE001 - the command prints it
            self.trouble = f"{uid} could not go on: {error}"
            self._stop.set()

    def _work(self, dispatch: Dispatch) -> Mapping[str, Any]:
        self.count("handed")
        is_last = self._stop.wait(_random.uniform(0.4, 1.6) * self.pace)
        mishaps = self.mishaps.get((dispatch.source, dispatch.task))
        # After the end nobody could repeat a mishap.
        if mishaps and not is_last:
            with self._lock:
                mishap = mishaps.popleft() if mishaps else ""
            self.count(mishap)
            if mishap == "failed":
                raise WorkFailed("The aisle was closed for cleaning")
            if mishap == "released":
                raise Release("Called away to the till")
        return _result_of(dispatch)


class ForgetfulClient(Client):
    """Drops some answers to callbacks and repeats the call, as a device on a bad line does."""

    def __init__(self, clients: Clients, url: str, key: str) -> None:
        super().__init__(url, key, give_up_after=RETRY_SECONDS)
        self._clients = clients

    def callback(self, uid: str, *args: Any, **kwargs: Any) -> Ending:
        first = super().callback(uid, *args, **kwargs)
        if _random.randrange(LOSE_ONE_IN):
            return first
        second = super().callback(uid, *args, **kwargs)
        self._clients.count("repeated")
        if not _agree(first, second):
            self._clients.broken_repeats.append(f"{uid}: {first} became {second}")
        return second


def _agree(first: Ending, second: Ending) -> bool:
    """Whether both answers are the same, with the same next task if the first named one."""
    number = getattr(first.next, "number", None)
    same_next = number is None or number == getattr(second.next, "number", None)
    return same_next and replace(first, next=None) == replace(second, next=None)


def _result_of(dispatch: Dispatch) -> Mapping[str, Any]:
    params = dispatch.params
    match dispatch.template and dispatch.template["name"]:
        case "photo-check":
            return {"photos": params["photos"], "sharp": True}
        case "stock-count":
            return {"counted": _random.randint(20, 400), "unit": params["unit"]}
        case "price-check":
            return {"checked": params["products"], "wrong": _random.randint(0, 3)}
    return {}
