"""Starting, stopping and continuing bulk runs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from django.db import IntegrityError, transaction

from apps.bulk.conf import conf
from apps.bulk.models import BulkRun
from apps.bulk.rules.settings import MAX_RATE, MAX_REASON, RATE, TYPE, TYPE_SETTINGS
from apps.bulk.services import starter
from apps.bulk.services.selection import Selection
from apps.bulk.services.targets import check, params_json
from apps.common import clock
from apps.common.db import transactional
from apps.common.errors import Conflict, Invalid, ReplayConflict
from apps.common.messages import Message as _
from apps.common.texts import begin_of
from apps.jobs.models import Bounds
from apps.jobs.rules import transitions
from apps.jobs.services import control, find
from apps.jobs.services.submit import submit
from apps.jobs.services.types import ensure_types
from apps.journal import services as journal
from apps.journal.models import Source

STARTED, STOPPED, CONTINUED = "bulk_started", "bulk_stopped", "bulk_continued"
_SAME = ("kind", "verb", "params", "filter", "at_most", "rate", "actor")
# The letters that the column takes.
_MAX_REQUEST = 128


def start(
    *,
    selection: Selection,
    verb: str,
    params: Mapping[str, Any],
    at_most: int | None,
    actor: str,
    reason: str,
    bounds: Bounds,
    rate: int = RATE,
    request_id: str | None = None,
    known: int | None = None,
) -> BulkRun:
    """Make the run and its job. A repeat with the same `request_id` gets the first of the actor.

    `at_most` None takes however many; `known` is how many rows match now, where that is known.
    Invalid names each wrong field.
    """
    target, now = selection.target, clock.now()
    check(target, verb, params, now)
    if not reason.strip():
        raise Invalid.field("reason", _("Say why; the journal keeps it beside your name."))
    if not 1 <= rate <= MAX_RATE:
        text = _("{rate} is no rate; write 1 to {most} rows per second.", rate=rate, most=MAX_RATE)
        raise Invalid.field("rate", text)
    ensure_types([TYPE], {TYPE: TYPE_SETTINGS}, actor="system")
    newest = target.model._default_manager.order_by("-pk").values_list("pk", flat=True).first() or 0
    unique = _of_actor(actor, request_id)
    # A repeat gets the run of the first request, whatever matches by now.
    if unique is None or not BulkRun.objects.filter(request_id=unique).exists():
        require_room(at_most, known)
    run = BulkRun(
        request_id=unique,  # type: ignore[misc]
        kind=target.kind,
        verb=verb,
        params=params_json(params),
        filter=selection.wire(),
        below=newest + 1,
        at_most=at_most,
        rate=rate,
        reason=begin_of(reason.strip(), MAX_REASON),
        actor=actor,
        bound=starter.wire(bounds),
        created_at=now,
    )
    try:
        return _begin(run)
    except IntegrityError:
        if request_id is None:
            raise
        first = BulkRun.objects.get(request_id=run.request_id)
    if any(getattr(first, name) != getattr(run, name) for name in _SAME):
        text = _("Request {id} has started another run; use a new request_id.", id=request_id)
        raise ReplayConflict(text)
    return first


def require_room(at_most: int | None, known: int | None) -> None:
    """Invalid when more rows match than there may be, as far as either is known."""
    if at_most is None or known is None or known <= at_most:
        return
    text = _("{count} rows match. Write {count} or more, or narrow the filter.", count=known)
    raise Invalid.field("at_most", text)


def _of_actor(actor: str, request_id: str | None) -> str | None:
    """The request id after its actor, as others may choose the same; the end of a long one."""
    return f"{actor}:{request_id}"[-_MAX_REQUEST:] if request_id else None


@transactional
def _begin(run: BulkRun) -> BulkRun:
    run.pk = None
    with transaction.atomic():
        run.save(force_insert=True)
    made = submit(TYPE, {"run": run.pk}, key=f"bulk:{run.pk}", by=run.actor)
    run.job = made.id
    run.save(update_fields=["job"])
    _write_entry(run, STARTED, run.actor, run.reason)
    return run


@transactional
def stop(*, run: BulkRun, actor: str, reason: str) -> BulkRun:
    """Change no further rows; Conflict when the run is not under way."""
    run = locked(run.pk)
    if not run.is_under_way:
        raise Conflict(_("Bulk run {number} is not under way.", number=run.pk))
    run.state = BulkRun.State.STOPPED
    run.save(update_fields=["state"])
    job = find.find(run.job or 0)
    if job is not None and job.status in transitions.OPEN:
        control.cancel(job=job, actor=actor, reason=reason)
    _write_entry(run, STOPPED, actor, reason)
    return run


@transactional
def resume(*, run: BulkRun, actor: str, reason: str) -> BulkRun:
    """Go on with the remaining rows; Conflict when the run has ended or is still stopping."""
    run = locked(run.pk)
    if run.state in (BulkRun.State.DONE, BulkRun.State.FAILED):
        raise Conflict(_("Bulk run {number} has ended; start a new one.", number=run.pk))
    job = find.find_job(run.job or 0)
    if job.status not in transitions.FINAL:
        raise Conflict(
            _("Bulk run {number} is under way or still stopping; wait a moment.", number=run.pk)
        )
    if is_old(run):
        text = _("Bulk run {number} is too old, its rows are gone; start a new one.", number=run.pk)
        raise Conflict(text)
    run.state = BulkRun.State.ACTING if run.below is None else BulkRun.State.COLLECTING
    run.why, run.ended_at = "", None
    run.save(update_fields=["state", "why", "ended_at"])
    control.retry(job=job, actor=actor, reason=reason)
    _write_entry(run, CONTINUED, actor, reason)
    return run


def is_stalled(run: BulkRun) -> bool:
    """Whether its job has ended although rows are left."""
    if not run.is_under_way:
        return False
    job = find.find(run.job or 0)
    if job is not None and job.status not in transitions.FINAL:
        return False
    # It may have ended after the run was read: then the run has, too.
    run.refresh_from_db()
    return run.is_under_way


def is_old(run: BulkRun) -> bool:
    """Whether its rows are removed once nothing goes on."""
    return run.created_at < clock.now() - conf.BULK_ROWS_KEPT


def locked(number: int) -> BulkRun:
    """The run, locked until the transaction ends."""
    run: BulkRun = BulkRun.objects.select_for_update().get(pk=number)
    return run


def _write_entry(run: BulkRun, event: str, actor: str, reason: str) -> None:
    entry = journal.Entry(
        at=clock.now(),
        source=Source.PLAN,
        subject_id=run.pk,
        event=event,
        type_or_task=f"bulk:{run.pk}",
        actor=actor,
        reason=reason,
        data={"action": f"{run.kind} {run.verb}", "rows": run.collected},
    )
    journal.write([entry])
