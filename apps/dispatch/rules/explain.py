"""Why an executor can get an occurrence now, or every reason why not."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import NamedTuple

from apps.common.errors import Invalid
from apps.common.messages import Message, Reason
from apps.common.messages import Message as _
from apps.common.zones import later
from apps.dispatch.rules.life import DELETED, PAUSED
from apps.dispatch.rules.past import Held, Past
from apps.dispatch.rules.plan import Planned
from apps.dispatch.rules.policy import (
    ALREADY_TAKEN,
    COOLING_DOWN,
    IN_FLIGHT,
    OK,
    PastDispatch,
    Verdict,
)
from apps.dispatch.rules.queue import Candidate, Identity, candidate_of

NOT_DUE = "not_due"
ENDED = "ended"
EXECUTOR_DISABLED = "executor_disabled"
NOT_MEMBER = "not_member"
QUOTA_USED = "quota_used"
OUTSIDE_WINDOW = "outside_window"
MISFIRE_SKIPPED = "misfire_skipped"
UNREADABLE = "unreadable"

CODES = (
    OK,
    NOT_DUE,
    ENDED,
    PAUSED,
    DELETED,
    EXECUTOR_DISABLED,
    NOT_MEMBER,
    QUOTA_USED,
    ALREADY_TAKEN,
    COOLING_DOWN,
    IN_FLIGHT,
    OUTSIDE_WINDOW,
    MISFIRE_SKIPPED,
    UNREADABLE,
)


_HAD = {
    ALREADY_TAKEN: _("{executor} already had it as dispatch {number}."),
    COOLING_DOWN: _(
        "{executor} had it as dispatch {number} and may have it again after the lease time."
    ),
    IN_FLIGHT: _("{executor} holds it as dispatch {number}."),
}


class Explanation(NamedTuple):
    """`eligible`: a pull could hand it out now, after the tasks before it in the queue."""

    occurrence_at: datetime | None
    reasons: list[Reason]

    @property
    def first(self) -> Reason:
        return self.reasons[0]

    @property
    def eligible(self) -> bool:
        return self.first.code == OK


@dataclass(frozen=True, kw_only=True)
class Case:
    """A user, a task and one of its occurrences, with all that decides about them.

    `reaches`: the task is addressed to the user or to a group of it. `occurrence_at` None = the
    task has none to speak of. `lookback`: how long after its due time it can be had.
    `given_back_at`: when stock that others hold could come back. `is_asked`: an operator asks the
    user again for what it has had. `is_readable`: its params are an object.
    """

    executor: str
    is_enabled: bool
    owner: str
    owner_is_enabled: bool
    reaches: bool
    status: str
    planned: Planned
    occurrence_at: datetime | None
    lookback: timedelta
    past: Past
    held: Held | None
    given_back_at: datetime | None = None
    is_asked: bool = False
    is_readable: bool = True

    def verdict_on(self, candidate: Candidate, now: datetime) -> Verdict:
        return self.past.verdict_on(candidate, now, is_asked=self.is_asked)


def chosen_occurrence(planned: Planned, asked: datetime | None, now: datetime) -> datetime | None:
    """The instant that was asked for; else the current one, the next one or the last there was.

    None when the task never had any; Invalid when there is no occurrence at that instant.
    """
    if asked is not None:
        return _require_occurrence(planned, asked)
    if planned.recurrence is None:
        return planned.start_at
    due = planned.due(now)
    if due.occurrences:
        return due.occurrences[-1]
    return due.next_at or next(planned.recurrence.before(now), None)


def _require_occurrence(planned: Planned, asked: datetime) -> datetime:
    if planned.recurrence is None:
        if asked != planned.start_at:
            raise Invalid.field(
                "occurrence_at",
                _(
                    "A once task has one occurrence, here at {at}; leave occurrence_at out.",
                    at=planned.start_at,
                ),
            )
        return asked
    # An edit of the rule or a resume removes earlier occurrences; these can still be explained.
    series = replace(planned.recurrence, effective_from=None)
    if next(series.after(asked), None) != asked:
        raise Invalid.field(
            "occurrence_at",
            _(
                "The repeating task has no occurrence at {at}; leave occurrence_at out for the "
                "current one, or take one of the task's next_due.",
                at=asked,
            ),
        )
    return asked


def explain(case: Case, now: datetime) -> Explanation:
    """All reasons why not at `now`, or only `ok`."""
    against = [*_reasons_of_task(case), *_reasons_of_time(case, now), *_reasons_of_past(case, now)]
    ok = _("A pull can hand it out now, after the tasks before it in the queue.")
    return Explanation(case.occurrence_at, against or [Reason(OK, ok)])


def _reasons_of_task(case: Case) -> Iterator[Reason]:
    if case.status == DELETED:
        yield Reason(DELETED, _("The task is deleted; plan a new one."))
    if case.status == PAUSED:
        yield Reason(PAUSED, _("The task is paused; resume it first."))
    if not case.is_readable:
        message = _("The params of the task cannot be read; correct them.")
        yield Reason(UNREADABLE, message)
    if not case.reaches:
        message = _(
            "The task is addressed to {owner}, and {executor} does not belong to it.",
            owner=case.owner,
            executor=case.executor,
        )
        yield Reason(NOT_MEMBER, message)
    if not case.is_enabled:
        message = _("{executor} is disabled; nothing is handed out to it.", executor=case.executor)
        yield Reason(EXECUTOR_DISABLED, message)
    if not case.owner_is_enabled and case.owner != case.executor:
        message = _("The task is addressed to {owner}, which is disabled.", owner=case.owner)
        yield Reason(EXECUTOR_DISABLED, message)


def _reasons_of_time(case: Case, now: datetime) -> Iterator[Reason]:
    planned, at = case.planned, case.occurrence_at
    if planned.end_at is not None and planned.end_at <= now:
        yield Reason(ENDED, _("The task ended at {at}.", at=planned.end_at))
    elif at is None:
        yield Reason(NOT_DUE, _("The task has no future occurrence."))
    elif at > now:
        yield Reason(NOT_DUE, _("It is due at {at}.", at=at), at)
    elif planned.due_at(planned.number_of(at), now) is None:
        yield _skipped_reason(planned, at)
    if at is not None and later(at, case.lookback) <= now:
        message = _(
            "It was due at {at} and could be had until {until}.",
            at=at,
            until=later(at, case.lookback),
        )
        yield Reason(OUTSIDE_WINDOW, message)


def _skipped_reason(planned: Planned, at: datetime) -> Reason:
    since = None if planned.recurrence is None else planned.recurrence.effective_from
    if since is not None and at < since:
        message = _(
            "The repeating task was changed or resumed at {since}; it has no occurrences before "
            "that.",
            since=since,
        )
        return Reason(MISFIRE_SKIPPED, message)
    message = _(
        "Newer occurrences have become due since {at}, and the task skips this missed one.",
        at=at,
    )
    return Reason(MISFIRE_SKIPPED, message)


def _reasons_of_past(case: Case, now: datetime) -> Iterator[Reason]:
    candidate = candidate_of(case.planned, case.occurrence_at)
    identity = candidate.identity
    last = case.past.latest.get(identity)
    if case.held is not None:
        yield _in_flight(case.executor, case.held, identity)
    carried = None
    if case.held is None or case.held.candidate.identity != identity:
        answer = case.verdict_on(candidate, now)
        carried = answer.carried
        if last is not None and not answer.allows:
            yield _past_reason(case.executor, last, answer.code, answer.until)
    if case.past.is_used_up(candidate) and carried is None:
        detail = _("Its quota of {times} is used up.", times=case.past.quota(candidate))
        yield Reason(QUOTA_USED, detail, case.given_back_at)


def _in_flight(executor: str, held: Held, identity: Identity) -> Reason:
    number = str(held.number)
    if not held.can_expire:
        message = _(
            "{executor} holds dispatch {number}, whose task is gone from the database, so it "
            "cannot expire; cancel the dispatch.",
            executor=executor,
            number=number,
        )
        return Reason(IN_FLIGHT, message)
    if held.candidate.identity == identity:
        message = _(
            "{executor} holds it as dispatch {number}; a pull returns the same one.",
            executor=executor,
            number=number,
        )
    else:
        message = _(
            "{executor} holds another task, dispatch {number}; a pull returns that one.",
            executor=executor,
            number=number,
        )
    return Reason(IN_FLIGHT, message, held.deadline_at)


def _past_reason(executor: str, last: PastDispatch, code: str, until: datetime | None) -> Reason:
    message = Message(_HAD[code], executor=executor, number=str(last.number))
    return Reason(code, message, until)
