"""The journal of a company over some time: who did what, how long, and what went wrong.

Made from a fixed seed, minute by minute, as rows that the tables take as they are. Volumes rise and
fall with the hour and the day of the week; every type of job has run times, hosts and errors of its
own; what fails is tried again some minutes later.
"""

from __future__ import annotations

import math
import random
from collections import defaultdict
from collections.abc import Iterator
from datetime import datetime, timedelta
from itertools import accumulate
from typing import Any, NamedTuple

from apps.common import ids
from apps.common.db import written
from apps.journal.services import error_key

MINUTE = timedelta(minutes=1)
_MS = timedelta(milliseconds=1)
MINUTES_A_WEEK = 7 * 24 * 60
# Of the entries; the rest is about dispatches.
JOBS_SHARE = 0.72
MAX_ATTEMPTS = 3
# What failed once fails again more often than what did not.
AGAIN = 0.35
SEQUENCES = 1 << 12
# Jobs and dispatches take their numbers apart from entries.
NUMBERS_FROM = SEQUENCES
FIRST_ONCE = 100_000

ENTRY_COLUMNS = (
    *("id", "at", "source", "subject_id", "event", "from_state", "to_state", "attempt"),
    *("type_or_task", "executor", "worker", "host", "wait_ms", "run_ms", "error", "error_key"),
    "data",
)
JOB_COLUMNS = (
    *("id", "type", "key", "user_id", "context", "status", "order_key", "run_at", "expected_at"),
    *("attempts", "max_attempts", "holds", "last_end", "held_at", "worker", "host", "memo"),
    *("error_key", "created_at", "started_at", "finished_at", "shard"),
)
DISPATCH_COLUMNS = (
    *("id", "executor_id", "open_for", "source", "task", "occurrence", "occurrence_at", "title"),
    *("params", "state", "round", "holds_stock", "redo", "dispatched_at", "deadline_at"),
    *("finished_at", "message"),
)
STOCK_COLUMNS = ("source", "task", "occurrence", "handed")


class JobKind(NamedTuple):
    """A type of jobs: its share of all, the middle and the spread of its run times, how often an
    attempt fails, and with what."""

    name: str
    share: float
    run_ms: float
    spread: float
    fails: float
    errors: tuple[str, ...]


_NET = (
    "ConnectionError: no route to 10.0.{0}.{1}:443",
    "TimeoutError: no answer within {0}00 ms",
    "HTTPError: 503 from https://api{0}.example.org/v1/items/{1}",
    "SSLError: certificate of 'api{0}.example.org' has expired",
)
_DATA = (
    "ValueError: amount -{0} of invoice {1} is negative",
    "KeyError: 'sku-{1}'",
    "IntegrityError: (1062, \"Duplicate entry '{1}' for key 'order'\")",
    "OperationalError: (1205, 'Lock wait timeout exceeded')",
)
_FILE = (
    "FileNotFoundError: [Errno 2] No such file or directory: '/data/{0}/{1}.png'",
    "OSError: cannot identify image file '/data/{1}.webp'",
    "MemoryError: {0} MB wanted, {1} free",
)
KINDS = (
    JobKind("mail", 30, 120, 0.6, 0.012, (*_NET, "SMTPRecipientsRefused: 550 mailbox {1} is full")),
    JobKind("thumbnail", 18, 450, 0.5, 0.004, _FILE),
    JobKind("webhook", 16, 260, 1.1, 0.05, (*_NET, "HTTPError: 429 from 'shop-{0}'")),
    JobKind("search_index", 10, 35, 0.4, 0.001, _DATA[2:]),
    JobKind("push", 9, 60, 0.7, 0.02, (*_NET[:2], "TokenGone: device {1} has unregistered")),
    JobKind("invoice", 4, 900, 0.5, 0.008, _DATA),
    JobKind("geocode", 4, 180, 0.9, 0.03, (*_NET, "NoMatch: no place is called '{1}'")),
    JobKind("import_row", 3, 15, 0.3, 0.006, _DATA),
    JobKind("stock_sync", 2.5, 2_400, 0.8, 0.02, (*_NET, *_DATA)),
    JobKind("pdf", 1.5, 6_500, 0.7, 0.01, _FILE),
    JobKind("score", 1.2, 800, 0.9, 0.005, ("ModelError: batch {0} has {1} rows too many",)),
    JobKind("export", 0.4, 21_000, 0.9, 0.015, (*_DATA, *_FILE)),
    JobKind("video", 0.3, 95_000, 0.9, 0.03, (*_FILE, "CodecError: frame {1} is broken")),
    JobKind("backup", 0.1, 640_000, 0.5, 0.02, ("OSError: [Errno 28] No space left on device",)),
)
HOSTS = 8
WORKERS_PER_HOST = 4
_ENDS = ("succeeded", "failed", "expired", "released", "cancelled")
_ENDS_SHARE = tuple(accumulate((93.0, 3.0, 2.5, 1.0, 0.5)))
_COMPLAINTS = (
    "Shelf {0} is behind a locked door",
    "No light in aisle {0}: photo {1} is black",
    "Scanner says E{0}",
    "The shop has closed",
)


