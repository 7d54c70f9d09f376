"""Why a waiting job does not run, on its page."""

from __future__ import annotations

from typing import NamedTuple

from django.template.loader import render_to_string
from django.utils.safestring import SafeString
from django.utils.translation import gettext_lazy as _
from django.utils.translation import pgettext_lazy

from apps.common import clock
from apps.common.admin.display import shown_text, translate
from apps.common.admin.theme import label
from apps.jobs.admin import labels
from apps.jobs.models import Job
from apps.jobs.rules import explain as rules
from apps.jobs.services.explain import explain

WORDS = {
    rules.RUNNING: _("running"),
    rules.FINISHED: pgettext_lazy("of jobs", "finished"),
    rules.NO_TYPE: _("no such type"),
    rules.ATTEMPTS_USED: _("attempts used up"),
    rules.EXPIRED: _("expired"),
    rules.SCHEDULED: _("not due"),
    rules.PAUSED: _("paused"),
    rules.BREAKER_OPEN: _("breaker open"),
    rules.BREAKER_PROBING: _("breaker probing"),
    rules.MAX_RUNNING: _("limit of running ones"),
    rules.RATE: _("limit per minute"),
    rules.NO_WORKER: _("no worker"),
    rules.HOST: _("hosts"),
    rules.AFFINITY: _("only on host"),
    rules.ALONE: _("runs alone"),
    rules.AHEAD: _("others first"),
    rules.NEXT: _("next"),
}
# Nothing is wrong with these; the others that time does away with are warnings.
FINE = {rules.RUNNING, rules.NEXT}
PASSING = {
    rules.SCHEDULED,
    rules.BREAKER_OPEN,
    rules.BREAKER_PROBING,
    rules.MAX_RUNNING,
    rules.RATE,
    rules.AFFINITY,
    rules.ALONE,
    rules.AHEAD,
}


class Line(NamedTuple):
    word: SafeString
    detail: str
    until: SafeString | None


def why_not(job: Job) -> SafeString:
    """All that stands in its way, each with when that could change."""
    now = clock.now()
    lines = [
        Line(
            word=label(WORDS[reason.code], _colour(reason.code)),
            detail=shown_text(translate(reason.detail)),
            until=None if reason.until is None else labels.time_from_now(reason.until, now),
        )
        for reason in explain(job)
    ]
    return SafeString(render_to_string("admin/includes/why_table.html", {"lines": lines}))


def _colour(code: str) -> str:
    if code in FINE:
        return "success"
    return "warning" if code in PASSING else "danger"
