"""How pages show states of jobs, their order, and times relative to now."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from typing import NamedTuple

from django.utils.safestring import SafeString
from django.utils.translation import gettext, pgettext
from django.utils.translation import gettext_lazy as _

from apps.common import clock
from apps.common.admin.display import duration_of, moment_time
from apps.common.admin.html import noted
from apps.jobs.models import AnyJob, Job
from apps.jobs.rules import order
from apps.jobs.rules import transitions as t
from apps.jobs.rules.order import score_of
from apps.jobs.rules.type_snapshot import TypeSnapshot
from apps.jobs.services.counts import starving

STATUS_COLOURS: dict[str, str] = {
    Job.Status.SCHEDULED: "warning",
    Job.Status.BLOCKED: "warning",
    Job.Status.READY: "primary",
    Job.Status.RUNNING: "info",
    Job.Status.SUCCEEDED: "success",
    Job.Status.FAILED: "danger",
}
# The words for the actions of operators, by the arrow's name.
ARROW_WORDS = {
    "promote": _("becomes due"),
    "block": _("due, but its key has no place"),
    "admit": _("its key has a place"),
    "hold": _("held by a worker"),
    "succeed": _("succeeds"),
    "fail": _("fails"),
    "stage_done": _("stage done"),
    "release": _("given back"),
    "yield": _("put off by its worker"),
    "end_cancelled": _("ends as cancelled"),
    "rescue": _("rescued from an offline worker"),
    "discard": _("out of tries"),
    "cancel": _("cancel"),
    "request_cancel": _("ask it to stop"),
    "force_cancel": _("cancel by force"),
    "mark_done": _("mark done"),
    "retry": _("retry"),
    "take_back": _("take back"),
    "run_now": _("run now"),
    "edit": _("edit"),
}


def relative(instant: datetime, now: datetime) -> str:
    """`in 3 min 20 s`, `12 s ago`."""
    milliseconds = (instant - now) // timedelta(milliseconds=1)
    if milliseconds > 0:
        return gettext("in %s") % _rough(milliseconds)
    return gettext("%s ago") % _rough(-milliseconds)


def age(since: datetime, now: datetime) -> str:
    """How long ago, at most two units of it."""
    return _rough(max(0, (now - since) // timedelta(milliseconds=1)))


def took(job: AnyJob, now: datetime) -> str:
    """How long the present try of a running job takes up to now, else how long the try took that
    ended the job; "" where none did."""
    if job.held_at is None:
        return ""
    if job.status == t.RUNNING:
        return age(job.held_at, now)
    # One that waits after a try is due later; one marked as done ends otherwise than its try.
    ended_by_it = job.run_at <= job.held_at and job.status in (t.FAILED, job.last_end)
    if job.finished_at is None or not ended_by_it:
        return ""
    return duration_of((job.finished_at - job.held_at) // timedelta(milliseconds=1))


def _rough(milliseconds: int) -> str:
    # Tenths of a second would change with every reload.
    return duration_of(milliseconds // 1000 * 1000)


def time_from_now(instant: datetime, now: datetime) -> SafeString:
    """The instant, and below it how far that is from now."""
    return noted(moment_time(instant), relative(instant, now))


def score_words(order_key: int) -> str:
    """The score of a job of a pool."""
    return gettext("score %s") % score_of(order_key)


def lead(job: Job, weight_ms: int) -> int:
    """The milliseconds by which the job counts as older (-) or younger (+) than it is."""
    return order.demotion_ms(job.attempts) - job.priority * weight_ms


def lead_words(job: Job, weight_ms: int) -> str:
    """`5 min 0 s ahead`: what priority and failures make of the order among jobs of a type."""
    if weight_ms >= order.STRICT_MS:
        return gettext("priority %d") % job.priority
    milliseconds = lead(job, weight_ms)
    if not milliseconds:
        return pgettext("order", "by age")
    if milliseconds < 0:
        return gettext("%s ahead") % _rough(-milliseconds)
    return gettext("%s behind") % _rough(milliseconds)


def base_of(job: Job, weight_ms: int) -> datetime | None:
    """The instant since which the job counts as waiting, None when the number holds none."""
    milliseconds = job.order_key - lead(job, weight_ms)
    try:
        return datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=milliseconds)
    except OverflowError:
        return None


class WaitingTooLong(NamedTuple):
    type: str
    wait: str


def waiting_too_long(types: Iterable[TypeSnapshot] | None = None) -> list[WaitingTooLong]:
    """The starving types among these (None: all), each with the wait of its next job."""
    now = clock.now()
    return [WaitingTooLong(each.type, age(each.since, now)) for each in starving(now, types)]


def capped(count: int, limit: int) -> str:
    """`37`, or `1,000+` when counting stopped there."""
    return f"{count:,}" if count < limit else f"{limit:,}+"
