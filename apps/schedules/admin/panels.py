"""The runs on the pages of schedules: those to come and those that were."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.text import capfirst
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from apps.common.admin.display import label, short_time, shown_text, translate
from apps.common.admin.html import link, noted, page_url, table
from apps.common.masking import redact
from apps.common.messages import Message
from apps.jobs.admin import labels
from apps.jobs.models import AnyJob, Bounds
from apps.jobs.services.find import find_each
from apps.schedules.models import Schedule, ScheduleRun

MAX_RUNS = 50
JOB_COLUMNS = ("type", "status", "finished_at")


def jobs_of(runs: Iterable[int | None], bounds: Bounds) -> dict[int, AnyJob]:
    """The jobs that are kept and that the reader may see, by number."""
    wanted = [number for number in runs if number is not None]
    return find_each(wanted, bounds=bounds, only=JOB_COLUMNS)


def outcome(
    number: int | None, jobs: Mapping[int, AnyJob], *, named: Callable[[int], str] = str
) -> SafeString | str:
    """The job of a run and its state, with a link while it is kept; by its number, or `named`
    otherwise."""
    if number is None:
        return "–"
    job = jobs.get(number)
    if job is None:
        return named(number)
    status = capfirst(str(job.get_status_display()))
    colour = labels.STATUS_COLOURS.get(job.status, "")
    return format_html(
        "{} {}", label(status, colour), link(page_url(type(job), number), named(number))
    )


def runs_table(
    schedule: Schedule, bounds: Bounds, made_by: Callable[[Sequence[int]], Mapping[int, SafeString]]
) -> SafeString:
    """The last runs, the newest first. `made_by` shows what jobs have made, by their numbers, in
    place of the jobs."""
    runs = list(ScheduleRun.objects.filter(schedule=schedule).order_by("-pk")[:MAX_RUNS])
    if not runs:
        return format_html("<p>{}</p>", _("None yet."))
    jobs = jobs_of((run.job for run in runs), bounds)
    made = made_by([run.job for run in runs if run.job is not None])
    heads = _("Planned for"), _("Job"), _("Finished")
    return table(heads, _rows(schedule, runs, jobs, made), look="stacked-table")


def _rows(
    schedule: Schedule,
    runs: Sequence[ScheduleRun],
    jobs: Mapping[int, AnyJob],
    made_by: Mapping[int, SafeString],
) -> Iterable[tuple[Any, Any, Any]]:
    for run in runs:
        job = None if run.job is None else jobs.get(run.job)
        planned: SafeString | str = short_time(run.at, also=schedule.recurrence.zone)
        if run.by_hand:
            planned = noted(planned, gettext("run by hand"))
        made = why_not(run) if run.job is None else made_by.get(run.job) or outcome(run.job, jobs)
        ended = short_time(job.finished_at) if job is not None and job.finished_at else "–"
        yield planned, made, ended


def why_not(run: ScheduleRun) -> SafeString:
    """Why the run has no job, in the language of the page where the platform has said it."""
    text = translate(Message(run.why))
    return format_html(
        '{} <span class="cell-note">{}</span>',
        label(gettext("No job"), "warning"),
        shown_text(str(redact(text))),
    )
