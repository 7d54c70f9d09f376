"""Workers over HTTP with every bad habit that a client may have, and the ledger of what they heard.

Each call is one request on a socket of its own; each answer is held against the OpenAPI document.
"""

from __future__ import annotations

import http.client
import json
import random
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from types import SimpleNamespace
from typing import Any, NamedTuple

from apps.jobs.rules.submission import SHARDS
from apps.jobs.rules.transitions import FINAL
from tests.integration.api.contract import contract

# Leases and deadlines end while the test runs, so that late workers are late.
_SHORT = {"lease_seconds": 1, "max_processing_seconds": 3, "retry_delay_seconds": 0.1}
_OFTEN = {**_SHORT, "max_attempts": 20, "retry_max_seconds": 1}
POOL = "fleet-pool"
STAGES = ("cut", "mix", "pack")
# The four ways in which the looks of one hold at its types differ, and a pool.
TYPES: Mapping[str, Mapping[str, Any]] = {
    "fleet-plain": _OFTEN,
    "fleet-staged": {**_OFTEN, "stages": list(STAGES)},
    "fleet-expiring": {**_OFTEN, "expires_after_seconds": 3600, "weight": 3},
    "fleet-limited": {**_SHORT, "max_running": 5, "batch_limit": 2, "unique": "always"},
    POOL: {**_OFTEN, "pool": True},
}
JOB_TYPES = [name for name in TYPES if name != POOL]
KEYS = [f"point-{number}" for number in range(40)]
_REFUSALS = {"lease_lost", "conflict", "not_found", "invalid"}
_NEVER_GIVEN = ("", "x", "0" * 32)
LONE = "\udcff"
TEXTS = ("", "boom", "E: a\n  b\r\n", "x" * 2_000, "🔥" * 15_000, "y" * 15_001, LONE, "nul \0")


class _Answer(NamedTuple):
    """As the checks of the contract read Django's."""

    status_code: int
    headers: http.client.HTTPMessage
    content: bytes
    wsgi_request: SimpleNamespace

    def json(self) -> Any:
        return json.loads(self.content)


class Lease(NamedTuple):
    """The right to one attempt of a job, whose stage it was given in."""

    id: str
    token: str
    stage: str = ""


class Ledger:
    """What the workers of one fleet have been told, which must hold for ever."""

    def __init__(self) -> None:
        self.submitted: set[str] = set()
        # How jobs ended, as answers to reports said.
        self.ended: dict[str, str] = {}
        self.leases: list[Lease] = []
        self._holders: dict[tuple[str, str], tuple[str, str]] = {}
        self._holds: dict[tuple[str, int], str] = {}
        self._lock = threading.Lock()

    def give(self, lease: Lease, holder: tuple[str, str], hold: int | None = None) -> None:
        """AssertionError when the lease is another worker's, or the hold has another lease."""
        with self._lock:
            known = self._holders.setdefault((lease.id, lease.token), holder)
            assert known == holder, f"job {lease.id} was handed to {known} and to {holder}"
            if hold is not None:
                token = self._holds.setdefault((lease.id, hold), lease.token)
                assert token == lease.token, f"hold {hold} of job {lease.id} was given twice"
            self.leases.append(lease)

    def accept(self, number: str, token: str, client: str, status: str = "") -> None:
        """Note that a report or sign was taken; AssertionError when it must not have been."""
        with self._lock:
            holder = self._holders.get((number, token))
            assert holder is not None, f"job {number} took the token {token!r}, given to nobody"
            assert holder[0] == client, f"{client} reported job {number}, which {holder} held"
            if status in FINAL:
                first = self.ended.setdefault(number, status)
                assert first == status, f"job {number} ended as {first} and as {status}"

    def submit(self, made: Sequence[Mapping[str, Any]]) -> None:
        with self._lock:
            self.submitted.update(each["id"] for each in made if each["created"])

    def any_lease(self, draw: random.Random) -> Lease | None:
        with self._lock:
            return draw.choice(self.leases) if self.leases else None


