"""The routes of workers on the stub server: it hands out jobs, notes reports and signs of life."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import Any

from taskplatform import sdk
from tests.processes import eventually
from tests.stub_server import KEY, Behaviour, Handler, Seen, Stub, problem, says

# The clock of the server is a day ahead of that of the worker.
AHEAD = timedelta(days=1)


def job(number: str, kind: str = "mail", **more: Any) -> dict[str, Any]:
    """A job as the answer to a hold has it, without its lease."""
    return {
        "id": number,
        "type": kind,
        "key": f"key-{number}",
        "user_id": "",
        "status": "running",
        "stage": "",
        "attempt": 1,
        "max_attempts": 3,
        "context": {"n": number},
        "checkpoint": None,
        "sequence": 0,
        "trace_id": "",
        "cancel_requested": False,
        "lease_token": f"token-{number}",
        "a_later_field": True,
        **more,
    }


class Jobs:
    """What the stub has and has seen. `troubles` come first, by the end of the path."""

    def __init__(self, stub: Stub) -> None:
        self.stub = stub
        self.ready: deque[dict[str, Any]] = deque()
        self.outcomes: list[dict[str, Any]] = []
        self.signs: list[dict[str, Any]] = []
        self.cancelled: set[str] = set()
        self.lost: set[str] = set()
        # By outcome: the answer to it, else it is taken.
        self.refusals: dict[str, dict[str, Any]] = {}
        self.sign_answers: dict[str, Any] = {}
        self.troubles: dict[str, deque[Behaviour]] = {}
        self.away = threading.Event()
        self.is_quiet = False
        self.lease_seconds = 30.0
        self.heartbeat_seconds = 5.0
        self.retry_after = 0.01
        self._lock = threading.Lock()
        stub.behaves(self._answer)

    def has(self, *jobs: dict[str, Any]) -> None:
        self.ready.extend(jobs)

    def fails(self, path: str, *troubles: Behaviour) -> None:
        self.troubles.setdefault(path, deque()).extend(troubles)

    def calls(self, path: str) -> list[Seen]:
        return [seen for seen in self.stub.seen if seen.path == f"/api/v1/{path}"]

    def await_outcomes(self, count: int = 1) -> list[dict[str, Any]]:
        """The outcomes so far, at least so many, without their tokens."""
        eventually(lambda: len(self.outcomes) >= count, seconds=20)
        named = ("id", "lease_token")
        for outcome in self.outcomes:
            assert outcome["lease_token"] == f"token-{outcome['id']}"
        return [
            {"id": o["id"], **{k: v for k, v in o.items() if k not in named}} for o in self.outcomes
        ]

    def await_calls(self, path: str, count: int = 1) -> list[Seen]:
        return eventually(lambda: len(self.calls(path)) >= count and self.calls(path), seconds=20)

    def _answer(self, handler: Handler) -> None:
        path = handler.seen.path.removeprefix("/api/v1/")
        if self.away.is_set():
            problem(503, "unavailable")(handler)
        elif self.troubles.get(path):
            self.troubles[path].popleft()(handler)
        else:
            self.usual(handler)

    def usual(self, handler: Handler) -> None:
        """The answer without trouble."""
        path, body = handler.seen.path, handler.seen.body
        with self._lock:
            routes: dict[str, Callable[[dict[str, Any]], dict[str, Any]]] = {
                "/api/v1/jobs/hold/": self._hold,
                "/api/v1/jobs/settle/": self._settle,
                "/api/v1/jobs/heartbeat/": self._sign,
                "/api/v1/workers/register/": self._worker,
                "/api/v1/workers/heartbeat/": self._worker,
                "/api/v1/workers/leave/": lambda body: {"name": body["name"], "released": 0},
            }
            answer = routes[path](body)
        says(200, {**answer, "now": _time(0)})(handler)

    def _hold(self, body: dict[str, Any]) -> dict[str, Any]:
        held = []
        while self.ready and len(held) < body["limit"]:
            held.append({**self.ready.popleft()})
            held[-1].setdefault("lease_until", _time(self.lease_seconds))
        return {"jobs": held, "unknown": [], "retry_after": 0.0 if held else self.retry_after}

    def _settle(self, body: dict[str, Any]) -> dict[str, Any]:
        results = []
        for outcome in body["outcomes"]:
            self.outcomes.append(outcome)
            refusal = self.refusals.get(outcome["outcome"])
            taken = {"ok": True, "status": "ready"}
            results.append({"id": outcome["id"], **(refusal or taken)})
        more = self._hold(body["hold"]) if "hold" in body else {}
        return {"results": results, **more}

    def _sign(self, body: dict[str, Any]) -> dict[str, Any]:
        leases = []
        for sign in body["leases"]:
            self.signs.append(sign)
            is_lost = sign["id"] in self.lost
            lease = {
                "id": sign["id"],
                "ok": not is_lost,
                "lease_until": None if is_lost else _time(self.lease_seconds),
                "cancel_requested": sign["id"] in self.cancelled,
            }
            if is_lost:
                lease["code"] = "lease_lost"
            leases.append({**lease, **self.sign_answers})
        return {"leases": leases, "epoch": 1}

    def _worker(self, body: dict[str, Any]) -> dict[str, Any]:
        named = {"name": body["name"], "shards": [], "epoch": 1}
        return {**named, "heartbeat_seconds": self.heartbeat_seconds, "stop": self.is_quiet}


def _time(seconds: float) -> str:
    at = datetime.now(UTC) + AHEAD + timedelta(seconds=seconds)
    return at.isoformat().replace("+00:00", "Z")


def worker_of(stub: Stub, threads: int = 2, **options: Any) -> sdk.Worker:
    return sdk.Worker(stub.url, KEY, name="pi-1", threads=threads, **options)


@contextmanager
def running(worker: sdk.Worker) -> Iterator[threading.Thread]:
    """The worker in a thread; at the end it is stopped, and must end."""
    failures: list[BaseException] = []

    def run() -> None:
        try:
            worker.run()
        except BaseException as error:  # noqa: BLE001 - raised again below
            failures.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield thread
    finally:
        worker.stop()
        thread.join(40)
    assert not thread.is_alive()
    for failure in failures:
        raise failure


def ended(worker: sdk.Worker, jobs: Jobs, *given: dict[str, Any]) -> list[dict[str, Any]]:
    """The outcomes of these jobs: the worker runs until there are as many, and stops."""
    jobs.has(*given)
    with running(worker):
        return jobs.await_outcomes(len(given))