class Crowd(NamedTuple):
    """How many users, rotations and once tasks there are; numbers of tasks follow one another."""

    users: int
    rotations: int
    once: int
    first_user: int
    first_rotation: int


def volume(minute: int) -> float:
    """How much happens in a minute of the week (0 = Monday 00:00 UTC), 1 at the busiest time."""
    day, into = divmod(minute, 24 * 60)
    hour = into / 60
    light = max(0.0, math.sin((hour - 5) / 16 * math.pi)) if 5 <= hour <= 21 else 0.0
    nightly = 0.35 if 2 <= hour < 2.5 else 0.0
    return (0.12 + 0.88 * light + nightly) * (0.45 if day >= 5 else 1.0)


def host_of(number: int) -> str:
    return f"worker-{number % HOSTS:02}"


def worker_of(number: int) -> str:
    """As workers name themselves: node, process and machine."""
    host = host_of(number)
    return f"fast-{number // HOSTS}@{host}:{4000 + number}:{host}"


class Past:
    """Rows of some time, minute by minute; what has ended, as the rows that are left of it.

    `jobs`, `dispatches` and `stocks` grow with every minute; the caller stores and empties them.
    What would end after `until` is still open then.
    """

    def __init__(self, crowd: Crowd, *, until: datetime, seed: int = 1) -> None:
        self.crowd = crowd
        self.until = until
        self.jobs: list[tuple[Any, ...]] = []
        self.dispatches: list[tuple[Any, ...]] = []
        self.stocks: dict[tuple[str, int, int], int] = defaultdict(int)
        self._random = random.Random(seed)
        self._number = 0
        self._kinds = list(accumulate(kind.share for kind in KINDS))
        self._keys: dict[str, str] = {}
        # What is to come: attempts that follow, and ends of dispatches, by minute.
        self._again: dict[datetime, list[tuple[JobKind, int, int, datetime]]] = defaultdict(list)
        self._ends: dict[datetime, list[tuple[Any, ...]]] = defaultdict(list)
        self._rounds: dict[tuple[int, str, int, int], int] = defaultdict(int)
        self._open: set[int] = set()
        self._jobs_begun = 0
        self._hopeless: set[int] = set()

    def week(self, start: datetime, rows: int) -> Iterator[list[tuple[Any, ...]]]:
        """About `rows` entries in the week from `start`, minute by minute."""
        first = start.weekday() * 24 * 60 + start.hour * 60 + start.minute
        shares = [volume((first + n) % MINUTES_A_WEEK) for n in range(MINUTES_A_WEEK)]
        whole, owed = sum(shares), 0.0
        for n, share in enumerate(shares):
            owed += rows * share / whole
            # Calm and hectic minutes; over an hour it evens out.
            count = max(0, round(owed * self._random.uniform(0.7, 1.3)))
            made = self.minute(start + n * MINUTE, count)
            owed -= len(made)
            yield made

    def minute(self, start: datetime, count: int) -> list[tuple[Any, ...]]:
        """`count` entries or some more of the minute from `start`, in the order of their ids."""
        found: list[tuple[int, tuple[Any, ...]]] = []
        for row in self._ends.pop(start, ()):
            found.append((row[0], row[1:]))
        for kind, subject, attempt, due in self._again.pop(start, ()):
            found.append(self._attempt(start, kind, subject, attempt, due))
        while len(found) < count:
            if self._random.random() < JOBS_SHARE:
                found.append(self._attempt(start, self._kind(), 0, 1, start))
            else:
                found.append(self._hand_out(start))
        found.sort(key=lambda each: each[0])
        return [self._entry(start, ms, row) for ms, row in found]

    def _entry(self, start: datetime, ms: int, row: tuple[Any, ...]) -> tuple[Any, ...]:
        at = start + timedelta(milliseconds=ms)
        self._number += 1
        return (ids.lowest_id_at(at) + self._number % SEQUENCES, written(at), *row)

    # --- jobs -------------------------------------------------------------------------------------
    def _kind(self) -> JobKind:
        return self._random.choices(KINDS, cum_weights=self._kinds)[0]

    def _attempt(
        self, start: datetime, kind: JobKind, subject: int, attempt: int, due: datetime
    ) -> tuple[int, tuple[Any, ...]]:
        draw = self._random
        ms = draw.randrange(60_000)
        now = start + timedelta(milliseconds=ms)
        run = int(kind.run_ms * math.exp(draw.gauss(0, kind.spread)))
        # The busier, the longer the line.
        wait = int(draw.expovariate(1 / (8 + 400 * volume(_minute_of_week(start)) ** 3)))
        if not subject:
            due = now - timedelta(milliseconds=run + wait)
            self._number += 1
            subject = ids.lowest_id_at(due) + NUMBERS_FROM + self._number % SEQUENCES
        place = draw.randrange(HOSTS * WORKERS_PER_HOST)
        worker, host = worker_of(place), host_of(place)
        event, after, error = "succeeded", "succeeded", ""
        luck = self._luck(subject, attempt)
        if luck < (kind.fails if attempt == 1 else AGAIN):
            event = draw.choices(("failed", "timed_out", "lost"), (90, 7, 3))[0]
            after = "failed" if attempt == MAX_ATTEMPTS else "scheduled"
            error = self._error(kind, event)
        elif luck > 0.9985:
            event, after, run = "cancelled", "cancelled", 0
            worker = host = ""
        if after == "scheduled":
            later = start + MINUTE * draw.randint(1, 9)
            self._again[later].append((kind, subject, attempt + 1, later))
        held = now - timedelta(milliseconds=run)
        key = self._key(error)
        if after != "scheduled":
            self._finished(subject, kind, after, event, due, held, now, attempt, place, error, key)
        before = "running" if worker else "ready"
        data = f'{{"held_at": "{held.isoformat()}", "hold": {attempt}}}' if worker else None
        row = (
            *("job", subject, event, before, after, attempt, kind.name, "", worker, host),
            *((wait, run) if worker else (None, None)),
            *(error, key, data),
        )
        return ms, row

    def _luck(self, subject: int, attempt: int) -> float:
        """The less the worse, and 1 for a job that nobody wants any more.

        Some jobs are bound to fail or to be cancelled: even a short history has such ends.
        """
        if attempt == 1:
            self._jobs_begun += 1
            if self._jobs_begun % 400 == 100:
                return 1.0
            if self._jobs_begun % 400 == 300:
                self._hopeless.add(subject)
        return 0.0 if subject in self._hopeless else self._random.random()

    def _error(self, kind: JobKind, event: str) -> str:
        if event == "timed_out":
            return "It ran past its deadline."
        if event == "lost":
            return "Its worker went offline."
        draw = self._random
        # Some errors are much more frequent than others.
        which = min(int(draw.expovariate(1.2)), len(kind.errors) - 1)
        return kind.errors[which].format(draw.randrange(1, 90), draw.randrange(1000, 99_000))

    def _key(self, error: str) -> str:
        """`error_key` takes longer than all the rest; where numbers differ it is the same."""
        if not error:
            return ""
        start = error[:16]
        if start not in self._keys:
            self._keys[start] = error_key(error)
        return self._keys[start]

    def _finished(
        self,
        subject: int,
        kind: JobKind,
        status: str,
        event: str,
        due: datetime,
        held: datetime,
        now: datetime,
        attempt: int,
        place: int,
        error: str,
        key: str,
    ) -> None:
        began, ended, made = written(held), written(now), written(ids.made_at(subject))
        number = subject >> 10
        has_run = event != "cancelled"
        self.jobs.append(
            (
                *(subject, kind.name, f"order-{number % 900_000}", f"uid_{number % 40_000}"),
                *(f'{{"order": {number % 900_000}, "to": "somebody@example.org"}}', status),
                *(int(due.timestamp() * 1000), written(due), made),
                *(attempt, MAX_ATTEMPTS, attempt, event, began if has_run else None),
                *((worker_of(place), host_of(place)) if has_run else ("", "")),
                *(error, key, made, began if has_run else None, ended, number % 1024),
            )
        )

    # --- dispatches -------------------------------------------------------------------------------
    def _hand_out(self, start: datetime) -> tuple[int, tuple[Any, ...]]:
        draw, crowd = self._random, self.crowd
        ms = draw.randrange(60_000)
        now = start + timedelta(milliseconds=ms)
        # Some users do far more than others.
        user = crowd.first_user + int(crowd.users * draw.random() ** 1.6)
        self._number += 1
        number = ids.lowest_id_at(now) + NUMBERS_FROM + self._number % SEQUENCES
        if draw.random() < 0.8:
            source = "rotate"
            task = crowd.first_rotation + int(crowd.rotations * draw.random() ** 2)
            due = now.replace(minute=0, second=0, microsecond=0)
            occurrence = int(due.timestamp())
        else:
            # A once task is done within some hours, so those of the moment are neighbours.
            middle = crowd.once * _minute_of_week(start) // MINUTES_A_WEEK
            shift = draw.randrange(-crowd.once // 40 - 1, crowd.once // 40 + 1)
            source, task = "once", FIRST_ONCE + (middle + shift) % crowd.once
            due, occurrence = now - timedelta(minutes=draw.randrange(1, 240)), 0
        run = int(95_000 * math.exp(draw.gauss(0, 0.9)))
        state = draw.choices(_ENDS, cum_weights=_ENDS_SHARE)[0]
        if state == "expired":
            run = 3_600_000
        message = ""
        if state == "failed":
            text = _COMPLAINTS[min(int(draw.expovariate(1.0)), len(_COMPLAINTS) - 1)]
            message = text.format(draw.randrange(1, 40), draw.randrange(1, 9))
        end = now + timedelta(milliseconds=run)
        label, name = f"{source}:{task}", f"uid_{user}"
        wait = (now - due) // _MS
        open_for: int | None = None
        finished: str | None = written(end)
        if end >= self.until:
            state, open_for, finished, message = "open", user, None, ""
        else:
            ended_in = end.replace(second=0, microsecond=0)
            ended = ("dispatch", number, state, "open", state, 1, label, name, "", "", wait, run)
            key = self._key(message)
            self._ends[ended_in].append(((end - ended_in) // _MS, *ended, message, key, None))
        # A user has one open dispatch at most.
        if open_for not in self._open:
            self._rounds[user, source, task, occurrence] += 1
            round_ = self._rounds[user, source, task, occurrence] - 1
            self.stocks[source, task, occurrence] += 1
            self.dispatches.append(
                (
                    *(number, user, open_for, source, task, occurrence, written(due)),
                    *("Count the shelf", '{"shop": "Nanjing Road 12", "photos": 3}', state),
                    *(round_, True, 0, written(now), written(now + timedelta(hours=1))),
                    *(finished, message),
                )
            )
        if open_for is not None:
            self._open.add(open_for)
        handed = ("dispatch", number, "handed_out", "", "open", 1, label, name, "", "", wait, None)
        return ms, (*handed, "", "", None)


def _minute_of_week(at: datetime) -> int:
    return at.weekday() * 24 * 60 + at.hour * 60 + at.minute
