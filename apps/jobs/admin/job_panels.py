"""The panels on the page of a job: its head, what it waits for, its order, its history."""

from __future__ import annotations

from copy import copy
from typing import Any, NamedTuple

from django.db.models import QuerySet
from django.template.loader import render_to_string
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.translation import gettext, pgettext_lazy
from django.utils.translation import gettext_lazy as _

from apps.common import clock
from apps.common.admin.display import (
    duration_of,
    label,
    shown_actor,
    shown_text,
    shown_time,
    translate,
)
from apps.common.admin.html import bullets, joined, link, list_url, page_link
from apps.common.admin.pages import Panel
from apps.common.admin.timeline import Moment
from apps.common.json import path as json_path
from apps.common.json.search import why_masked
from apps.common.messages import Reason
from apps.jobs.admin import job_fields, labels
from apps.jobs.admin.job_head import head
from apps.jobs.conf import conf
from apps.jobs.models import AnyJob, Bounds, Job
from apps.jobs.rules import explain as rules
from apps.jobs.rules import order, transitions
from apps.jobs.rules.backoff import backoff_seconds
from apps.jobs.rules.key_limit import KEY, USER
from apps.jobs.services import action_effects
from apps.jobs.services.counts import jobs_before
from apps.jobs.services.explain import explain
from apps.jobs.services.follow import follow_ups
from apps.jobs.services.job_filters import JobFilters
from apps.jobs.services.type_snapshots import type_snapshots
from apps.journal.admin import latest_moments
from apps.journal.models import Source

REASON_WORDS = {
    rules.RUNNING: _("running"),
    rules.FINISHED: pgettext_lazy("of jobs", "finished"),
    rules.NO_TYPE: _("no such type"),
    rules.ATTEMPTS_USED: _("no try left"),
    rules.EXPIRED: _("expired"),
    rules.SCHEDULED: _("not due"),
    rules.LIMITED: _("limit by key"),
    rules.PAUSED: _("paused"),
    rules.BREAKER_OPEN: _("breaker open"),
    rules.BREAKER_PROBING: _("breaker probing"),
    rules.MAX_RUNNING: _("limit of running jobs"),
    rules.RATE: _("limit per minute"),
    rules.NO_WORKER: _("no worker"),
    rules.HOST: _("hosts"),
    rules.AFFINITY: _("only on host"),
    rules.AHEAD: _("others first"),
    rules.NEXT: _("next"),
    rules.PREFERRED: _("preferred"),
}
MAX_FOLLOW_UPS = 20
MAX_SHOWN_HOSTS = 20
# Reasons that pass with time are warnings, the rest needs somebody to act.
_FINE = {rules.RUNNING, rules.NEXT, rules.PREFERRED}
_PASSING = {
    rules.SCHEDULED,
    rules.LIMITED,
    rules.BREAKER_OPEN,
    rules.BREAKER_PROBING,
    rules.MAX_RUNNING,
    rules.RATE,
    rules.AFFINITY,
    rules.AHEAD,
}


def above(
    job: AnyJob, visible: QuerySet[Any], *, log: Panel | None, shows_payload: bool
) -> list[Panel]:
    """How it stands, what went wrong, while it waits also why, its attempts, their log, what it
    carries and its way; `visible` are the jobs that the person sees."""
    found = head(job, visible)
    why = None
    if isinstance(job, Job) and job.status in transitions.WAITING:
        why = Panel(_("Why is it not running?"), _why_not(job, shows_payload), id="why")
    payload = job_fields.payload(job) if shows_payload else []
    panels = [found.summary, found.error, why, found.attempts, log, *payload, found.way]
    return [each for each in panels if each is not None]


def if_retried(job: Job) -> Panel | None:
    """The obstacles of the job if it were retried now, and its wait after a failure; None if it
    cannot be retried."""
    if not transitions.is_legal("retry", job.status):
        return None
    again, now = copy(job), clock.now()
    again.status, again.attempts, again.worker = transitions.READY, 0, ""
    again.run_at = again.expected_at = now
    again.order_key = action_effects.place_now(job, now)
    again.affinity_host, again.affinity_until = "", None
    reasons = explain(again)
    lines: list[object] = [
        format_html("{} <bdi>{}</bdi>", _word(reason), shown_text(translate(reason.detail)))
        for reason in reasons
    ]
    before = jobs_before(again)
    if before and rules.AHEAD not in {reason.code for reason in reasons}:
        words = gettext("%(before)s ready jobs of %(type)s are before it.")
        lines.append(words % {"before": labels.capped(before, rules.MAX_AHEAD), "type": job.type})
    type_ = type_snapshots([job.type]).get(job.type)
    if type_ is not None and job.max_attempts > 1:
        wait = duration_of(round(1000 * backoff_seconds(type_.backoff, 1, chance=0.5)))
        words = gettext("All %(max)d tries; after a failure it waits about %(time)s.")
        lines.append(words % {"max": job.max_attempts, "time": wait})
    return Panel(_("If you retry now"), bullets(lines))


