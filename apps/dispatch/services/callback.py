"""What an executor does with the dispatch it has: call back, extend, release."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from apps.common import clock
from apps.common.db import transactional
from apps.common.errors import Closed, Invalid, NotFound, ReplayConflict
from apps.common.json_rules import canonical, check_json, check_text
from apps.dispatch.models import Dispatch, Executor
from apps.dispatch.rules import policy
from apps.dispatch.services import ending
from apps.dispatch.services.ending import State
from apps.journal import services as journal
from apps.journal.models import Source

OUTCOMES = (policy.SUCCEEDED, policy.FAILED)
MOST_MESSAGE = 4000
MOST_EXTENSION = 86_400


def call_back(
    *,
    executor: Executor,
    number: int,
    outcome: str,
    result: dict[str, Any] | None = None,
    message: str = "",
) -> Dispatch:
    """End the executor's open dispatch as `succeeded` or `failed`; late is fine while it is open.

    An exact repeat gets the first answer. NotFound: unknown or another's number. ReplayConflict: a
    repeat with another outcome or result. Closed: it ended in another way (kept in the journal).
    """
    if outcome not in OUTCOMES:
        raise Invalid.field("outcome", f"{outcome!r} is no outcome; say succeeded or failed.")
    if len(message) > MOST_MESSAGE:
        raise Invalid.field("message", f"A message has at most {MOST_MESSAGE} characters.")
    check_text(message, field="message")
    if result is not None:
        check_json(result, field="result")
    dispatch = _own(executor, number)
    now = clock.now()
    if dispatch.is_open and ending.end(
        dispatch, outcome, now=now, result=result, message=message, actor=executor.name
    ):
        return dispatch
    dispatch = _own(executor, number)
    if dispatch.state not in OUTCOMES:
        _keep_late_result(dispatch, outcome, result)
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


def extend(*, executor: Executor, number: int, seconds: int) -> Dispatch:
    """Move the deadline to at least `seconds` (1 to 86,400) from now; it never moves back.

    Closed when the dispatch is no longer open.
    """
    if not 1 <= seconds <= MOST_EXTENSION:
        raise Invalid.field("seconds", f"{seconds} is out of range: 1 to {MOST_EXTENSION}.")
    dispatch = _own(executor, number)
    deadline = clock.now() + timedelta(seconds=seconds)
    Dispatch.objects.filter(pk=number, state=State.OPEN, deadline_at__lt=deadline).update(
        deadline_at=deadline
    )
    dispatch = _own(executor, number)
    if not dispatch.is_open:
        raise Closed(f"Dispatch {number} is {dispatch.state}; it cannot be extended. Pull again.")
    return dispatch


def release(*, executor: Executor, number: int, reason: str = "") -> Dispatch:
    """Give the executor's own open dispatch back; as ending.release otherwise."""
    check_text(reason, field="reason")
    return ending.release(dispatch=_own(executor, number), actor=executor.name, reason=reason)


def _own(executor: Executor, number: int) -> Dispatch:
    dispatch = (
        Dispatch.objects.select_related("executor").filter(pk=number, executor=executor).first()
    )
    if dispatch is None:
        raise NotFound(f"{executor.name} has no dispatch {number}.")
    return dispatch


@transactional
def _keep_late_result(dispatch: Dispatch, outcome: str, result: dict[str, Any] | None) -> None:
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
                executor=dispatch.executor.name,
                actor=dispatch.executor.name,
                data={"outcome": outcome, "result": result},
            )
        ]
    )
