"""The verbs for jobs, and the reasons why a job in some state is left out."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Any, ClassVar

from apps.common.errors import FieldError
from apps.common.messages import Message
from apps.common.messages import Message as _
from apps.common.readers import is_key
from apps.common.verbs import Values, Verb, by_name
from apps.jobs.rules import transitions as t
from apps.jobs.rules.order import HIGHEST_PRIORITY, LOWEST_PRIORITY
from apps.jobs.rules.submission import instant_faults, number_faults
from apps.jobs.rules.type_settings import MAX_HOST
from apps.jobs.rules.type_snapshot import RANGES

CANCEL, RETRY, RUN_NOW, MARK_DONE = "cancel", "retry", "run_now", "mark_done"
PRIORITY, TIME, MAX_ATTEMPTS, MOVE = "priority", "time", "max_attempts", "move"
# The longest way that one run moves jobs in time, or spreads them over.
MAX_SHIFT_SECONDS = 366 * 86_400
_STATE: tuple[str, ...] = ("status", "cancel_requested")


class JobVerb(Verb):
    """A verb that takes the `arrow` of rules/transitions to the status `becomes`."""

    permission = "jobs.operate_job"
    columns = _STATE
    arrow: ClassVar[str]
    becomes: ClassVar[str]
    undo = _("Jobs that have not changed since get back their state and the time they were due.")

    def why_not(self, facts: Values, params: Values, now: datetime) -> Message | None:
        if not t.is_legal(self.arrow, facts["status"]):
            return Message(facts["status"])
        return self.why_unchanged(facts, params)

    def why_unchanged(self, facts: Values, params: Values) -> Message | None:
        """Why a job stays as it is although its state allows the change."""
        return None

    def sample(self, facts: Values, params: Values) -> Message:
        return _("{old} → {new}", old=Message(facts["status"]), new=Message(self.becomes))


class Cancel(JobVerb):
    name, words = CANCEL, _("Cancel")
    arrow, becomes = "cancel", t.CANCELLED
    event = "cancelled"
    is_dangerous = True

    def why_not(self, facts: Values, params: Values, now: datetime) -> Message | None:
        if facts["status"] == t.RUNNING:
            return _("asked to stop already") if facts["cancel_requested"] else None
        return super().why_not(facts, params, now)

    def note(self, facts: Values) -> Message | None:
        return _("running: asked to stop") if facts["status"] == t.RUNNING else None

    def sample(self, facts: Values, params: Values) -> Message:
        return self.note(facts) or super().sample(facts, params)


class Retry(JobVerb):
    name, words = RETRY, _("Retry")
    arrow, becomes = "retry", t.READY
    event = "retried"
    columns = (*_STATE, "run_at")
    fields = ("succeeded", "keep_time")

    def needed(self, params: Values) -> tuple[str, ...]:
        return ()

    def wrong(self, params: Values, now: datetime) -> Iterator[FieldError]:
        for name in self.fields:
            if not isinstance(params.get(name, False), bool):
                yield FieldError(name, "invalid", _("Write true or false."))

    def why_unchanged(self, facts: Values, params: Values) -> Message | None:
        is_left = facts["status"] == t.SUCCEEDED and not params.get("succeeded")
        return _("succeeded") if is_left else None

    def sample(self, facts: Values, params: Values) -> Message:
        was_cancelled = facts["status"] == t.CANCELLED
        if params.get("keep_time") and was_cancelled and facts["run_at"] > facts["begun"]:
            return _("{old} → {new}", old=Message(t.CANCELLED), new=Message(t.SCHEDULED))
        return super().sample(facts, params)


class RunNow(JobVerb):
    name, words = RUN_NOW, _("Run now")
    arrow, becomes = "run_now", t.READY
    event = "run_now"

    def why_unchanged(self, facts: Values, params: Values) -> Message | None:
        return _("ready already") if facts["status"] == t.READY else None


class MarkDone(JobVerb):
    name, words = MARK_DONE, _("Mark done")
    permission = "jobs.override_job"
    arrow, becomes = "mark_done", t.SUCCEEDED
    event = "marked_done"
    is_dangerous = True


class Change(JobVerb):
    """A verb that gives a waiting job another value in one column."""

    arrow, event = "edit", "edited"

    def changes(self, facts: Values, params: Values) -> dict[str, Any]:
        """The new value of the column.

        Of the facts, `share` is how many of the rows are older than this one, 0 to 1, and `begun`
        when the run was started.
        """
        return {self.name: params[self.name]}


class _Number(Change):
    """A change whose field has the name of the verb and of the column."""

    bounds: ClassVar[tuple[float, float]]

    def wrong(self, params: Values, now: datetime) -> Iterator[FieldError]:
        lowest, highest = self.bounds
        if params.get(self.name) is None:
            text = _("Write a whole number from {min} to {max}.", min=lowest, max=highest)
            yield FieldError(self.name, "invalid", text)
        else:
            yield from number_faults(self.name, params[self.name], lowest, highest)


class Priority(_Number):
    name, words = PRIORITY, _("Change priority")
    fields = (PRIORITY,)
    columns = (*_STATE, "priority")
    bounds = (LOWEST_PRIORITY, HIGHEST_PRIORITY)

    def why_unchanged(self, facts: Values, params: Values) -> Message | None:
        is_equal = facts["priority"] == params.get("priority")
        return _("has this priority already") if is_equal else None

    def sample(self, facts: Values, params: Values) -> Message:
        return _("priority {old} → {new}", old=facts["priority"], new=params["priority"])


class MaxAttempts(_Number):
    name, words = MAX_ATTEMPTS, _("Change maximum tries")
    fields = (MAX_ATTEMPTS,)
    columns = (*_STATE, "attempts", "max_attempts")
    bounds = RANGES["max_attempts"]

    def why_unchanged(self, facts: Values, params: Values) -> Message | None:
        limit = params.get("max_attempts")
        if limit is None:
            return None
        if facts["max_attempts"] == limit:
            return _("has this maximum already")
        # It would end as failed.
        return _("has used as many tries") if facts["attempts"] >= limit else None

    def sample(self, facts: Values, params: Values) -> Message:
        old, new = facts["max_attempts"], params["max_attempts"]
        return _("maximum tries {old} → {new}", old=old, new=new)


class Time(Change):
    """A verb that moves jobs in time: by a shift, or to an instant, over a length of time,
    or both."""

    name, words = TIME, _("Change time")
    fields = ("run_at", "shift_seconds", "spread_seconds")
    columns = (*_STATE, "run_at")

    def needed(self, params: Values) -> tuple[str, ...]:
        return () if any(name in params for name in self.fields) else self.fields

    def wrong(self, params: Values, now: datetime) -> Iterator[FieldError]:
        run_at, shift, spread = (params.get(name) for name in self.fields)
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

    def why_unchanged(self, facts: Values, params: Values) -> Message | None:
        is_equal = params.keys() == {"run_at"} and facts["run_at"] == params["run_at"]
        return _("has this time already") if is_equal else None

    def sample(self, facts: Values, params: Values) -> Message:
        new = self.changes(facts, params)["run_at"]
        return _("next run {old} → {new}", old=facts["run_at"], new=new)

    def changes(self, facts: Values, params: Values) -> dict[str, Any]:
        if (shift := params.get("shift_seconds")) is not None:
            return {"run_at": facts["run_at"] + timedelta(seconds=shift)}
        first: datetime = params.get("run_at") or facts["begun"]
        spread = params.get("spread_seconds")
        by = 0 if spread is None else round(spread * facts["share"])
        return {"run_at": first + timedelta(seconds=by)}


class Move(Change):
    name, words = MOVE, _("Move to a host")
    fields = ("host",)
    columns = (*_STATE, "affinity_host")

    def wrong(self, params: Values, now: datetime) -> Iterator[FieldError]:
        host = params.get("host")
        if not isinstance(host, str) or (host and not is_key(host, MAX_HOST)):
            yield FieldError("host", "invalid", _('Name a host; "" is any.'))

    def why_unchanged(self, facts: Values, params: Values) -> Message | None:
        is_equal = "host" in params and facts["affinity_host"] == params["host"]
        return _("is bound to this host already") if is_equal else None

    def sample(self, facts: Values, params: Values) -> Message:
        old, new = facts["affinity_host"], params["host"]
        return _("host {old} → {new}", old=old or _("any"), new=new or _("any"))

    def changes(self, facts: Values, params: Values) -> dict[str, Any]:
        return {"affinity_host": params["host"]}


VERBS = by_name(Cancel(), Retry(), RunNow(), Priority(), Time(), MaxAttempts(), Move(), MarkDone())