def follow_up_panels(job: AnyJob, bounds: Bounds) -> list[Panel]:
    """The jobs within the bounds that it submitted with its end, if there are any."""
    found = follow_ups(job, bounds=bounds)
    if not found:
        return []
    lines = [
        {
            "job": each,
            "page": page_link(type(each), each.pk, str(each.pk)),
            "status": job_fields.status_label(each),
        }
        for each in found[:MAX_FOLLOW_UPS]
    ]
    left = len(found) - len(lines)
    further = gettext("and %d more") % left if left else ""
    html = render_to_string(
        "admin/includes/job_follow_ups.html", {"lines": lines, "further": further}
    )
    return [Panel(_("Submitted with its end"), html)]


def together_panels(job: AnyJob, visible: QuerySet[Any]) -> list[Panel]:
    """List the visible jobs that were submitted everywhere with it, each with its host."""
    if job.together is None:
        return []
    found = JobFilters.narrow(visible, JobFilters.read({"together": job.together}))
    lines = [
        format_html(
            "{} · <bdi>{}</bdi> · {}",
            page_link(type(each), each.pk, str(each.pk)),
            each.affinity_host or each.host or "–",
            job_fields.status_label(each),
        )
        for each in found.order_by("pk")[:MAX_SHOWN_HOSTS]
    ]
    url = list_url(type(job), together=job.together)
    return [Panel(_("Everywhere"), joined([bullets(lines), link(url, gettext("List them all"))]))]


def order_panel(job: Job) -> Panel:
    """The formula of the order with the numbers of this job, and how many jobs are before it."""
    weight = conf.JOB_PRIORITY_WEIGHT_MS
    base = labels.base_of(job, weight)
    before = jobs_before(job)
    context = {
        "base": None if base is None else shown_time(base),
        "base_ms": job.order_key - labels.lead(job, weight),
        "priority": job.priority,
        "weight_ms": weight,
        "earned": f"{'+' if job.priority < 0 else '−'} {abs(job.priority * weight)}",
        "attempts": job.attempts,
        "demotion": order.demotion_ms(job.attempts),
        "order_key": job.order_key,
        "score": labels.score_words(job.order_key) if job_fields.is_in_pool(job) else "",
        "is_strict": weight >= order.STRICT_MS,
        "is_ready": job.status == transitions.READY,
        "before": labels.capped(before, rules.MAX_AHEAD) if before else None,
        "type": job.type,
    }
    html = render_to_string("admin/includes/job_order.html", context)
    return Panel(_("Place in the order"), html)


def moments(job: AnyJob, *, user: Any, shows_payload: bool) -> list[Moment]:
    """The history of the job: its submission, the latest entries of the journal, and its move to
    the archive, of which the journal has one entry for many jobs."""
    submitted = Moment(
        at=job.created_at,
        text=gettext("Submitted"),
        icon="add_circle",
        actor=shown_actor(job.submitted_by),
    )
    latest = latest_moments(Source.JOB, job.pk, user=user, shows_payload=shows_payload)
    moments = [submitted, *latest]
    if job.archived_at:
        text = gettext("Moved to the older ones")
        moments.append(Moment(at=job.archived_at, text=text, icon="inventory_2"))
    return moments


class _Line(NamedTuple):
    word: SafeString
    detail: str
    until: SafeString | None


def _why_not(job: Job, shows_payload: bool) -> SafeString:
    """Every reason, with the time at which it may change."""
    now = clock.now()
    lines = [
        _Line(
            word=_word(reason),
            detail=_detail(reason, job, shows_payload),
            until=None if reason.until is None else labels.time_from_now(reason.until, now),
        )
        for reason in explain(job)
    ]
    return render_to_string("admin/includes/why_table.html", {"lines": lines})


def _detail(reason: Reason, job: Job, shows_payload: bool) -> str:
    text = shown_text(translate(reason.detail))
    url = _placed_url(job, shows_payload) if reason.code == rules.LIMITED else ""
    return link(url, text) if url else text


def _placed_url(job: Job, shows_payload: bool) -> str:
    """Where the jobs of its key that have a place are listed; "" when a list cannot show them to
    the person."""
    type_ = type_snapshots([job.type]).get(job.type)
    limit = None if type_ is None else type_.key_limit
    if limit is None or not (limit.is_column or shows_payload):
        return ""
    try:
        value = limit.value(key=job.key, user_id=job.user_id, context=job.context)
        where = None if limit.is_column else json_path.read(f"{limit.by}:{value}", ("context",))
    except ValueError:
        # The path leads elsewhere by now, or the value is too long to be searched for.
        return ""
    if not value or (where is not None and why_masked(where) is not None):
        return ""
    name = {KEY: "key", USER: "user"}.get(limit.by, "where")
    given = {"type": job.type, "status": ",".join(transitions.PLACED), name: str(where or value)}
    return list_url(Job, **given)


def _word(reason: Reason) -> SafeString:
    return label(REASON_WORDS[reason.code], _colour(reason.code))


def _colour(code: str) -> str:
    if code in _FINE:
        return "success"
    return "warning" if code in _PASSING else "danger"
