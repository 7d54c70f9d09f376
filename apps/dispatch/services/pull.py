"""The actions of an executor: pull, call back, extend, release."""

from __future__ import annotations

import math
import random
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from django.db import IntegrityError

from apps.common import clock
from apps.common.db import transactional
from apps.common.errors import Invalid, NotFound, ReplayConflict, Unavailable
from apps.common.json_rules import canonical, check_json, check_text
from apps.dispatch.errors import Closed
from apps.dispatch.models import AnyDispatch, Dispatch, Stock
from apps.dispatch.rules import policy
from apps.dispatch.services import ending
from apps.dispatch.services.candidates import Candidates
from apps.dispatch.services.claim import Lost, claim
from apps.dispatch.services.ending import State, end, expire_if_due, note
from apps.dispatch.services.executor_state import ExecutorState, caller, state_of
from apps.dispatch.services.find import find_own
from apps.journal import services as journal
from apps.journal.models import JournalEntry, Source

OUTCOMES = (policy.SUCCEEDED, policy.FAILED)
MAX_MESSAGE = 4000
MAX_EXTENSION = 86_400
MAX_RACES = 10
MAX_WAIT = 60
EXTENDED = "extended"
NOTE_EVERY = timedelta(minutes=1)


@dataclass(frozen=True, slots=True)
class Nothing:
    """Nothing is due; pull again after this many seconds (1 to 60, jittered)."""

    retry_after: int


# --- pull --------------------------------------------------------------------------------------
def answer_pull(uid: str, *, bound: Iterable[str] | None = None) -> Dispatch | Nothing:
    """The user's open dispatch again (redo + 1), or the next due task as a new dispatch.

    A dispatch past its deadline is closed by its policy first. Losing a race is normal: the
    winner's dispatch is answered. Unavailable after ten lost races in a row, Invalid for a group,
    NotFound when unknown or outside the names in `bound`.
    """
    return _answer(caller(uid, bound=bound))


def _answer(state: ExecutorState) -> Dispatch | Nothing:
    for _ in range(MAX_RACES):
        answer = _claim_first(state) if state.open_dispatch is None else _open_again(state)
        if answer is not None:
            return answer
        state = state_of(state.pk)
    raise Unavailable(f"{state.name} pulls from too many places at once.", retry_after=1)


def _claim_first(state: ExecutorState) -> Dispatch | Nothing | None:
    """The first candidate that can still be had; None when the state has changed meanwhile."""
    now = clock.now()
    candidates = Candidates(state, now)
    for eligible in candidates.eligible():
        try:
            dispatch = claim(state, eligible, now)
        except Lost:
            continue
        except IntegrityError:
            # The user has another dispatch, open or of this round; where a person has removed the
            # stock, a new row leads to it again.
            Stock.objects.ensure(*eligible.candidate.identity)
            return None
        candidates.close()
        return dispatch
    candidates.close()
    # Another pull of the same user may have taken it, or an edit changed it just now.
    if candidates.any_due:
        present = state_of(state.pk)
        if present.open_dispatch is not None or present.versions != state.versions:
            return None
    return Nothing(_retry_after(candidates.next_at, now))


def _open_again(state: ExecutorState) -> Dispatch | None:
    """The open dispatch, counted; None when it is over, by its deadline or meanwhile."""
    now = clock.now()
    current = Dispatch.objects.open_of(state.pk)
    if current is None:
        return None
    if current.deadline_at <= now:
        expire_if_due(current, now=now, executor=state.name)
        return None
    redo = Dispatch.objects.count_pull(current.pk)
    if redo is None:
        return None
    current.redo = redo
    return current


def _retry_after(next_at: datetime | None, now: datetime) -> int:
    """Whole seconds until the next due instant, 1 to 60, spread so that clients do not herd."""
    wait = MAX_WAIT if next_at is None else (next_at - now).total_seconds()
    spread = wait + random.uniform(0, min(5.0, wait * 0.1))  # noqa: S311
    return min(MAX_WAIT, max(1, math.ceil(spread)))


# --- callback ----------------------------------------------------------------------------------
class Report(NamedTuple):
    """The report of an executor on its dispatch."""

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


def call_back(
    uid: str,
    number: int,
    outcome: str,
    *,
    result: dict[str, Any] | None = None,
    message: str = "",
    bound: Iterable[str] | None = None,
) -> AnyDispatch:
    """End the user's open dispatch as `succeeded` or `failed`; late is accepted while it is open.

    An exact repeat gets the first answer. NotFound: unknown or another's number. ReplayConflict: a
    repeat with another outcome or result. Closed: it ended in another way (kept in the journal).
    """
    report = Report(outcome, result, message)
    report.check()
    state = caller(uid, bound=bound)
    dispatch = _open_with(state, number) or _own(state, number)
    if (
        isinstance(dispatch, Dispatch)
        and dispatch.is_open
        and _end_alone(state, dispatch, report, clock.now())
    ):
        return dispatch
    return _first_answer(state, number, report)


