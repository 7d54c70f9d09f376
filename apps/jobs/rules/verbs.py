"""What is done to many jobs at once, and why a job in some state is left out."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime, timedelta
from typing import Any

from apps.common.errors import FieldError
from apps.common.messages import Message
from apps.common.messages import Message as _
from apps.common.readers import is_key
from apps.jobs.rules import transitions as t
from apps.jobs.rules.order import HIGHEST_PRIORITY, LOWEST_PRIORITY
from apps.jobs.rules.submission import instant_faults, number_faults
from apps.jobs.rules.type_settings import MAX_HOST
from apps.jobs.rules.type_snapshot import RANGES

CANCEL, RETRY, RUN_NOW, MARK_DONE = "cancel", "retry", "run_now", "mark_done"
PRIORITY, TIME, MAX_ATTEMPTS, MOVE = "priority", "time", "max_attempts", "move"
# The longest way that one run moves jobs in time, or spreads them over.
MAX_SHIFT_SECONDS = 366 * 86_400

# The fields of each verb; of TIME either a shift, or an instant, a length to spread over, or both.
PARAMS: Mapping[str, tuple[str, ...]] = {
    CANCEL: (),
    RETRY: ("succeeded", "keep_time"),
    RUN_NOW: (),
    PRIORITY: ("priority",),
    TIME: ("run_at", "shift_seconds", "spread_seconds"),
    MAX_ATTEMPTS: ("max_attempts",),
    MOVE: ("host",),
    MARK_DONE: (),
}
# The columns by which `why_not` decides, beside the state.
FACTS: Mapping[str, tuple[str, ...]] = {
    PRIORITY: ("priority",),
    RETRY: ("run_at",),
    TIME: ("run_at",),
    MAX_ATTEMPTS: ("attempts", "max_attempts"),
    MOVE: ("affinity_host",),
}
_ARROWS = {CANCEL: "cancel", RETRY: "retry", RUN_NOW: "run_now", MARK_DONE: "mark_done"}
_BECOMES = {CANCEL: t.CANCELLED, RETRY: t.READY, RUN_NOW: t.READY, MARK_DONE: t.SUCCEEDED}


# The number that a verb needs, and its bounds.
_NUMBERS: Mapping[str, tuple[str, float, float]] = {
    PRIORITY: ("priority", LOWEST_PRIORITY, HIGHEST_PRIORITY),
    MAX_ATTEMPTS: ("max_attempts", *RANGES["max_attempts"]),
}


def facts_of(verb: str) -> tuple[str, ...]:
    """The columns of a job that `why_not` and `changes` need."""
    return ("status", "cancel_requested", *FACTS.get(verb, ()))


def needed(verb: str, params: Mapping[str, Any]) -> tuple[str, ...]:
    """The fields that must be given."""
    if verb == TIME:
        return () if any(name in params for name in PARAMS[TIME]) else PARAMS[TIME]
    return () if verb == RETRY else PARAMS[verb]


def faults(verb: str, params: Mapping[str, Any], now: datetime) -> Iterator[FieldError]:
    """What is wrong with the fields of the verb."""
    for name in sorted(params.keys() - {*PARAMS[verb]}):
        yield FieldError(name, "unknown_field", _("{verb} takes no {name}.", verb=verb, name=name))
    if verb in _NUMBERS:
        name, lowest, highest = _NUMBERS[verb]
        if params.get(name) is None:
            text = _("Write a whole number from {min} to {max}.", min=lowest, max=highest)
            yield FieldError(name, "invalid", text)
        else:
            yield from number_faults(name, params[name], lowest, highest)
    if verb == TIME:
        yield from _time_faults(params, now)
    if verb == MOVE:
        yield from _host_faults(params)
    for name in PARAMS[RETRY] if verb == RETRY else ():
        if not isinstance(params.get(name, False), bool):
            yield FieldError(name, "invalid", _("Write true or false."))


def _time_faults(params: Mapping[str, Any], now: datetime) -> Iterator[FieldError]:
    run_at, shift, spread = (params.get(name) for name in PARAMS[TIME])
    is_set = run_at is not None or spread is not None
    if is_set == (shift is not None):
        text = _("Give a time, how long to spread over, or both; or else how far to shift.")
        yield FieldError("run_at", "invalid", text)
        return
    if run_at is not None:
        yield from instant_faults("run_at", run_at, now)
    if spread is not None:
        yield from number_faults("spread_seconds", spread, 1, MAX_SHIFT_SECONDS)
    if shift == 0:
        text = _(
            "{text!r} is out of range; shift by one second to {limit} days.",
            text="0",
            limit=MAX_SHIFT_SECONDS // 86_400,
        )
        yield FieldError("shift_seconds", "invalid", text)
    elif shift is not None:
        yield from number_faults("shift_seconds", shift, -MAX_SHIFT_SECONDS, MAX_SHIFT_SECONDS)


def _host_faults(params: Mapping[str, Any]) -> Iterator[FieldError]:
    host = params.get("host")
    if not isinstance(host, str) or (host and not is_key(host, MAX_HOST)):
        yield FieldError("host", "invalid", _('Name a host; "" is any.'))


def why_not(verb: str, facts: Mapping[str, Any], params: Mapping[str, Any]) -> Message | None:
    """Why a job with these facts is left out; None when the verb changes it.

    Without its params a verb is judged by the state alone.
    """
    status = facts["status"]
    if verb == CANCEL and status == t.RUNNING:
        return _("asked to stop already") if facts["cancel_requested"] else None
    if verb == RETRY and status == t.SUCCEEDED and not params.get("succeeded"):
        return _("succeeded")
    if verb == RUN_NOW and status == t.READY:
        return _("ready already")
    if not t.is_legal(_ARROWS.get(verb, "edit"), status):
        return Message(status)
    if verb == PRIORITY and facts["priority"] == params.get("priority"):
        return _("has this priority already")
    if verb == TIME and params.keys() == {"run_at"} and facts["run_at"] == params["run_at"]:
        return _("has this time already")
    if verb == MOVE and "host" in params and facts["affinity_host"] == params["host"]:
        return _("is bound to this host already")
    if verb == MAX_ATTEMPTS and params.get("max_attempts") is not None:
        return _why_no_limit(facts, params["max_attempts"])
    return None


def _why_no_limit(facts: Mapping[str, Any], limit: int) -> Message | None:
    if facts["max_attempts"] == limit:
        return _("has this maximum already")
    if facts["attempts"] >= limit:
        # It would end as failed.
        return _("has used as many attempts")
    return None


def note(verb: str, facts: Mapping[str, Any]) -> Message | None:
    """What the outcome of a changed job says besides; None for nothing."""
    if verb == CANCEL and facts["status"] == t.RUNNING:
        return _("running: asked to stop")
    return None


def sample(verb: str, facts: Mapping[str, Any], params: Mapping[str, Any]) -> str:
    """What becomes of the job: `priority 0 → 40`, `scheduled → cancelled`."""
    if verb == PRIORITY:
        return _("priority {old} → {new}", old=facts["priority"], new=params["priority"])
    if verb == MAX_ATTEMPTS:
        old, new = facts["max_attempts"], params["max_attempts"]
        return _("maximum attempts {old} → {new}", old=old, new=new)
    if verb == MOVE:
        old, new = facts["affinity_host"], params["host"]
        return _("host {old} → {new}", old=old or _("any"), new=new or _("any"))
    if verb == TIME:
        new = changes(verb, facts, params)["run_at"]
        return _("next run {old} → {new}", old=facts["run_at"], new=new)
    if note_of := note(verb, facts):
        return note_of
    becomes = _BECOMES[verb]
    if verb == RETRY and params.get("keep_time") and facts["status"] == t.CANCELLED:
        becomes = t.SCHEDULED if facts["run_at"] > facts["begun"] else t.READY
    return _("{old} → {new}", old=Message(facts["status"]), new=Message(becomes))


def changes(verb: str, facts: Mapping[str, Any], params: Mapping[str, Any]) -> dict[str, Any]:
    """The new value of the column that an edit changes.

    Of the facts, `share` is how many of the rows are older than this one, 0 to 1, and `begun` when
    the run was started.
    """
    if verb == MOVE:
        return {"affinity_host": params["host"]}
    if verb == TIME:
        return {"run_at": _new_time(facts, params)}
    return {verb: params[verb]}


def _new_time(facts: Mapping[str, Any], params: Mapping[str, Any]) -> datetime:
    if (shift := params.get("shift_seconds")) is not None:
        at: datetime = facts["run_at"] + timedelta(seconds=shift)
        return at
    first: datetime = params.get("run_at") or facts["begun"]
    spread = params.get("spread_seconds")
    return first if spread is None else first + timedelta(seconds=round(spread * facts["share"]))


def opposite(verb: str, params: Mapping[str, Any]) -> tuple[str, dict[str, Any]] | None:
    """The verb that takes the change back, with its fields, where there is one."""
    if verb == CANCEL:
        return RETRY, {"keep_time": True}
    if verb == RETRY:
        return CANCEL, {}
    if verb == TIME and params.get("shift_seconds"):
        return TIME, {"shift_seconds": -params["shift_seconds"]}
    return None
