"""What a user does with the dispatch it has: call back, extend, release."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from django.db import IntegrityError

from apps.common import clock
from apps.common.db import transactional
from apps.common.errors import Invalid, NotFound, ReplayConflict
from apps.common.json_rules import canonical, check_json, check_text
from apps.dispatch.errors import Closed
from apps.dispatch.models import Dispatch
from apps.dispatch.rules import policy
from apps.dispatch.services import ending
from apps.dispatch.services.ending import Ending, State
from apps.dispatch.services.handout import Lost, give
from apps.dispatch.services.pull import Nothing, nothing, take_anew
from apps.dispatch.services.queue import Ahead, Opening
from apps.dispatch.services.standing import Standing, User, note_seen, standing_by_name
from apps.journal import services as journal
from apps.journal.models import Source

OUTCOMES = (policy.SUCCEEDED, policy.FAILED)
MAX_MESSAGE = 4000
MAX_EXTENSION = 86_400


class Report(NamedTuple):
    """What an executor says of its dispatch."""

    outcome: str
    result: dict[str, Any] | None = None
    message: str = ""

    def check(self) -> None:
        """Invalid names what is wrong."""
        if self.outcome not in OUTCOMES:
            raise Invalid.field(
                "outcome", f"{self.outcome!r} is no outcome; say succeeded or failed."
            )
        if len(self.message) > MAX_MESSAGE:
            raise Invalid.field("message", f"A message has at most {MAX_MESSAGE} characters.")
        check_text(self.message, field="message")
        if self.result is not None:
            check_json(self.result, field="result")

    @property
    def words(self) -> dict[str, Any]:
        return {"result": self.result, "message": self.message}


def call_back(
    *,
    executor: User,
    number: int,
    outcome: str,
    result: dict[str, Any] | None = None,
    message: str = "",
) -> Dispatch:
    """End the executor's open dispatch as `succeeded` or `failed`; late is fine while it is open.

    An exact repeat gets the first answer. NotFound: unknown or another's number. ReplayConflict: a
    repeat with another outcome or result. Closed: it ended in another way (kept in the journal).
    """
    report = Report(outcome, result, message)
    report.check()
    dispatch = _in_hand(executor, number) or _own(executor, number)
    if dispatch.is_open and _end(executor, dispatch, report, clock.now()):
        return dispatch
    dispatch = _own(executor, number)
    if dispatch.state not in OUTCOMES:
        _keep_late_result(executor, dispatch, report)
        raise Closed(
            f"Dispatch {number} is {dispatch.state} since {dispatch.finished_at}; its result is no "
            "longer taken. Pull again."
        )
    if dispatch.state != outcome or canonical(dispatch.result) != canonical(result):
        raise ReplayConflict(
            f"Dispatch {number} was called back as {dispatch.state} with another result; the first "
            "answer stands."
        )
    return dispatch


def call_back_and_pull(
    *,
    standing: Standing,
    number: int,
    outcome: str,
    result: dict[str, Any] | None = None,
    message: str = "",
) -> tuple[Dispatch, Dispatch | Nothing]:
    """`call_back`, and what a pull answers next; as a rule both are one transaction."""
    report = Report(outcome, result, message)
    report.check()
    dispatch = _in_hand(standing, number)
    following = None if dispatch is None else _end_and_take(standing, dispatch, report)
    if dispatch is not None and following is not None:
        return dispatch, following
    if standing.is_expected:
        # One of the two is not as expected, or nothing is left to be expected.
        return call_back_and_pull(
            standing=standing_by_name(standing.name),
            number=number,
            outcome=outcome,
            result=result,
            message=message,
        )
    # It is read again, because its end may have been taken back.
    read_again = replace(standing, in_hand=None)
    ended = call_back(
        executor=read_again, number=number, outcome=outcome, result=result, message=message
    )
    return ended, take_anew(standing)


def _end(executor: User, dispatch: Dispatch, report: Report, now: datetime) -> bool:
    name = executor.name
    return ending.end(dispatch, report.outcome, now=now, executor=name, actor=name, **report.words)


def _end_and_take(
    standing: Standing, dispatch: Dispatch, report: Report
) -> Dispatch | Nothing | None:
    """What comes after the open dispatch, which has ended with it; None when one of the two could
    not be done, and then neither is."""
    now = clock.now()
    after = replace(standing, in_hand=None, latest_done=dispatch.occurrence_at)
    after = note_seen(after, now)
    ended = ending.ending_of(dispatch, report.outcome, now=now, **report.words)
    ahead = Ahead(after, now=now, ending=(dispatch.identity, ended.past(dispatch)))
    opening = next(ahead.openings(), None)
    following: Dispatch | Nothing
    try:
        if opening is not None:
            following = _end_and_give(after, dispatch, ended, opening)
        elif not standing.is_expected and _end(standing, dispatch, report, now):
            following = nothing(ahead, now)
        else:
            return None
    except (Lost, IntegrityError):
        return None
    # Only now is it true that the user has had what has ended.
    ahead.save_lessons(None if isinstance(following, Nothing) else following)
    return following


@transactional
def _end_and_give(
    standing: Standing, dispatch: Dispatch, ended: Ending, opening: Opening
) -> Dispatch:
    told = ended.entry(dispatch, executor=standing.name, actor=standing.name)
    closing = ended.statements(dispatch)
    taken = give(standing, opening, ended.at, closing=closing, told_before=[told])
    ended.put_on(dispatch)
    return taken


def extend(*, executor: User, number: int, seconds: int) -> Dispatch:
    """Move the deadline to at least `seconds` (1 to 86,400) from now; it never moves back.

    Closed when the dispatch is no longer open.
    """
    if not 1 <= seconds <= MAX_EXTENSION:
        raise Invalid.field("seconds", f"{seconds} is out of range: 1 to {MAX_EXTENSION}.")
    dispatch = _own(executor, number)
    deadline = clock.now() + timedelta(seconds=seconds)
    Dispatch.objects.filter(pk=number, state=State.OPEN, deadline_at__lt=deadline).update(
        deadline_at=deadline
    )
    dispatch = _own(executor, number)
    if not dispatch.is_open:
        raise Closed(f"Dispatch {number} is {dispatch.state}; it cannot be extended. Pull again.")
    return dispatch


def release(*, executor: User, number: int, reason: str = "") -> Dispatch:
    """Give the executor's own open dispatch back; as ending.release otherwise."""
    check_text(reason, field="reason")
    return ending.release(dispatch=_own(executor, number), actor=executor.name, reason=reason)


def _in_hand(executor: User, number: int) -> Dispatch | None:
    """The dispatch of that number, if a standing told that it was open."""
    in_hand = executor.in_hand if isinstance(executor, Standing) else None
    return in_hand if in_hand is not None and in_hand.pk == number else None


def _own(executor: User, number: int) -> Dispatch:
    dispatch = Dispatch.objects.read("d.id = %s AND d.executor_id = %s", [number, executor.pk])
    if dispatch is None:
        raise NotFound(f"{executor.name} has no dispatch {number}.")
    return dispatch


@transactional
def _keep_late_result(executor: User, dispatch: Dispatch, report: Report) -> None:
    """A refused result changes nothing, but a person may want to read it."""
    journal.write(
        [
            journal.Entry(
                at=clock.now(),
                source=Source.DISPATCH,
                subject_id=dispatch.pk,
                event="late_result",
                from_state=dispatch.state,
                to_state=dispatch.state,
                attempt=dispatch.round + 1,
                type_or_task=dispatch.task_label,
                executor=executor.name,
                actor=executor.name,
                data={"outcome": report.outcome, "result": report.result},
            )
        ]
    )