class FleetWorker:
    """One worker: `misbehave` or `work_well` until the event is set.

    A restless one joins and leaves again and again. `shares` says that it prefers some shards.
    """

    def __init__(
        self, port: int, key: str, name: str, ledger: Ledger, *, seed: str, restless: bool
    ) -> None:
        self.name = name
        self.shares = False
        self._restless = restless
        self._port, self._key, self._ledger = port, key, ledger
        self._client = key.partition(".")[0]
        self._draw = random.Random(seed)
        self._held: list[Lease] = []
        self._sent: list[dict[str, Any]] = []

    def misbehave(self, stop: threading.Event) -> None:
        self._register(JOB_TYPES)
        habits, weights = zip(*self._habits().items(), strict=True)
        while not stop.is_set():
            [habit] = self._draw.choices(habits, weights)
            habit()

    def _habits(self) -> dict[Callable[[], None], float]:
        """Each with how often it is drawn."""
        return {
            self._hold: 20,
            self._settle: 20,
            self._settle_and_hold: 15,
            self._beat_leases: 10,
            self._forget: 3,
            self._say_nonsense: 6,
            # Who registers again is new, and shares no slices for some seconds.
            self._register: 2 if self._restless else 0.05,
            self._beat: 6,
            self._leave: 2 * self._restless,
            self._vanish: 1,
            self._submit: 3,
            self._intervene: 3,
            self._assign: 10,
            self._report_keys: 12,
            self._rebuild: 3,
        }

    def work_well(self, stop: threading.Event) -> None:
        """Come back under the same name, know nothing of before, and end what there is."""
        self._register(JOB_TYPES)
        body = {"worker": self.name, "limit": 20}
        while not stop.is_set():
            given = self.post("/jobs/hold/", {**body, "types": JOB_TYPES}, 200)
            if leases := self._take(given["jobs"]):
                self._send_outcomes([self._work(each) for each in leases], 200)
            if items := self._pool("assign", 200, limit=5)["items"]:
                self._pool("done", 200, keys=[item["key"] for item in items])
            if not (leases or items):
                self._beat()
                stop.wait(0.2)

    def _work(self, lease: Lease) -> dict[str, Any]:
        said = {"id": lease.id, "lease_token": lease.token}
        later = STAGES[STAGES.index(lease.stage) + 1 :] if lease.stage in STAGES else ()
        if later:
            return {**said, "outcome": "stage_done", "stage": later[0]}
        return {**said, "outcome": "succeeded", "result": {"by": self.name}}

    # --- jobs ---
    def _wish(self) -> dict[str, Any]:
        """For some of the types, in any order, sometimes with ones that it cannot have."""
        draw = self._draw
        types = draw.sample(JOB_TYPES, draw.randint(1, len(JOB_TYPES)))
        if draw.random() < 0.1:
            types[draw.randrange(len(types))] = draw.choice([POOL, "unheard-of"])
        wish: dict[str, Any] = {"types": types, "limit": draw.choice([1, 3, 10, 30])}
        if draw.random() < 0.7:
            wish["lease_seconds"] = draw.randint(1, 3)
        if draw.random() < 0.4:
            wish["request_id"] = f"{draw.randrange(50)}"
        return wish

    def _hold(self) -> None:
        given = self.post("/jobs/hold/", {"worker": self.name, **self._wish()})
        self._held += self._take(given.get("jobs", ()))

    def _settle(self) -> None:
        self._send_outcomes(self._outcomes())

    def _settle_and_hold(self) -> None:
        self._send_outcomes(self._outcomes(), hold=self._wish())

    def _outcomes(self) -> list[dict[str, Any]]:
        """Of own leases, however late, mixed with what is nobody's or was said before."""
        draw = self._draw
        mine = draw.sample(self._held, min(len(self._held), draw.choice([1, 5, 30])))
        self._held = [each for each in self._held if each not in mine or draw.random() < 0.1]
        said = [self._outcome(each) for each in mine]
        said += draw.choices(self._sent, k=2) if self._sent and draw.random() < 0.3 else []
        said += draw.choices(said, k=1) if said and draw.random() < 0.2 else []
        if (other := self._ledger.any_lease(draw)) and draw.random() < 0.3:
            said.append(self._outcome(other))
            said.append(self._outcome(other._replace(token=draw.choice(_NEVER_GIVEN))))
        draw.shuffle(said)
        return said or [self._outcome(Lease("7", "of-nobody"))]

    def _outcome(self, lease: Lease) -> dict[str, Any]:
        """A report as it comes: often good, sometimes in contradiction to the job or to itself."""
        draw = self._draw
        # Rarely, or whole batches would be refused too often.
        text = draw.choice(TEXTS if draw.random() < 0.05 else TEXTS[:4])
        stage = draw.choice([*STAGES, "nonsense"])
        outcome = draw.choice(
            [
                *([self._work(lease)] * 4),
                {"outcome": "failed", "error": text, "retry_after": draw.choice([0, 0.3])},
                {"outcome": "failed", "error": text, "retry": "never", "summary": text[:100]},
                {"outcome": "stage_done", "stage": stage, "context": {"text": text}},
                {"outcome": "stage_done"},
                {"outcome": "yielded", "delay": 0.3, "priority": draw.randint(-100, 100)},
                {"outcome": "yielded", "stage": stage},
                {"outcome": "released", "checkpoint": {"n": draw.random()}},
                {"outcome": "released", "result": 1},
                {"outcome": "cancelled", "memo": text[:2_000]},
                {"outcome": "succeeded", "result": "z" * draw.choice([1, 70_000]), "memo": "ok"},
            ]
        )
        return {"id": lease.id, "lease_token": lease.token, **outcome}

    def _send_outcomes(
        self, outcomes: list[dict[str, Any]], expected: int | None = None, **hold: Any
    ) -> None:
        said = {"worker": self.name, "outcomes": outcomes, **hold}
        answer = self.post("/jobs/settle/", said, expected)
        for sent, result in zip(outcomes, answer.get("results", ()), strict="results" in answer):
            if result["ok"]:
                number, token = sent["id"], sent["lease_token"]
                self._ledger.accept(number, token, self._client, result["status"])
            else:
                assert result["code"] in _REFUSALS and result["message"], result
        self._sent = [*self._sent, *outcomes][-50:]
        self._held += self._take(answer.get("jobs", ()))

    def _take(self, jobs: Sequence[Mapping[str, Any]]) -> list[Lease]:
        leases = []
        for job in jobs:
            lease = Lease(job["id"], job["lease_token"], job["stage"])
            self._ledger.give(lease, (self._client, self.name), job["holds"])
            leases.append(lease)
        return leases

    def _beat_leases(self) -> None:
        """Signs of own jobs and of others', with checkpoints in any order, late, and huge."""
        draw = self._draw
        leases = {each[:2]: each for each in self._held[-20:]}
        if (other := self._ledger.any_lease(draw)) and draw.random() < 0.5:
            leases[other[:2]] = other
        checkpoint = draw.choice(
            [None, {"n": 1}, "c" * 100_000, LONE if draw.random() < 0.1 else 1]
        )
        signs = [
            {
                "id": each.id,
                "lease_token": draw.choice([each.token, each.token, each.token, "x"]),
                "checkpoint": checkpoint,
                "sequence": draw.randrange(5),
                "progress": draw.choice([0, 50.5, 100]),
            }
            for each in leases.values()
        ]
        if not signs:
            return
        answer = self.post("/jobs/heartbeat/", {"worker": self.name, "leases": signs})
        for sent, lease in zip(signs, answer.get("leases", ()), strict="leases" in answer):
            if lease["ok"]:
                self._ledger.accept(sent["id"], sent["lease_token"], self._client)

    def _forget(self) -> None:
        """Hold and never work."""
        self._held = []

    def _say_nonsense(self) -> None:
        draw, worker = self._draw, {"worker": self.name}
        path, body = draw.choice(
            [
                ("/jobs/hold/", {**worker, "types": JOB_TYPES, "soon": True}),
                ("/jobs/hold/", {**worker, "types": [JOB_TYPES[0], JOB_TYPES[0]]}),
                ("/jobs/hold/", {**worker, "types": []}),
                ("/jobs/hold/", {"worker": LONE, "types": JOB_TYPES}),
                ("/jobs/hold/", {"worker": "w" * 101, "types": JOB_TYPES}),
                (
                    "/jobs/hold/",
                    {**worker, "types": JOB_TYPES, "limit": draw.choice([0, 1001, "1"])},
                ),
                ("/jobs/settle/", worker),
                ("/jobs/settle/", {**worker, "outcomes": [{"id": "1", "outcome": "done"}]}),
                ("/jobs/settle/", {**worker, "outcomes": [1], "hold": {"types": JOB_TYPES}}),
                ("/jobs/heartbeat/", {**worker, "leases": [{"id": LONE, "lease_token": "x"}]}),
                ("/workers/register/", {"name": self.name, "types": "all"}),
                ("/workers/heartbeat/", {"name": self.name, "running": -1}),
                (f"/pools/{POOL}/assign/", {**worker, "limit": 10**9}),
                (f"/pools/{POOL}/rebuild/", {"items": {"a b": 1, KEYS[0]: 0.12345}}),
                ("/jobs/", {"type": JOB_TYPES[0], "context": {"text": LONE}}),
                ("/jobs/", {"jobs": [{"type": JOB_TYPES[0], "colour": "red"}]}),
            ]
        )
        self.post(path, body, 400)

    # --- the register ---
    def _register(self, types: Sequence[str] = ()) -> None:
        types = types or self._draw.sample(JOB_TYPES, self._draw.randint(0, len(JOB_TYPES)))
        self.post("/workers/register/", {"name": self.name, "types": types, "capacity": 4}, 200)

    def _beat(self) -> None:
        stopping = self._restless and self._draw.random() < 0.1
        body = {"name": self.name, "running": 1, "stopping": stopping}
        if answer := self.post("/workers/heartbeat/", body):
            self.shares = 0 < len(answer["shards"]) < SHARDS

    def _leave(self) -> None:
        """And come back at once, or with any later call; what it held it still believes in."""
        self.post("/workers/leave/", {"name": self.name}, 200)

    def _vanish(self) -> None:
        """Without a word, for longer than most leases; then go on as if nothing had been."""
        time.sleep(self._draw.uniform(0.5, 2))

    # --- who submits and operates ---
    def _submit(self) -> None:
        draw = self._draw
        jobs = [
            {
                "type": draw.choice(JOB_TYPES),
                "key": f"k-{draw.randrange(200)}",
                "context": {"text": draw.choice(TEXTS[:5])},
                "priority": draw.randint(-100, 100),
                "delay": draw.choice([0, 0, 0, 1]),
            }
            for _ in range(draw.randint(1, 20))
        ]
        self.submit(jobs)

    def submit(self, jobs: Sequence[Mapping[str, Any]]) -> None:
        self._ledger.submit(self.post("/jobs/", {"jobs": jobs}).get("jobs", ()))

    def _intervene(self) -> None:
        if lease := self._ledger.any_lease(self._draw):
            verb, force = self._draw.choice(["cancel", "run-now"]), self._draw.random() < 0.3
            more = {"force": force} if verb == "cancel" else {}
            self.post(f"/jobs/{lease.id}/{verb}/", {"reason": "why not", **more})

    # --- the pool ---
    def _pool(self, verb: str, expected: int | None = None, **more: Any) -> Any:
        answer = self.post(f"/pools/{POOL}/{verb}/", {"worker": self.name, **more}, expected)
        for item in answer.get("items", ()):
            lease = Lease(item["id"], item["lease_token"])
            self._ledger.give(lease, (self._client, self.name))
        return answer

    def _assign(self) -> None:
        self._pool("assign", limit=self._draw.choice([1, 2, 5, 20]))

    def _report_keys(self) -> None:
        """Of whichever bucket they are in, or of none."""
        keys = self._draw.sample([*KEYS, "of-nobody"], self._draw.randint(1, 10))
        verb = self._draw.choice(["check", "done", "fail", "release"])
        more = {"error": self._draw.choice(TEXTS)} if verb == "fail" else {}
        answer = self._pool(verb, keys=keys, **more)
        assert set(answer.get("reasons", {}).values()) <= _REFUSALS, answer

    def bucket(self) -> list[str]:
        """The keys that it holds."""
        return self._pool("check", 200, keys=[])["missing"]

    def _rebuild(self) -> None:
        draw = self._draw
        keys = draw.sample(KEYS, draw.randint(1, len(KEYS)))
        items = {key: draw.randrange(-(10**6), 10**6) / 1000 for key in keys}
        chunk = {"epoch": draw.randrange(1, 2_000), "last": draw.random() < 0.5}
        more = chunk if draw.random() < 0.5 else {}
        contexts = {key: {"key": key} for key in keys[:3]}
        self.post(f"/pools/{POOL}/rebuild/", {"items": items, "contexts": contexts, **more})

    # --- the wire ---
    def post(self, path: str, body: object, expected: int | None = None) -> Any:
        """The JSON of a good answer, {} of a refusal; AssertionError when it is not documented."""
        path = f"/api/v1{path}"
        connection = http.client.HTTPConnection("127.0.0.1", self._port, timeout=60)
        headers = {"Authorization": f"Bearer {self._key}", "Content-Type": "application/json"}
        connection.request("POST", path, json.dumps(body), headers)
        raw = connection.getresponse()
        answer = _Answer(raw.status, raw.headers, raw.read(), SimpleNamespace(path=path))
        connection.close()
        said = (
            f"{path} {str(body)[:1_000]!a} answers {answer.status_code} {answer.content[:1_000]!r}"
        )
        assert answer.status_code < 500, said
        assert expected in (None, answer.status_code), said
        contract().check("POST", path, answer)
        return answer.json() if answer.status_code < 300 else {}
