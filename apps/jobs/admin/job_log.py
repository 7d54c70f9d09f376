"""The log of a job: its latest lines on its page, and a page of its own with a search."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any, NamedTuple

from django.http import Http404, HttpRequest, HttpResponse
from django.template.loader import render_to_string
from django.utils.timezone import localtime
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from apps.common.admin.display import shown_text
from apps.common.admin.pages import Panel
from apps.common.readers import read_number
from apps.jobs.models import AnyJob
from apps.jobs.rules.job_log import MAX_BYTES, Line
from apps.jobs.services import job_log
from apps.jobs.services.job_log import StoredAttemptLog

# On the page of the job, of its last attempt.
MAX_LATEST = 100
# That a search shows, and links to other attempts.
MAX_FOUND = 1_000
MAX_ATTEMPTS = 50
MAX_TEXT = 200
_CLASSES = {"WARNING": "log-warning", "ERROR": "log-error", "CRITICAL": "log-error"}


class _Line(NamedTuple):
    at: datetime | None
    time: str
    text: str
    kind: str


def panel(job: AnyJob, url: str) -> Panel | None:
    """The latest lines of its last attempt that has logged; None when none has."""
    log = job_log.latest(job.pk)
    if log is None:
        return None
    context = {
        "attempt": _shown(log, log.lines[-MAX_LATEST:]),
        "before": max(0, len(log.lines) - MAX_LATEST),
        "url": url,
    }
    html = render_to_string("admin/includes/job_log_latest.html", context)
    return Panel(_("Log"), html, id="log")


def log_view(request: HttpRequest, *, model_admin: Any, pk: int) -> HttpResponse:
    """The log of one attempt, the last one unless another is asked for, or the lines of all
    attempts that have a text."""
    try:
        row = model_admin.existing(request, pk, may="payload")
    except Http404:
        way: HttpResponse | None = model_admin.elsewhere(str(pk))
        if way is None:
            raise
        return way
    attempts = job_log.attempts_of(row.pk)
    asked = request.GET.get("q", "")[:MAX_TEXT].strip()
    hold = read_number(request.GET.get("hold", "")) or (attempts[-1].hold if attempts else 0)
    logs, is_cut = job_log.search(row.pk, asked, most=MAX_FOUND) if asked else ([], False)
    if not asked:
        logs = job_log.read(job_log.parts_of(row.pk).filter(hold=hold))
    page: HttpResponse = model_admin.page(
        request,
        "admin/job_log.html",
        title=gettext("Log of job %d") % row.pk,
        original=row,
        asked=asked,
        hold=None if asked else hold,
        others=attempts[-MAX_ATTEMPTS:] if len(attempts) > 1 else [],
        attempts=[_shown(each, each.lines) for each in logs],
        is_cut=is_cut,
        back_url=model_admin.change_url(row.pk),
    )
    return page


def _shown(log: StoredAttemptLog, lines: Sequence[Line]) -> dict[str, Any]:
    return {"number": log.attempt, "lines": [*map(_line, lines)], "left_out": log.left_out}


def _line(line: Line) -> _Line:
    at = line.at and localtime(line.at)
    time = "" if at is None else f"{at:%H:%M:%S}.{at.microsecond // 1000:03d}"
    kind = _CLASSES.get(line.text.partition(" ")[0], "")
    return _Line(at, time, shown_text(line.text, limit=MAX_BYTES), kind)
