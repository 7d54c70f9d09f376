"""The columns of the lists of jobs: usual ones, more to choose from, and those of an export."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.translation import gettext_lazy as _

from apps.common import clock
from apps.common.admin.columns import ListColumn
from apps.common.admin.display import column, plain_time, shown_text
from apps.common.admin.html import noted
from apps.jobs.admin import labels
from apps.jobs.admin.job_fields import (
    is_in_pool,
    shown_progress,
    shown_status,
    time_of,
    type_link,
)
from apps.jobs.conf import conf
from apps.jobs.models import AnyJob, Job
from apps.jobs.rules import transitions
from apps.journal.admin.words import reason_of

MAX_ERROR = 100
MAX_TEXT = 80
# A job as the list loads it: `now` is the time of the page, `error` the beginning of its last
# error when it has failed, `words` what came of it else, `buttons` what one click does to it,
# `user` whom it is for.
ListedJob = Any


@column(_("number"))
def number(job: AnyJob) -> int:
    return job.pk


@column(_("key"))
def shown_key(job: ListedJob) -> SafeString | None:
    if not job.key and not job.user:
        return None
    return noted(shown_text(job.key), job.user and (job.user.title or job.user.name))


@column(_("user"))
def shown_user(job: ListedJob) -> SafeString | None:
    return job.user.shown if job.user else None


@column(_("status"))
def status_and_error(job: ListedJob) -> SafeString:
    """The status; below it the progress of an open job, the error of a failed one, or the
    result."""
    status = format_html('<span class="unbroken">{}{}</span>', shown_status(job), job.buttons)
    if job.percent is not None and not job.is_final:
        return noted(status, shown_progress(job), look="cell-note")
    words = shown_text(reason_of(job.error), limit=MAX_ERROR) if job.error else job.words
    if not words:
        return status
    return format_html('{}<bdi class="cell-error faint" title="{}">{}</bdi>', status, words, words)


@column(_("tries"))
def shown_attempts(job: AnyJob) -> SafeString:
    return format_html('<span class="unbroken">{} / {}</span>', job.attempts, job.max_attempts)


@column(_("next run"))
def shown_run_at(job: ListedJob) -> SafeString | None:
    """The time, and below it by how much the job goes before or after others."""
    if job.status not in transitions.WAITING:
        return None
    soon = labels.relative(job.run_at, job.now)
    run_at = format_html(
        '<span class="unbroken" title="{}">{}</span>', plain_time(job.run_at), soon
    )
    return noted(run_at, _order(job))


@column(_("order"))
def shown_order(job: Job) -> SafeString | None:
    if job.status not in transitions.WAITING:
        return None
    return format_html('<span class="unbroken" title="{}">{}</span>', job.order_key, _order(job))


def _order(job: Job) -> str:
    if is_in_pool(job):
        return labels.score_words(job.order_key)
    return labels.lead_words(job, conf.JOB_PRIORITY_WEIGHT_MS)


@column(_("host"))
def shown_host(job: AnyJob) -> SafeString | None:
    if job.affinity_host and job.status in transitions.WAITING:
        return noted(job.affinity_host, _("only there"))
    if not job.host:
        return None
    return format_html('<span title="{}">{}</span>', job.worker, job.host)


@column(_("age"))
def shown_age(job: ListedJob) -> SafeString:
    return format_html(
        '<span class="unbroken" title="{}">{}</span>',
        plain_time(job.created_at),
        labels.age(job.created_at, job.now),
    )


def _text(field: str, title: Any) -> Callable[[AnyJob], str]:
    @column(title)
    def shown(job: AnyJob) -> str:
        return shown_text(getattr(job, field), limit=MAX_TEXT)

    shown.__name__ = field
    return shown


@column(_("priority"))
def priority(job: AnyJob) -> int:
    return job.priority


@column(_("took"))
def took(job: AnyJob) -> SafeString | None:
    text = labels.took(job, clock.now())
    return format_html('<span class="unbroken">{}</span>', text) if text else None


_FINISHED = ListColumn("finished", time_of("finished_at", _("finished")), ("finished_at",))
# By which people know a job, in both lists.
_WHICH = (
    ListColumn("number", number, ("id",)),
    ListColumn("type", type_link, ("type",)),
    ListColumn("key", shown_key, ("key", "user_id")),
    ListColumn("status", status_and_error, ("status", "error", "error_key")),
)
_MORE = (
    ListColumn("progress", shown_progress, ("progress",)),
    ListColumn("priority", priority, ("priority",)),
    ListColumn("user", shown_user, ("user_id",)),
    ListColumn("stage", _text("stage", _("stage")), ("stage",)),
    ListColumn("worker", _text("worker", _("worker")), ("worker",)),
    ListColumn("submitted_by", _text("submitted_by", _("submitted by"))),
    ListColumn("scheduled_for", time_of("expected_at", _("scheduled for")), ("expected_at",)),
    ListColumn("started", time_of("started_at", _("started")), ("started_at",)),
)
_ATTEMPTS = ListColumn("attempts", shown_attempts, ("attempts", "max_attempts"))
_HOST = ListColumn("host", shown_host, ("host",))
_AGE = ListColumn("age", shown_age, ("created_at",))
_TOOK = ListColumn("took", took, ("held_at", "finished_at"))
_USUAL = (
    *_WHICH,
    _ATTEMPTS,
    ListColumn("next_run", shown_run_at, ("run_at",)),
    _TOOK,
    _AGE,
)
_ARCHIVED = (*_WHICH, _ATTEMPTS, _TOOK, _FINISHED, _AGE)
USUAL = tuple(each.shown for each in _USUAL)
ALL = (*_USUAL, ListColumn("order", shown_order, ("priority",)), *_MORE, _FINISHED, _HOST)
USUAL_ARCHIVED = tuple(each.shown for each in _ARCHIVED)
ALL_ARCHIVED = (
    *(*_ARCHIVED, *_MORE, _HOST),
    ListColumn("archived", time_of("archived_at", _("older since")), ("archived_at",)),
)
# The name and the attribute of each column of an export.
EXPORTED = (
    *((name, name) for name in ("id", "type", "key", "user_id", "status", "stage", "priority")),
    *((name, name) for name in ("attempts", "max_attempts", "progress", "worker", "host")),
    *((name, name) for name in ("created_at", "expected_at", "run_at", "started_at", "held_at")),
    *(("finished_at", "finished_at"), ("error", "error"), ("error_key", "error_key")),
)
