"""What operators do to a job. Each takes one arrow of rules/transitions, by services/move.py."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any

from apps.common import clock
from apps.common.db import transactional
from apps.common.errors import Conflict, FieldError, Invalid, NotFound
from apps.common.json_rules import check_size, is_same
from apps.common.json_schema import check_params
from apps.common.messages import Message, joined
from apps.common.messages import Message as _
from apps.jobs import wakeup
from apps.jobs.conf import conf
from apps.jobs.errors import Archived
from apps.jobs.models import AnyJob, ArchivedJob, Job, Worker
from apps.jobs.rules import transitions as t
from apps.jobs.rules.order import HIGHEST_PRIORITY, LOWEST_PRIORITY, order_key
from apps.jobs.rules.submission import (
    context_faults,
    instant_faults,
    is_key,
    number_faults,
    unique_key,
)
from apps.jobs.rules.type_settings import MAX_HOST
from apps.jobs.rules.type_snapshot import RANGES
from apps.jobs.services.archive import restore
from apps.jobs.services.move import attempt_facts, entry_of, move, require_arrow
from apps.jobs.services.submit import open_twins
from apps.jobs.services.type_snapshots import type_snapshots

MAX_NAMED = 100
EDITABLE = ("run_at", "priority", "max_attempts", "context", "affinity_host")
_ENDED: Mapping[str, Any] = {"unique_key": None, "affinity_host": "", "affinity_until": None}


@transactional
def cancel(*, job: AnyJob, actor: str, reason: str, force: bool = False) -> Job:
    """Cancel a job: a waiting one at once, a running one when its handler stops.

    With `force` a running one is cancelled now and its lease is lost, so its result is refused.
    A second request for a running job changes nothing.
    """
    now, current = clock.now(), _locked(job)
    if current.status in t.FINAL:
        raise Conflict(
            _(
                "Job {number} is {status}; only an open job can be cancelled.",
                number=current.pk,
                status=Message(current.status),
            )
        )
    if current.status != t.RUNNING:
        changes = {"status": t.CANCELLED, "finished_at": now, **_ENDED}
        return _take(current, "cancel", changes, "cancelled", now, actor, reason)
    if not force:
        if not current.cancel_requested:
            changes = {"cancel_requested": True}
            _take(current, "request_cancel", changes, "cancel_requested", now, actor, reason)
        return current
    changes = {
        "status": t.CANCELLED,
        "finished_at": now,
        "last_end": t.END_CANCELLED,
        "lease_token": "",
        "lease_until": None,
        "hard_end_at": None,
        "cancel_requested": False,
        **_ENDED,
    }
    # This ends an attempt, so the entry has what every end of an attempt has.
    held_at = current.held_at or now
    data = {"held_at": held_at.isoformat(), "hold": current.holds, "forced": True}
    facts = {**attempt_facts(current, now), "data": data}
    return _take(current, "force_cancel", changes, "cancelled", now, actor, reason, **facts)


@transactional
def retry(*, job: AnyJob, actor: str, reason: str, host: str = "") -> Job:
    """Run a finished job again from its last checkpoint; its attempts start at 0.

    With `host` only a worker on this host takes it; a worker must be registered there.
    Conflict while a unique twin is open. One in the archive comes back from there.
    """
    now = clock.now()
    # It may go to the archive after the first look, and somebody else may bring it back.
    current = _live(job) or restore(job.pk, actor=actor, reason=reason, now=now) or _locked(job)
    if host:
        _check_host(current, host)
    changes: dict[str, Any] = {
        "status": t.READY,
        "attempts": 0,
        "run_at": now,
        "expected_at": now,
        "order_key": place_now(current, now),
        "finished_at": None,
        "cancel_requested": False,
        "progress": None,
        "result": None,
        "affinity_host": host,
        "affinity_until": None,
    }
    if current.is_unique and t.is_legal("retry", current.status):
        changes["unique_key"] = unique_key(current.type, current.key)
        if twin := open_twins([changes["unique_key"]]).get(changes["unique_key"]):
            raise Conflict(
                _(
                    "Job {number}, of type {type} and with the key {key} as well, is open; cancel "
                    "that one or let it end.",
                    number=twin.id,
                    type=current.type,
                    key=current.key,
                )
            )
    facts = {"data": {"host": host}} if host else {}
    _take(current, "retry", changes, "retried", now, actor, reason, **facts)
    wakeup.announce()
    return current


@transactional
def run_now(*, job: AnyJob, actor: str, reason: str) -> Job:
    """Make a waiting job ready now; a ready one keeps its place.

    Its expiry counts from now.
    """
    now, current = clock.now(), _locked(job)
    changes = {
        "status": t.READY,
        "run_at": min(now, current.run_at),
        "expected_at": now,
        "order_key": min(current.order_key, place_now(current, now)),
    }
    _take(current, "run_now", changes, "run_now", now, actor, reason)
    wakeup.announce()
    return current


@transactional
def mark_done(*, job: AnyJob, actor: str, reason: str) -> Job:
    """Mark a job as succeeded that was done elsewhere or is not needed."""
    now, current = clock.now(), _locked(job)
    changes = {"status": t.SUCCEEDED, "finished_at": now, "error_key": "", **_ENDED}
    return _take(current, "mark_done", changes, "marked_done", now, actor, reason)


@transactional
def edit(*, job: AnyJob, version: int, changes: Mapping[str, Any], actor: str, reason: str) -> Job:
    """Change a waiting job: run_at, priority, max_attempts, context, affinity_host.

    A job without an attempt left by its new maximum ends as failed. Conflict when the version is no
    longer current; equal values change nothing.
    """
    now, current = clock.now(), _locked(job)
    if current.version != version:
        raise Conflict(
            _(
                "Job {number} was changed since you read it (version {version}, now {current}); "
                "read it again and repeat your change.",
                number=current.pk,
                version=version,
                current=current.version,
            )
        )
    require_arrow(current, "edit")
    _check_edit(current, changes, now)
    before = {name: getattr(current, name) for name in EDITABLE}
    changed = {n: value for n, value in changes.items() if not is_same(value, before[n])}
    if not changed:
        return current
    facts = {
        "data": {
            "before": {name: _wire(before[name]) for name in changed},
            "after": {name: _wire(value) for name, value in changed.items()},
        }
    }
    limit = changed.get("max_attempts", current.max_attempts)
    if limit <= current.attempts:
        changed |= {"status": t.FAILED, "finished_at": now, **_ENDED}
        changed["memo"] = f"{current.attempts} of {limit} attempts are used"
        return _take(current, "discard", changed, "edited", now, actor, reason, **facts)
    if "run_at" in changed:
        changed["run_at"] = changed["expected_at"] = max(changed["run_at"], now)
        changed["status"] = t.SCHEDULED if changed["run_at"] > now else t.READY
    if not changed.keys().isdisjoint({"run_at", "priority"}):
        changed["order_key"] = _place(
            current,
            changed.get("run_at", current.run_at),
            changed.get("priority", current.priority),
            current.attempts,
        )
    if "affinity_host" in changed:
        changed["affinity_until"] = None
    _take(current, "edit", changed, "edited", now, actor, reason, **facts)
    wakeup.announce()
    return current


# --- the steps ----------------------------------------------------------------------------------
def _live(job: AnyJob) -> Job | None:
    """The row of the live table, locked until this transaction ends."""
    return Job.objects.select_for_update().filter(pk=job.pk).first()


def _locked(job: AnyJob) -> Job:
    """As `_live`; Archived when it is in the archive, NotFound when it is nowhere."""
    current = _live(job)
    if current is None:
        if ArchivedJob.objects.filter(pk=job.pk).exists():
            raise Archived(
                _(
                    "Job {number} ended long ago and is in the archive; a retry brings it back.",
                    number=job.pk,
                )
            )
        raise NotFound(_("There is no job {number} any more.", number=job.pk))
    return current


def _take(
    job: Job,
    arrow: str,
    changes: Mapping[str, Any],
    event: str,
    now: datetime,
    actor: str,
    reason: str,
    **facts: Any,
) -> Job:
    """Take the arrow and bring the object up to date."""
    require_arrow(job, arrow)
    if not reason.strip():
        raise Invalid.field("reason", _("Say why; the job's timeline shows it."))
    target = changes.get("status", job.status)
    entry = entry_of(job, event, target, now, actor=actor, reason=reason, **facts)
    move([(arrow, job, changes, entry)])
    for name, value in changes.items():
        setattr(job, name, value)
    job.version += 1
    return job


def place_now(job: Job, now: datetime) -> int:
    """The place in the order that the job gets when it is run or retried now."""
    return _place(job, now, job.priority, 0)


def _place(job: Job, base: datetime, priority: int, attempts: int) -> int:
    type_ = type_snapshots([job.type]).get(job.type)
    if type_ is not None and type_.pool:
        # Its score.
        return job.order_key
    return order_key(
        base, priority=priority, attempts=attempts, weight_ms=conf.JOB_PRIORITY_WEIGHT_MS
    )


def _check_edit(job: Job, changes: Mapping[str, Any], now: datetime) -> None:
    errors = list(edit_faults(changes, now))
    if errors:
        raise Invalid(joined(error.message for error in errors), errors=errors)
    if "context" in changes:
        check_size(changes["context"], field="context")
        type_ = type_snapshots([job.type]).get(job.type)
        check_params((type_ and type_.params_schema) or None, changes["context"], field="context")
    if changes.get("affinity_host"):
        _check_host(job, changes["affinity_host"], field="affinity_host")


def edit_faults(changes: Mapping[str, Any], now: datetime) -> Iterator[FieldError]:
    """The errors of the changes that do not depend on the job."""
    for name in sorted(changes.keys() - set(EDITABLE)):
        yield FieldError(name, "invalid", _("{name} of a job cannot be changed.", name=name))
    if "run_at" in changes:
        yield from instant_faults("run_at", changes["run_at"], now)
    if "priority" in changes:
        yield from number_faults("priority", changes["priority"], LOWEST_PRIORITY, HIGHEST_PRIORITY)
    if "max_attempts" in changes:
        yield from number_faults("max_attempts", changes["max_attempts"], *RANGES["max_attempts"])
    if "context" in changes:
        yield from context_faults(changes["context"])


def _check_host(job: Job, host: str, *, field: str = "host") -> None:
    """Invalid unless a worker is registered on the host and the type allows it."""
    registered = Worker.objects.exclude(state=Worker.State.GONE).order_by()
    # MariaDB and MySQL ignore trailing blanks.
    if not (is_key(host, MAX_HOST) and registered.filter(host=host).exists()):
        known = sorted(registered.values_list("host", flat=True).distinct()[:MAX_NAMED])
        raise Invalid.field(
            field,
            _(
                "No worker is registered on a host {host!r}; choose one of: {known}.",
                host=host[:60],
                known=", ".join(known) or _("none is registered"),
            ),
        )
    type_ = type_snapshots([job.type]).get(job.type)
    if type_ is not None and not type_.serves(host):
        raise Invalid.field(
            field,
            _(
                "Jobs of type {type} run on these hosts only: {hosts}.",
                type=job.type,
                hosts=", ".join(type_.allowed_hosts),
            ),
        )


def _wire(value: Any) -> Any:
    return value.isoformat() if isinstance(value, datetime) else value
