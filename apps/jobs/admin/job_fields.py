"""The values of a job as they are shown on its page, some of them in lists, too."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import datetime
from typing import Any

from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.text import capfirst
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from apps.common import clock
from apps.common.admin.display import (
    column,
    in_lists,
    label,
    progress_bar,
    short_or_none,
    shown_actor,
    shown_time,
)
from apps.common.admin.html import link, list_url, noted, page_link
from apps.common.admin.json_fields import fields_of
from apps.common.admin.pages import Panel
from apps.common.admin.parts import part_of
from apps.jobs.admin import labels
from apps.jobs.admin.type_tabs import now_url
from apps.jobs.admin.worker_links import KeyNames, WorkerLinks
from apps.jobs.models import AnyJob, JobType
from apps.jobs.rules import transitions
from apps.jobs.services.type_snapshots import type_snapshots

# Type and key of the jobs that other apps make, and the page of what they are for.
_MADE_FOR = tuple(
    (re.compile(pattern), page)
    for pattern, page in (
        (r"\S+ (?P<subject>schedule:(?P<number>[0-9]{1,18}))@", "schedules_schedule"),
        (r"bulk (?P<subject>bulk:(?P<number>[0-9]{1,18}))$", "bulk_bulkrun"),
        (r"deliver (?P<subject>delivery:(?P<number>[0-9]{1,18}))$", "alerts_delivery"),
    )
)


def status_label(job: AnyJob) -> SafeString:
    """The status in its colour."""
    words = capfirst(str(job.get_status_display()))
    return label(words, labels.STATUS_COLOURS.get(job.status, ""))


# --- in both --------------------------------------------------------------------------------------
@column(_("status"))
def shown_status(job: AnyJob) -> SafeString:
    """The status in its colour, with a note when the job is asked to stop."""
    status = status_label(job)
    if not job.cancel_requested:
        return status
    return noted(status, gettext("Asked to stop"))


@column(_("progress"))
def shown_progress(job: AnyJob) -> SafeString | None:
    return None if job.percent is None else progress_bar(job.percent / 100)


@column(_("type"))
def type_link(job: AnyJob) -> SafeString:
    return link(list_url(type(job), type=job.type), job.type)


def is_in_pool(job: AnyJob) -> bool:
    """Whether the order of the job is its score."""
    type_ = type_snapshots([job.type]).get(job.type)
    return type_ is not None and type_.pool


def schema_of_type(name: str) -> Any:
    """The schema that checks contexts of the type; None when the type is gone."""
    type_ = type_snapshots([name]).get(name)
    return None if type_ is None else type_.params_schema


def time_of(field: str, title: Any) -> Callable[[AnyJob], SafeString | None]:
    """A column or field with an instant of the job."""

    @column(title)
    def shown(job: AnyJob) -> SafeString | None:
        at = getattr(job, field)
        return None if at is None else shown_time(at)

    shown.__name__ = field
    return in_lists(shown, lambda job: short_or_none(getattr(job, field)))


# --- fields of the page ---------------------------------------------------------------------------
@column(_("type"))
def type_page(job: AnyJob) -> SafeString:
    pk = JobType.objects.filter(name=job.type).values_list("pk", flat=True).first()
    if pk is None:
        return format_html("{} · {}", job.type, gettext("this type no longer exists"))
    return link(now_url(pk), job.type)


@column(_("key"))
def key_link(job: AnyJob) -> SafeString | None:
    if not job.key:
        return None
    url = list_url(type(job), type=job.type, key=job.key)
    unique = f" · {gettext('one open at a time')}" if job.is_unique else ""
    return format_html("{}{}", link(url, job.key), unique)


@column(_("user"))
def user_link(job: Any) -> SafeString | None:
    """Whom it is for, and the list of their jobs."""
    if not job.user_id:
        return None
    return format_html(
        "{} · {}", job.user.shown, link(list_url(type(job), user=job.user_id), _("Jobs"))
    )


@column(_("next run"))
def next_run(job: AnyJob) -> SafeString | None:
    is_waiting = job.status in transitions.WAITING
    return labels.time_from_now(job.run_at, clock.now()) if is_waiting else None


@column(_("submitted by"))
def submitted_by(job: AnyJob) -> str:
    return shown_actor(job.submitted_by)


@column(_("submitted with the end of"))
def parent_page(job: AnyJob) -> SafeString | None:
    """The job of which this one is a follow-up; its page is found in the archive, too."""
    return None if job.parent is None else page_link("jobs_job", job.parent, str(job.parent))


@column(_("made for"))
def made_for(job: AnyJob) -> SafeString | None:
    """The schedule, bulk run or delivery that the key names."""
    for pattern, page in _MADE_FOR:
        if found := pattern.match(f"{job.type} {job.key}"):
            return page_link(page, found["number"], found["subject"])
    return None


@column(_("only on host"))
def only_host(job: AnyJob) -> SafeString | None:
    if not job.affinity_host:
        return None
    if job.affinity_until is None:
        return format_html("{}", job.affinity_host)
    until = labels.time_from_now(job.affinity_until, clock.now())
    return format_html("{} · {} {}", job.affinity_host, gettext("until"), until)


@column(_("worker"))
def worker_page(job: Any) -> SafeString | None:
    """The worker that holds it or held it last, and the API key of one over HTTP."""
    if not job.worker:
        return None
    if not hasattr(job, "shown_worker"):
        # The page asks for each of its fields several times.
        job.shown_worker = _worker(job)
    return job.shown_worker  # type: ignore[no-any-return]


def _worker(job: AnyJob) -> SafeString:
    shown = WorkerLinks([job.worker]).link(job.worker, job.client)
    if not job.client:
        return shown
    key = KeyNames([job.client]).name(job.client)
    return format_html("{} · {} {}", shown, gettext("API key"), key)


@column(_("held"))
def held(job: AnyJob) -> SafeString | None:
    return None if job.held_at is None else labels.time_from_now(job.held_at, clock.now())


@column(_("lease until"))
def lease(job: AnyJob) -> SafeString | None:
    return _of_running(job, job.lease_until)


@column(_("deadline of the try"))
def deadline(job: AnyJob) -> SafeString | None:
    return _of_running(job, job.hard_end_at)


@column(_("checkpoint number"))
def checkpoint_number(job: AnyJob) -> int | None:
    return job.sequence or None


def _of_running(job: AnyJob, at: datetime | None) -> SafeString | None:
    if at is None or job.status != transitions.RUNNING:
        return None
    return labels.time_from_now(at, clock.now())


def payload(job: AnyJob) -> list[Panel]:
    """The panels with the result, context and checkpoint of the job."""
    titles = {"result": _("Result"), "context": _("Context"), "checkpoint": _("Checkpoint")}
    schemas = {"context": schema_of_type(job.type)}
    return [
        Panel(title, fields_of(value, schemas.get(name)), id=name)
        for name, title in titles.items()
        if (value := getattr(job, name)) is not None
    ]


@column(_("priority"))
def shown_priority(job: AnyJob) -> str:
    # 0 is a value, too.
    return str(job.priority)


@column(_("all tries"))
def holds(job: AnyJob) -> str | None:
    """The number of holds, where there are more than attempts, which the head shows."""
    return str(job.holds) if job.holds != job.attempts else None


# Type, status, attempts and error are in the head.
FACTS: tuple[Any, ...] = (
    *("id", key_link, user_link, shown_priority, "stage", holds, made_for, parent_page),
    part_of,
    *(time_of("expected_at", _("scheduled for")), next_run, time_of("created_at", _("created"))),
    *(submitted_by, time_of("started_at", _("started")), time_of("finished_at", _("finished"))),
    *(time_of("archived_at", _("older since")), worker_page, only_host, held, lease, deadline),
    *(checkpoint_number, "trace_id"),
)