def call_back_and_pull(
    uid: str,
    number: int,
    outcome: str,
    *,
    result: dict[str, Any] | None = None,
    message: str = "",
    bound: Iterable[str] | None = None,
) -> tuple[AnyDispatch, Dispatch | Nothing]:
    """`call_back`, and what a pull answers next, in one transaction.

    When the claim is lost, the end is stored alone, and the next task is pulled after it.
    """
    report = Report(outcome, result, message)
    report.check()
    state = caller(uid, bound=bound)
    dispatch = _open_with(state, number)
    if dispatch is None:
        return _first_answer(state, number, report), _answer(state)
    now = clock.now()
    candidates = Candidates(state.without_open(), now)
    has_ended, following = _end_and_claim(state, dispatch, report, candidates, now)
    if not has_ended:
        return _first_answer(state, number, report), _answer(state_of(state.pk))
    candidates.close()
    return dispatch, following or _answer(state_of(state.pk))


@transactional
def _end_and_claim(
    state: ExecutorState, dispatch: Dispatch, report: Report, candidates: Candidates, now: datetime
) -> tuple[bool, Dispatch | Nothing | None]:
    """Whether the dispatch has ended, and what is next; None when the claim of it was lost."""
    if not _end(state, dispatch, report, now):
        return False, None
    eligible = next(candidates.eligible(), None)
    if eligible is None:
        return True, Nothing(_retry_after(candidates.next_at, now))
    try:
        return True, claim(state, eligible, now)
    except (Lost, IntegrityError):
        # The savepoint of the claim is rolled back.
        return True, None


def _open_with(state: ExecutorState, number: int) -> Dispatch | None:
    """The user's open dispatch, if it has that number."""
    dispatch = state.open_dispatch
    return dispatch if dispatch is not None and dispatch.pk == number else None


def _end(state: ExecutorState, dispatch: Dispatch, report: Report, now: datetime) -> bool:
    return end(
        dispatch,
        report.outcome,
        now=now,
        executor=state.name,
        actor=state.name,
        result=report.result,
        message=report.message,
    )


_end_alone = transactional(_end)


def _first_answer(state: ExecutorState, number: int, report: Report) -> AnyDispatch:
    """The answer to a repeat."""
    dispatch = _own(state, number)
    if dispatch.state not in OUTCOMES:
        _keep_late_result(state, dispatch, report)
        raise Closed(
            f"Dispatch {number} is {dispatch.state} since {dispatch.finished_at}; its result is no "
            "longer taken. Pull again."
        )
    if dispatch.state != report.outcome:
        raise ReplayConflict(
            f"Dispatch {number} was called back as {dispatch.state}, not as {report.outcome}; the "
            "first answer stands."
        )
    if canonical(dispatch.result) != canonical(report.result):
        raise ReplayConflict(
            f"Dispatch {number} was called back as {dispatch.state} with another result; the first "
            "answer stands."
        )
    return dispatch


def _own(state: ExecutorState, number: int) -> AnyDispatch:
    dispatch = find_own(number, state.pk)
    if dispatch is None:
        raise NotFound(f"{state.name} has no dispatch {number}.")
    return dispatch


@transactional
def _keep_late_result(state: ExecutorState, dispatch: AnyDispatch, report: Report) -> None:
    """Keep a refused result in the journal, for people."""
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
                executor=state.name,
                actor=state.name,
                data={"outcome": report.outcome, "result": report.result},
            )
        ]
    )


# --- extend and release ------------------------------------------------------------------------
def extend(
    uid: str, number: int, seconds: int, *, bound: Iterable[str] | None = None
) -> AnyDispatch:
    """Move the deadline to at least `seconds` (1 to 86,400) from now; it never moves back.

    Closed when the dispatch is no longer open.
    """
    if not 1 <= seconds <= MAX_EXTENSION:
        raise Invalid.field("seconds", f"{seconds} is out of range: 1 to {MAX_EXTENSION}.")
    state = caller(uid, bound=bound)
    dispatch = _extend(state, number, seconds, clock.now())
    if not dispatch.is_open:
        raise Closed(f"Dispatch {number} is {dispatch.state}; it cannot be extended. Pull again.")
    return dispatch


@transactional
def _extend(state: ExecutorState, number: int, seconds: int, now: datetime) -> AnyDispatch:
    """The dispatch, with the later deadline if it is open.

    The journal gets one entry a minute for a dispatch at most: clients may extend every second.
    """
    deadline = now + timedelta(seconds=seconds)
    row = Dispatch.objects.filter(pk=number, executor=state.pk, state=State.OPEN)
    is_moved = row.filter(deadline_at__lt=deadline).update(deadline_at=deadline)
    dispatch = _own(state, number)
    if is_moved and not _is_noted(number, EXTENDED, now - NOTE_EVERY):
        data = {"deadline_at": deadline.isoformat()}
        entry = note(dispatch, EXTENDED, now, executor=state.name, actor=state.name, data=data)
        journal.write([entry])
    return dispatch


def _is_noted(number: int, event: str, since: datetime) -> bool:
    entries = JournalEntry.objects.timeline(Source.DISPATCH, number)
    return entries.filter(event=event, at__gt=since).exists()


def release(
    uid: str, number: int, *, reason: str = "", bound: Iterable[str] | None = None
) -> AnyDispatch:
    """Give the user's own open dispatch back; a repeat answers the same, Closed otherwise."""
    check_text(reason, field="reason")
    state = caller(uid, bound=bound)
    return ending.release(dispatch=_own(state, number), actor=state.name, reason=reason)
