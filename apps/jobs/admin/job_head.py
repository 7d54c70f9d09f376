"""The head of the page of a job: how it stands, what went wrong, the way it took, its attempts."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from django.db.models import QuerySet
from django.db.models.fields.json import KT
from django.template.loader import render_to_string
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.text import capfirst
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from apps.common import clock
from apps.common.admin.display import duration_of, label, plain_time, shown_text, shown_time
from apps.common.admin.html import joined, list_url
from apps.common.admin.pages import Panel
from apps.common.admin.row_page import head_line
from apps.common.masking import redact
from apps.jobs.admin import job_fields, labels
from apps.jobs.admin.state_picture import Pair, state_picture
from apps.jobs.admin.worker_links import WorkerLinks
from apps.jobs.models import AnyJob, Job
from apps.jobs.rules import transitions as t
from apps.journal.admin.words import event_of, reason_of
from apps.journal.models import JournalEntry, Source, line_of

MAX_ENTRIES = 200
# More attempts are in the history, and more states of the way behind three dots.
MAX_ATTEMPTS = 20
MAX_STATES = 9
MAX_ERROR = 300
_MS = timedelta(milliseconds=1)
# Jobs with the same error are counted up to this number.
MAX_ALIKE = 1_000


class Head(NamedTuple):
    """The panels of the head: others come between them."""

    summary: Panel
    error: Panel | None
    attempts: Panel | None
    way: Panel


def head(job: AnyJob, visible: QuerySet[Any]) -> Head:
    """The head, from the latest entries of the journal about the job, its row, and the visible jobs
    with the same error."""
    rows = JournalEntry.objects.timeline(Source.JOB, job.pk).order_by("-id").defer("data")
    latest = list(rows.annotate(summary=KT("data__summary"))[:MAX_ENTRIES])
    ends = [each for each in latest if each.attempt is not None and each.run_ms is not None]
    now, shown = clock.now(), ends[:MAX_ATTEMPTS]
    workers = WorkerLinks([job.worker, *(each.worker for each in shown)])
    lines = [_attempt_of(each, workers) for each in shown]
    # The row was read before the journal: the attempt may have ended in between.
    if not _has_ended(job, ends):
        lines = [*_running(job, workers, now), *lines]
    attempts = None
    if lines:
        html = render_to_string("admin/includes/job_attempts.html", {"lines": lines})
        attempts = Panel(_("Tries"), html, id="attempts")
    said = [
        job_fields.type_page(job),
        *filter(None, [shown_text(job.key)]),
        *_facts(job, ends, now),
    ]
    line = head_line(job_fields.shown_status(job), said)
    # Progress may come later: live.js would move all that follows.
    progress = job_fields.shown_progress(job)
    bar = format_html("<p{}>{}</p>", "" if progress else SafeString(" hidden"), progress or "")
    summary = Panel("", joined([line, bar]))
    return Head(summary, _error(job, ends, visible), attempts, _way(job, latest))


def _error(job: AnyJob, ends: Sequence[JournalEntry], visible: QuerySet[Any]) -> Panel | None:
    if not job.memo or job.status == t.SUCCEEDED:
        return None
    error = next((each.error.strip() for each in ends if each.error.strip()), "") or job.memo
    context = {
        "error": shown_text(reason_of(job.memo), limit=MAX_ERROR),
        "whole_error": shown_text(redact(error)) if error.strip() != job.memo.strip() else "",
        **_group(job, visible),
    }
    return Panel(_("Error"), render_to_string("admin/includes/job_error.html", context), id="error")


def _group(job: AnyJob, visible: QuerySet[Any]) -> dict[str, Any]:
    """The jobs of the type with the same error: how many, and where they are listed."""
    if not job.error_key:
        return {}
    alike = visible.filter(type=job.type, error_key=job.error_key).order_by()
    return {
        "alike": list_url(type(job), type=job.type, error_key=job.error_key),
        "alike_count": labels.capped(alike.values("pk")[:MAX_ALIKE].count(), MAX_ALIKE),
    }


def _facts(job: AnyJob, ends: Sequence[JournalEntry], now: datetime) -> Iterable[str]:
    """`attempt 3 of 3`, `failed 3 min ago`, `on host-a`, `took 49 ms`."""
    if job.attempts:
        numbers = {"number": job.attempts, "max": job.max_attempts}
        yield gettext("try %(number)d of %(max)d") % numbers
    if job.status == t.RUNNING and job.held_at:
        yield gettext("running for %s") % labels.took(job, now)
        if job.lease_until is not None:
            is_over = job.lease_until <= now
            lease = gettext("lease ended %s") if is_over else gettext("lease ends %s")
            yield lease % labels.relative(job.lease_until, now)
    elif job.status in t.WAITING:
        if job.run_at > now:
            yield gettext("due %s") % labels.relative(job.run_at, now)
        else:
            yield gettext("due for %s") % labels.age(job.run_at, now)
    elif job.finished_at:
        yield gettext("ended %s") % labels.relative(job.finished_at, now)
    if job.archived_at:
        yield gettext("among the older ones since %s") % plain_time(job.archived_at)
    if job.host and job.status not in t.WAITING:
        yield gettext("on %s") % job.host
    if ends and job.status not in t.OPEN:
        yield gettext("took %s") % duration_of(ends[0].run_ms or 0)


def _way(job: AnyJob, latest: Sequence[JournalEntry]) -> Panel:
    states = _states(job, latest)
    context = {
        "states": states[-MAX_STATES:],
        "is_cut": len(states) > MAX_STATES,
        "picture": state_picture(job.status, _arrows_taken(job, latest)),
    }
    return Panel(_("Way"), render_to_string("admin/includes/job_way.html", context), id="way")


def _states(job: AnyJob, latest: Sequence[JournalEntry]) -> list[str]:
    """The states that the job has been in, in their order, the present one last."""
    words = dict(Job.Status.choices)
    passed = [state for each in reversed(latest) for state in (each.from_state, each.to_state)]
    states: list[str] = []
    for state in (*passed, job.status):
        # Holds have no entry of their own, and only ready jobs are held.
        if state == t.RUNNING and states[-1:] not in ([t.READY], [t.RUNNING]):
            states.append(t.READY)
        if state in words and states[-1:] != [state]:
            states.append(state)
    return [capfirst(str(words[Job.Status(state)])) for state in states]


def _arrows_taken(job: AnyJob, latest: Sequence[JournalEntry]) -> set[Pair]:
    """The changes of state in the journal, and the hold, which has no entry of its own."""
    taken = {(each.from_state, each.to_state) for each in latest}
    taken = {pair for pair in taken if all(pair)}
    if job.holds:
        taken.add((t.READY, t.RUNNING))
    return taken


class _Attempt(NamedTuple):
    number: int
    began: SafeString
    waited: str
    took: str
    where: SafeString | str
    end: SafeString
    error: str


def _has_ended(job: AnyJob, ends: Sequence[JournalEntry]) -> bool:
    """Whether the present attempt is among the ends; attempts count anew after a retry."""
    held = job.held_at
    return held is not None and any(
        each.attempt == job.attempts and each.at > held for each in ends
    )


def _running(job: AnyJob, workers: WorkerLinks, now: datetime) -> Iterable[_Attempt]:
    if job.status != t.RUNNING or job.held_at is None:
        return
    yield _Attempt(
        number=job.attempts,
        began=shown_time(job.held_at),
        waited=duration_of(max(0, (job.held_at - job.run_at) // _MS)),
        took=labels.took(job, now),
        where=workers.link(job.worker, job.client) if job.worker else job.host,
        end=job_fields.shown_status(job),
        error="",
    )


def _attempt_of(entry: Any, workers: WorkerLinks) -> _Attempt:
    """The attempt that ended with this entry, which has the `summary` of its data beside it."""
    error = reason_of(line_of(entry.error, entry.summary) or entry.reason)
    event = event_of(entry.event)
    return _Attempt(
        number=entry.attempt or 0,
        began=shown_time(entry.at - timedelta(milliseconds=entry.run_ms or 0)),
        waited="" if entry.wait_ms is None else duration_of(entry.wait_ms),
        took=duration_of(entry.run_ms or 0),
        where=workers.link(entry.worker) if entry.worker else entry.host,
        end=label(str(event.words), event.colour),
        error=shown_text(error, limit=MAX_ERROR),
    )
