"""What jobs should do, said a second time and as plainly as possible: dicts and loops."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime, timedelta

DELAY, LEASE, HARD_END, EXPIRY = 10, 30, 100, 2000
STAGES = ["one", "two", "three"]


@dataclass
class Job:
    id: int
    type: str
    run_at: datetime
    status: str = "ready"
    priority: int = 0
    attempts: int = 0
    max_attempts: int = 3
    holds: int = 0
    releases: int = 0
    spent: int = 0  # attempts of earlier stages and before retries of operators
    version: int = 1
    stage: str = "one"
    token: str = ""
    last_end: str = ""
    lease_until: datetime | None = None
    hard_end_at: datetime | None = None
    cancel_requested: bool = False
    checkpoint: int | None = None
    sequence: int = 0
    ends: list[str] = field(default_factory=list)
    reports: dict[str, tuple[tuple[str, str], str]] = field(default_factory=dict)
    stale: set[str] = field(default_factory=set)
    expected_at: datetime | None = None
    order_since: datetime | None = None
    demotion: int = 0

    @property
    def is_final(self) -> bool:
        return self.status in ("succeeded", "failed", "cancelled")

    @property
    def place(self) -> tuple[float, int]:
        since = self.order_since or self.run_at
        return (since.timestamp() * 1000 // 1 - self.priority * 60_000 + self.demotion, self.id)

    def goes(self, status: str, run_at: datetime | None = None) -> None:
        """A change of state; waiting anew puts it at its place in the order."""
        self.status = status
        self.version += 1
        self.lease_until = self.hard_end_at = None
        if run_at is not None:
            self.run_at = run_at
            self.place_anew()

    def place_anew(self) -> None:
        self.order_since = self.run_at
        self.demotion = next(
            (
                ms
                for least, ms in ((16, 300_000), (5, 60_000), (1, 30_000))
                if self.attempts >= least
            ),
            0,
        )


class Model:
    """All jobs, and what each operation should make of them."""

    def __init__(self, now: datetime) -> None:
        self.now = now
        self.jobs: dict[int, Job] = {}

    def submit(self, job: Job) -> None:
        job.expected_at = job.run_at
        if job.run_at > self.now:
            job.status = "scheduled"
        job.place_anew()
        self.jobs[job.id] = job

    def promote(self) -> None:
        for job in self.jobs.values():
            if job.status == "scheduled" and job.run_at <= self.now:
                job.status = "ready"
                job.version += 1

    def ready(self, type_: str) -> list[Job]:
        """What could be held of a type, in order."""
        jobs = [j for j in self.jobs.values() if j.type == type_ and j.status == "ready"]
        return sorted(jobs, key=lambda job: job.place)

    def discard_if_exhausted(self, job: Job) -> None:
        is_exhausted = job.attempts >= job.max_attempts
        if is_exhausted or self.has_expired(job):
            job.goes("failed")
            job.ends.append("gave_up" if is_exhausted else "expired")

    def has_expired(self, job: Job) -> bool:
        assert job.expected_at
        return self.now >= job.expected_at + timedelta(seconds=EXPIRY)

    def held(self, number: int, token: str) -> None:
        job = self.jobs[number]
        assert job.status == "ready"
        job.goes("running")
        job.attempts += 1
        job.holds += 1
        job.token = token
        job.hard_end_at = self.now + timedelta(seconds=HARD_END)
        job.lease_until = min(self.now + timedelta(seconds=LEASE), job.hard_end_at)

    def settled(self, number: int, token: str, how: str, stage: str = "") -> str:
        """The status of the job after it, or the code of the refusal."""
        job = self.jobs[number]
        if token in job.reports:
            reported, answer = job.reports[token]
            return answer if reported == (how, stage) else "conflict"
        if job.token != token or job.status != "running":
            if token not in job.stale and len(job.stale) < job.holds:
                job.stale.add(token)
                job.ends.append("stale")
            return "lease_lost"
        if how == "stage_done" and STAGES.index(stage) <= STAGES.index(job.stage):
            return "invalid"
        self.ended(job, how, stage)
        job.reports[token] = ((how, stage), job.status)
        return job.status

    def ended(self, job: Job, how: str, stage: str = "") -> None:
        before, job.last_end = job.last_end, how
        job.ends.append(how)
        asked, job.cancel_requested = job.cancel_requested, False
        if how == "succeeded":
            job.goes("succeeded")
        elif how == "cancelled" or asked:
            job.goes("cancelled")
        elif how == "stage_done":
            job.spent += job.attempts
            job.attempts, job.stage, job.checkpoint, job.sequence = 0, stage, None, 0
            job.goes("ready", self.now)
        elif how == "released":
            job.attempts -= 1
            job.releases += 1
            job.goes("ready", self.now)
        elif job.attempts >= job.max_attempts or self.has_expired(job):
            job.goes("failed")
        elif how == "lost" and before != "lost":
            job.goes("ready", self.now)
        else:
            wait = timedelta(seconds=DELAY * 2 ** (job.attempts - 1))
            job.goes("scheduled", self.now + wait)

    def cancelled(self, job: Job, force: bool) -> bool:
        """Whether there is such an arrow; so with all that operators do."""
        if job.is_final:
            return False
        if job.status == "running" and not force:
            if not job.cancel_requested:
                job.cancel_requested = True
                job.version += 1
                job.ends.append("cancel_requested")
            return True
        if job.status == "running":
            job.token, job.last_end, job.cancel_requested = "", "cancelled", False
        job.goes("cancelled")
        job.ends.append("cancelled")
        return True

    def retried(self, job: Job) -> bool:
        if not job.is_final:
            return False
        job.spent += job.attempts
        job.attempts = 0
        job.expected_at = self.now
        job.goes("ready", self.now)
        job.ends.append("retried")
        return True

    def marked_done(self, job: Job) -> bool:
        if job.status not in ("scheduled", "ready", "failed"):
            return False
        job.goes("succeeded")
        job.ends.append("marked_done")
        return True

    def run_now(self, job: Job) -> bool:
        if job.status not in ("scheduled", "ready"):
            return False
        place = job.place[0]
        since = job.order_since, job.demotion
        job.expected_at = self.now
        job.goes("ready", min(self.now, job.run_at))
        job.order_since, job.demotion = self.now, 0
        if place < job.place[0]:
            job.order_since, job.demotion = since
        job.ends.append("run_now")
        return True

    def edited(self, job: Job, priority: int, maximum: int) -> bool:
        if job.status not in ("scheduled", "ready"):
            return False
        if (job.priority, job.max_attempts) == (priority, maximum):
            return True
        job.ends.append("edited")
        moved = job.priority != priority
        job.priority, job.max_attempts = priority, maximum
        if maximum <= job.attempts:
            job.goes("failed")
            return True
        job.version += 1
        if moved:
            job.place_anew()
        return True

    def rescue(self) -> None:
        for job in self.jobs.values():
            if job.status != "running":
                continue
            assert job.hard_end_at
            assert job.lease_until
            if job.hard_end_at <= self.now:
                job.token = ""
                self.ended(job, "timed_out")
            elif job.lease_until <= self.now:
                job.token = ""
                self.ended(job, "lost")

    def renewed(self, number: int, token: str) -> bool:
        job = self.jobs[number]
        if not self._may_write(job, token):
            return False
        assert job.hard_end_at
        job.lease_until = min(self.now + timedelta(seconds=LEASE), job.hard_end_at)
        return True

    def saved(self, number: int, token: str, sequence: int) -> str:
        job = self.jobs[number]
        if not self._may_write(job, token):
            return "lease_lost"
        if sequence < job.sequence:
            # The worker is alive all the same.
            self.renewed(number, token)
            return "conflict"
        job.checkpoint, job.sequence = sequence, sequence
        job.hard_end_at = self.now + timedelta(seconds=HARD_END)
        job.lease_until = self.now + timedelta(seconds=LEASE)
        return "ok"

    def _may_write(self, job: Job, token: str) -> bool:
        return bool(
            token
            and job.token == token
            and job.status == "running"
            and job.hard_end_at
            and job.hard_end_at > self.now
        )
