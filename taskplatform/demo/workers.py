"""`demo --workers`: workers over HTTP on jobs of three types and a pool, one of them killed."""

from __future__ import annotations

import random
import secrets
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from django.core.management import CommandError
from django.db.models import Q

from apps.common.audit import RECENT
from apps.jobs.models import Job
from apps.jobs.rules import transitions as t
from apps.jobs.services import types
from apps.jobs.services.invariants import CHECKS
from apps.jobs.services.pool_rebuild import rebuild_whole
from apps.jobs.services.submit import Submission, submit_many
from apps.journal.models import JournalEntry, Source
from taskplatform.demo.company import ACTOR, OUTSIDE_TYPES
from taskplatform.demo.outside import Outside, outside
from taskplatform.demo.proofs import Proof, audited
from taskplatform.demo.terminal import bar

THUMBNAILS, LETTERS, FILMS, POOL = OUTSIDE_TYPES
HEADINGS = ("Type", ">Open", ">Done", ">Failed", ">Retried", ">Rescued")
# One job in so many is a letter, a film, and an item of the pool.
LETTERS_IN, FILMS_IN, ITEMS_IN = 5, 100, 10
# Entries of the journal that the end of a job leaves, with those that come before.
_ENTRIES = 4
_WORDS = "dear customer thank you for your order it is on its way".split()


class WorkerRun:
    """The work of one run, known by its trace id, and the processes that do it.

    The first process is killed when half of the work is done.
    """

    def __init__(self, url: str, number: int, total: int) -> None:
        types.ensure_types(OUTSIDE_TYPES, OUTSIDE_TYPES, actor=ACTOR)
        self.url = url
        self.trace_id = f"demo-{secrets.token_hex(8)}"
        self.killed = ""
        self._outside: Outside
        self.ended = 0
        self._names = [f"{self.trace_id}-{position + 1}" for position in range(number)]
        items = max(1, total // ITEMS_IN)
        self._numbers = self._submit(total - items)
        self._items = self._fill(items)
        self._all = {*self._numbers, *self._items}
        self.total = len(self._all)

    def _submit(self, total: int) -> list[int]:
        films, letters = max(1, total // FILMS_IN), max(1, total // LETTERS_IN)
        names = [FILMS] * films + [LETTERS] * letters
        names += [THUMBNAILS] * max(1, total - len(names))
        random.shuffle(names)
        jobs = [
            Submission(type=name, context=_context(name), trace_id=self.trace_id) for name in names
        ]
        return [made.id for made in submit_many(jobs, by=ACTOR)]

    def _fill(self, count: int) -> list[int]:
        """Make so many shelves the pool, the first of them the most urgent; their numbers."""
        pool = types.find(POOL).snapshot
        run = self.trace_id[-4:]
        keys = {f"shelf-{run}-{number + 1}": number for number in range(count)}
        rebuild_whole(pool=pool, items=keys, actor=ACTOR)
        found = Job.objects.filter(type=POOL, key__startswith=f"shelf-{run}-")
        return list(found.filter(status__in=t.OPEN).values_list("pk", flat=True))

    @contextmanager
    def processes(self) -> Iterator[None]:
        """The workers at work."""
        types_ = list(OUTSIDE_TYPES)
        terms = {"name": "Demo workers", "scopes": ["hold"], "job_types": types_}
        with outside("outside_worker.py", **terms) as self._outside:
            for each in self._names:
                self._outside.start(each, self.url, each, POOL)
            yield

    def look(self) -> tuple[str, bool]:
        """A line of progress, and whether all is done; kills a worker halfway."""
        self.ended = self._jobs().filter(status__in=t.FINAL).count()
        if not self.killed and self.ended * 2 >= self.total:
            self._kill()
        died = [name for name in self._outside.died() if name != self.killed]
        if died:
            raise CommandError(f"Worker {died[0]} ended by itself; its output is above.")
        line = f"{bar(self.ended, self.total)} done"
        if self.killed:
            number = self.killed.rpartition("-")[2]
            if self._waits_for_leases():
                line += f" · waits for leases of killed worker {number}"
            else:
                line += f" · worker {number} was killed"
        return line, self.ended == self.total

    def _waits_for_leases(self) -> bool:
        """Whether all that is left is what the killed worker held."""
        held: int = self._jobs().filter(status=t.RUNNING, worker=self.killed).count()
        return 0 < held == self.total - self.ended

    def _kill(self) -> None:
        """Kill the worker that holds most."""
        running = self._jobs().filter(status=t.RUNNING, worker__in=self._names)
        held = Counter(running.values_list("worker", flat=True))
        if held:
            self.killed = held.most_common(1)[0][0]
            self._outside.kill(self.killed)

    def rows(self) -> list[list[str]]:
        """The rows of the table, in the order of HEADINGS."""
        counts = Counter(self._jobs().values_list("type", "status"))
        for entry in self._entries():
            name, after = entry.type_or_task, entry.to_state
            counts[name, "retried"] += entry.event == t.END_FAILED and after in t.WAITING
            counts[name, "rescued"] += entry.event == t.END_LOST
        return [
            [
                name,
                f"{sum(counts[name, status] for status in t.OPEN):,}",
                f"{counts[name, t.SUCCEEDED]:,}",
                f"{counts[name, t.FAILED] + counts[name, t.CANCELLED]:,}",
                f"{counts[name, 'retried']:,}",
                f"{counts[name, 'rescued']:,}",
            ]
            for name in OUTSIDE_TYPES
        ]

    def proofs(self) -> list[Proof]:
        """The promises of jobs, checked on all rows of the run and its journal."""
        entries = self._entries()
        ends = Counter(each.subject_id for each in entries if each.to_state in t.FINAL)
        lost = [each for each in entries if (each.event, each.worker) == (t.END_LOST, self.killed)]
        return [
            Proof("every job and every shelf is done", self._not_done()),
            Proof(
                "each of them ended once",
                [f"job {n} ended {ends[n]} times" for n in sorted(self._all) if ends[n] != 1],
            ),
            Proof(
                "a worker was killed, and others did what it held",
                [] if lost else ["nothing was taken from a dead worker"],
            ),
            *audited(CHECKS, recent=max(RECENT, _ENTRIES * self.total)),
        ]

    def _not_done(self) -> list[str]:
        open_ones = self._jobs().exclude(status=t.SUCCEEDED).order_by("pk")
        found = [f"{job.type} {job.pk} is {job.status}" for job in open_ones]
        there = self._jobs().count()
        return found + ([f"{there} of {self.total} are there"] if there < self.total else [])

    def _jobs(self) -> Any:
        # A range, because all their numbers are too many for a statement.
        within = Job.objects.filter(pk__gte=min(self._all), pk__lte=max(self._all))
        return within.filter(Q(trace_id=self.trace_id) | Q(type=POOL))

    def _entries(self) -> list[JournalEntry]:
        """The journal entries of the jobs."""
        first, last = min(self._all), max(self._all)
        within = JournalEntry.objects.filter(
            source=Source.JOB, subject_id__gte=first, subject_id__lte=last
        )
        columns = ("subject_id", "event", "to_state", "worker", "type_or_task")
        return [each for each in within.only(*columns) if each.subject_id in self._all]


def _context(name: str) -> dict[str, Any]:
    if name == FILMS:
        return {"scenes": random.randint(5, 15)}  # noqa: S311
    if name == LETTERS:
        return {"text": " ".join(random.choices(_WORDS, k=9))}  # noqa: S311
    return {"width": random.choice([64, 128, 256])}  # noqa: S311
