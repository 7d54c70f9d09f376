"""The log of a job: parts come while its attempt runs and with its end, and are read in order."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Iterable, Sequence
from itertools import accumulate
from typing import NamedTuple

from django.db.models import F, Max, Q, QuerySet, Sum

from apps.common.db import fetch, table
from apps.common.masking import redact
from apps.common.masking.key_lines import BEGIN, KeyLines
from apps.common.readers import read_number
from apps.common.rows import insert_values
from apps.common.tidy import CHUNK, rest
from apps.jobs.models import ArchivedJob, JobLog
from apps.jobs.rules import job_log as rules
from apps.jobs.rules.job_log import Line, LogLines, StoredLog

# Of one answer: parts, and the bytes of them together.
MAX_PARTS, MAX_ANSWER = 100, 256 * 1024
_COLUMNS = ("job", "hold", "attempt", "part", "lines", "left_out", "size", "text")


class AttemptLines(NamedTuple):
    """Further lines of the attempt of a job: of its `hold`, which people know as `attempt`."""

    job: int
    hold: int
    attempt: int
    added: LogLines


def write(logs: Sequence[AttemptLines]) -> None:
    """Store the lines, as far as there is room and they are not stored already."""
    # Asking is a tenth of the work of a short job.
    asked = [each for each in logs if not each.added.are_first]
    before = _before(asked) if asked else {}
    rows: list[tuple[int | str, ...]] = []
    for each in logs:
        stored, last = before.get((each.job, each.hold), (StoredLog(), 0))
        part = rules.fitting(each.added, stored)
        if part.text or (part.lines and not last):
            named = (each.job, each.hold, each.attempt, stored.lines)
            rows.append((*named, part.lines, part.left_out, part.size, part.text))
        elif part.lines:
            # A worker that goes on and on makes no more rows.
            more = {name: F(name) + part.lines for name in ("lines", "left_out")}
            JobLog.objects.filter(pk=last).update(size=F("size") + part.size, **more)
    insert_values(JobLog, _COLUMNS, rows)


def _before(logs: Sequence[AttemptLines]) -> dict[tuple[int, int], tuple[StoredLog, int]]:
    """The stored logs of these attempts by job and hold, each with the number of its last row."""
    found = JobLog.objects.filter(
        job__in={each.job for each in logs}, hold__in={each.hold for each in logs}
    )
    sums = found.values_list("job", "hold").annotate(Sum("lines"), Sum("size"), Max("id"))
    return {
        (job, hold): (StoredLog(int(lines), int(size)), last)
        for job, hold, lines, size, last in sums.order_by()
    }


def forget(jobs: Sequence[int]) -> None:
    """Remove the logs of these jobs."""
    JobLog.objects.filter(job__in=jobs).delete()


def forget_of_partition(name: str) -> None:
    """Remove the logs of the jobs in this partition of the archive."""
    last = 0
    while True:
        rows = fetch(
            f"SELECT DISTINCT l.job FROM {table(JobLog)} l "
            f"JOIN {table(ArchivedJob)} PARTITION ({name}) a ON a.id = l.job "
            "WHERE l.job > %s ORDER BY l.job LIMIT %s",
            [last, CHUNK],
        )
        if not rows:
            return
        begun, last = time.monotonic(), rows[-1][0]
        forget([number for (number,) in rows])
        rest(begun)


# --- reading --------------------------------------------------------------------------------------
class StoredAttemptLog(NamedTuple):
    """Lines of one attempt, without secrets; `left_out` more were not kept behind them."""

    hold: int
    attempt: int
    lines: list[Line]
    left_out: int


def parts_of(job: int) -> QuerySet[JobLog]:
    """The parts of its log in their order."""
    return JobLog.objects.filter(job=job).order_by("hold", "part")


def parts_after(job: int, place: tuple[int, int]) -> tuple[list[JobLog], bool]:
    """The next parts of its log behind this place, and whether there are more."""
    hold, part = place
    behind = Q(hold__gt=hold) | Q(hold=hold, part__gt=part)
    found = list(parts_of(job).filter(behind)[: MAX_PARTS + 1])
    sizes = accumulate(each.size for each in found)
    fit = [each for each, size in zip(found, sizes, strict=True) if size <= MAX_ANSWER]
    parts = (fit or found[:1])[:MAX_PARTS]
    return parts, len(parts) < len(found)


def place_of(text: str) -> tuple[int, int] | None:
    """The place that `place_behind` has written, the beginning for ""; None for other texts."""
    hold, dot, part = text.partition(".")
    numbers = read_number(hold), read_number(part)
    if not text:
        return 0, 0
    if not dot or numbers[0] is None or numbers[1] is None:
        return None
    return numbers[0], numbers[1]


def place_behind(parts: Sequence[JobLog]) -> str:
    """The place behind these; "" without any."""
    return f"{parts[-1].hold}.{parts[-1].part}" if parts else ""


def read(parts: Iterable[JobLog], *, masked: bool = True, text: str = "") -> list[StoredAttemptLog]:
    """The lines of these parts, in their order, by attempt; only those that have the text, in
    letters of either case, as they are shown."""
    found: dict[tuple[int, int], list[Line]] = defaultdict(list)
    left_out: dict[tuple[int, int], int] = defaultdict(int)
    keys: dict[int, KeyLines] = {}
    wanted = text.casefold()
    for part in parts:
        named = part.hold, part.attempt
        left_out[named] += part.left_out
        if masked and part.hold not in keys:
            keys[part.hold] = _keys_before(part)
        for line in rules.read(part.text):
            shown = line._replace(text=redact(keys[part.hold].hide(line.text))) if masked else line
            if wanted in shown.text.casefold():
                found[named].append(shown)
    return [StoredAttemptLog(*named, found[named], left) for named, left in left_out.items()]


def _keys_before(part: JobLog) -> KeyLines:
    """What the parts of the attempt before this one say of private keys: one may have begun."""
    keys = KeyLines()
    before = parts_of(part.job).filter(hold=part.hold, part__lt=part.part)
    begun = before.filter(text__contains=BEGIN).first() if part.part else None
    for each in before.filter(part__gte=begun.part) if begun else ():
        for line in rules.read(each.text):
            keys.hide(line.text)
    return keys


class Attempt(NamedTuple):
    """An attempt that has logged."""

    hold: int
    attempt: int


def attempts_of(job: int) -> list[Attempt]:
    """Read the attempts of the job that have a log, in their order."""
    found = JobLog.objects.filter(job=job).values_list("hold", "attempt")
    return [Attempt(*each) for each in found.order_by("hold").distinct()]


def latest(job: int) -> StoredAttemptLog | None:
    """The log of its last attempt that has logged; None when none has."""
    last = JobLog.objects.filter(job=job).aggregate(hold=Max("hold"))["hold"]
    return None if last is None else read(parts_of(job).filter(hold=last))[0]


def search(job: int, text: str, *, most: int) -> tuple[list[StoredAttemptLog], bool]:
    """The lines that have the text, by attempt, and whether there are more than so many."""
    logs: list[StoredAttemptLog] = []
    found = 0
    for log in read(parts_of(job).iterator(chunk_size=100), text=text):
        if log.lines and found < most:
            logs.append(log._replace(lines=log.lines[: most - found], left_out=0))
        found += len(log.lines)
    return logs, found > most
