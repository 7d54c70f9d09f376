"""The effect of an operator's action on a locked job: the arrow of rules/transitions that the job
takes, the columns that change and the line in the journal.

This module writes nothing: services/control.py takes the arrows. Conflict when the state of the job
does not allow the action.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any, NamedTuple

from apps.common.errors import Conflict, FieldError, Invalid
from apps.common.json.schema import check_params
from apps.common.json_rules import check_size, is_same
from apps.common.messages import Message, joined
from apps.common.messages import Message as _
from apps.jobs.conf import conf
from apps.jobs.handlers import registry
from apps.jobs.models import AnyJob, Job
from apps.jobs.rules import reasons
from apps.jobs.rules import transitions as t
from apps.jobs.rules.key_limit import NoValue
from apps.jobs.rules.order import HIGHEST_PRIORITY, LOWEST_PRIORITY, order_key
from apps.jobs.rules.submission import (
    Submitted,
    context_faults,
    instant_faults,
    number_faults,
    unique_key,
)
from apps.jobs.rules.type_snapshot import ALWAYS, RANGES
from apps.jobs.services.move import attempt_facts, require_arrow
from apps.jobs.services.type_snapshots import is_closed, type_snapshots
from apps.journal.services.undo import UNDONE

EDITABLE = ("run_at", "priority", "max_attempts", "context", "affinity_host")
_OF_CODE = _(
    "Code decides what the jobs of {type} do; cancel this one if it should do something else."
)


class ActionEffect(NamedTuple):
    """An arrow with the columns that it changes, beside those that a new status sets by itself;
    `facts` are further fields of the entry."""

    arrow: str
    changes: Mapping[str, Any]
    event: str
    facts: Mapping[str, Any] = {}


def cancel(job: Job, now: datetime, *, force: bool = False) -> ActionEffect | None:
    """Cancel a waiting job. Request it of a running one, unless `force`; None if that was done
    before."""
    if job.status in t.FINAL:
        raise Conflict(
            _(
                "Job {number} is {status}; only an open job can be cancelled.",
                number=job.pk,
                status=Message(job.status),
            )
        )
    if job.status != t.RUNNING:
        return ActionEffect("cancel", {"status": t.CANCELLED}, "cancelled")
    if not force:
        if job.cancel_requested:
            return None
        return ActionEffect("request_cancel", {"cancel_requested": True}, "cancel_requested")
    changes = {"status": t.CANCELLED, "last_end": t.END_CANCELLED, "lease_token": ""}
    # This ends an attempt, so the entry has what every end of an attempt has.
    held_at = job.held_at or now
    data = {"held_at": held_at.isoformat(), "hold": job.holds, "forced": True}
    return ActionEffect(
        "force_cancel", changes, "cancelled", {**attempt_facts(job, now), "data": data}
    )


def retry(
    job: Job,
    now: datetime,
    *,
    twins: Mapping[str, Submitted],
    host: str = "",
    keep_time: bool = False,
    context: Mapping[str, Any] | None = None,
) -> ActionEffect:
    """With `host` only there, else one of everywhere where it has run; with `keep_time` a cancelled
    job waits again until it was due; with a `context` it is another one, as by an edit. Conflict
    when one of the `twins` has its unique key."""
    require_arrow(job, "retry")
    if host:
        require_served(job, host)
    waits = keep_time and job.status == t.CANCELLED and job.run_at > now
    run_at = job.run_at if waits else now
    changes: dict[str, Any] = {
        "status": t.SCHEDULED if waits else t.READY,
        "attempts": 0,
        "run_at": run_at,
        "expected_at": run_at,
        "order_key": place_now(job, run_at),
        "finished_at": None,
        "cancel_requested": False,
        "progress": None,
        "result": None,
        "affinity_host": host or ("" if job.together is None else job.host),
        "affinity_until": None,
        "limit_id": limit_id_of(job, context),
    }
    changes |= _kept_key(job, twins)
    data: dict[str, Any] = {"host": host} if host else {}
    if context is not None and not is_same(context, job.context):
        _check_context(job, context)
        changes["context"] = context
        data |= {"before": {"context": job.context}, "after": {"context": context}}
    arrow = "take_back" if waits else "retry"
    return ActionEffect(arrow, changes, "retried", {"data": data} if data else {})


def undo(job: Job, was: Mapping[str, Any], *, twins: Mapping[str, Submitted]) -> ActionEffect:
    """Give the columns back the values that they had. Conflict when one of the open `twins` has
    the unique key that the job had."""
    require_arrow(job, "undo")
    field: Any = Job._meta.get_field
    changes = {name: field(name).to_python(value) for name, value in was.items()}
    if job.status in t.FINAL and changes["status"] in t.OPEN:
        changes |= _kept_key(job, twins)
    elif changes.get("unique_key"):
        _require_no_twin(job, changes["unique_key"], twins)
    return ActionEffect("undo", changes, UNDONE)


def becomes_unique(job: AnyJob) -> bool:
    """Whether the job keeps others with its key out once it is open: also one that was submitted
    before its type asked for that. A part of something above never stands in for another."""
    if job.is_unique or not job.key or job.part_of is not None:
        return job.is_unique
    type_ = type_snapshots([job.type]).get(job.type)
    return type_ is not None and type_.unique == ALWAYS


def _kept_key(job: Job, twins: Mapping[str, Submitted]) -> dict[str, Any]:
    """The columns by which an ended job that opens again keeps its key; Conflict when one of the
    `twins` has it."""
    if not becomes_unique(job):
        return {}
    key = unique_key(job.type, job.key)
    _require_no_twin(job, key, twins)
    return {"unique_key": key} if job.is_unique else {"unique_key": key, "is_unique": True}


def _require_no_twin(job: Job, key: str, twins: Mapping[str, Submitted]) -> None:
    if (twin := twins.get(key)) and twin.id != job.pk:
        if twin.status in t.FINAL:
            raise Conflict(
                _(
                    "Job {number}, of type {type}, has ended and keeps its key {key} for a while; "
                    "retry that one, or wait.",
                    number=twin.id,
                    type=job.type,
                    key=job.key,
                )
            )
        raise Conflict(
            _(
                "Job {number}, of type {type} and with the key {key} as well, is open; cancel "
                "that one or let it end.",
                number=twin.id,
                type=job.type,
                key=job.key,
            )
        )


def run_now(job: Job, now: datetime) -> ActionEffect:
    """Make the job ready now. A ready job keeps its place if it is the better one."""
    require_arrow(job, "run_now")
    changes = {
        "status": t.READY,
        "run_at": min(now, job.run_at),
        "expected_at": now,
        "order_key": min(job.order_key, place_now(job, now)),
    }
    return ActionEffect("run_now", changes, "run_now")


def mark_done(job: Job) -> ActionEffect:
    """Mark the job as succeeded."""
    require_arrow(job, "mark_done")
    return ActionEffect("mark_done", {"status": t.SUCCEEDED, "error_key": ""}, "marked_done")


def edit(job: Job, now: datetime, changes: Mapping[str, Any]) -> ActionEffect | None:
    """Change the job; None when all values are equal. Without an attempt left the job ends as
    failed."""
    require_arrow(job, "edit")
    _check_edit(job, changes, now)
    return edited(job, now, changes)


def edited(job: Job, now: datetime, changes: Mapping[str, Any]) -> ActionEffect | None:
    """As `edit`, of changes that were checked."""
    before = {name: getattr(job, name) for name in changes}
    changed = {n: value for n, value in changes.items() if not is_same(value, before[n])}
    if not changed:
        return None
    facts = {
        "data": {
            "before": {name: _wire(before[name]) for name in changed},
            "after": {name: _wire(value) for name, value in changed.items()},
        }
    }
    limit = changed.get("max_attempts", job.max_attempts)
    if limit <= job.attempts:
        memo = reasons.ATTEMPTS_USED.format(used=job.attempts, max=limit)
        return ActionEffect(
            "discard", {**changed, "status": t.FAILED, "memo": memo}, "edited", facts
        )
    if "run_at" in changed:
        changed["run_at"] = changed["expected_at"] = max(changed["run_at"], now)
        changed["status"] = t.SCHEDULED if changed["run_at"] > now else t.READY
    if not changed.keys().isdisjoint({"run_at", "priority"}):
        changed["order_key"] = _place(
            job,
            changed.get("run_at", job.run_at),
            changed.get("priority", job.priority),
            job.attempts,
        )
    if "affinity_host" in changed:
        changed["affinity_until"] = None
    if "context" in changed:
        changed["limit_id"] = limit_id_of(job, changed["context"])
    return ActionEffect("edit", changed, "edited", facts)


def limit_id_of(job: AnyJob, context: Mapping[str, Any] | None = None) -> int | None:
    """The number of the key that the job counts for, with its context or another one, by its type
    as it is now."""
    type_ = type_snapshots([job.type]).get(job.type)
    if type_ is None or type_.key_limit is None:
        return None
    if context is None:
        # It may be left out of what was read of many jobs.
        context = {} if type_.key_limit.is_column else job.context
    try:
        return type_.limit_id(key=job.key, user_id=job.user_id, context=context)
    except NoValue as error:
        raise Invalid.field("context", error.args[0]) from error


def place_now(job: Job, now: datetime) -> int:
    """The place in the order that the job gets when it is run or retried at that moment."""
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
        _check_context(job, changes["context"])
    if changes.get("affinity_host"):
        require_served(job, changes["affinity_host"], field="affinity_host")


def _check_context(job: Job, context: Any) -> None:
    for fault in context_faults(context):
        raise Invalid.field(fault.field, fault.message)
    type_ = type_snapshots([job.type]).get(job.type)
    further = type_ is not None and registry.reaches_further(type_.handler)
    if (further or is_closed(job.type)) and not is_same(context, job.context):
        raise Invalid.field("context", Message(_OF_CODE, type=job.type))
    check_size(context, field="context")
    check_params((type_ and type_.params_schema) or None, context, field="context")


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


def require_served(job: Job, host: str, *, field: str = "host") -> None:
    """Invalid unless the type of the job allows the host."""
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
