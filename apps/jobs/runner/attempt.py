"""One attempt: call the handler and turn what it returns or raises into an outcome."""

from __future__ import annotations

import logging
import traceback
from collections.abc import Callable, Collection
from datetime import datetime, timedelta
from functools import partial
from typing import Any

from django.db import connections
from django.db.backends.base.base import BaseDatabaseWrapper

from apps.common import clock, logs
from apps.common.error_lines import line_of_error
from apps.common.messages import Message
from apps.common.texts import begin_of, end_of
from apps.jobs.handlers import registry
from apps.jobs.handlers.contract import Cancelled, Context, Done, Fail, Later, NextStage, Retry
from apps.jobs.handlers.registry import Handler
from apps.jobs.rules import failures, reasons
from apps.jobs.rules.outcome import (
    MAX_MEMO,
    RETRY_AS_ASKED,
    RETRY_BY_POLICY,
    RETRY_NEVER,
    HeldJob,
    Outcome,
)
from apps.jobs.rules.transitions import (
    END_CANCELLED,
    END_FAILED,
    END_INTERRUPTED,
    END_RELEASED,
    END_STAGE_DONE,
    END_SUCCEEDED,
    END_YIELDED,
)
from apps.jobs.runner import attempt_log, hooks
from apps.jobs.services import leases

logger = logging.getLogger(__name__)

MAX_ERROR = 15_000
# The end of a long traceback is where it was raised.
_MAX_TAIL = 3_000
MAX_PATH = 200


def run(handler: Handler | None, job: HeldJob, is_stopping: Callable[[], bool]) -> Outcome:
    """Call the handler and return the outcome, whatever the handler does.

    Log lines meanwhile carry the job, its type, attempt and trace, and are in the log of the job.
    """
    trace = {"trace_id": job.trace_id} if job.trace_id else {}
    before = attempt_log.running.set(job)
    try:
        with logs.bound(job=str(job.id), type=job.type, attempt=job.attempt, **trace):
            outcome = _call_handler(handler, job, is_stopping)
    finally:
        attempt_log.running.reset(before)
    if job.log is not None:
        outcome.log = attempt_log.rest_of(job)
    return outcome


def _call_handler(
    handler: Handler | None, job: HeldJob, is_stopping: Callable[[], bool]
) -> Outcome:
    if handler is None:
        return _failure(job, Message(failures.NO_HANDLER, type=job.type), retry=RETRY_NEVER)
    were_inside = [
        each.alias for each in connections.all(initialized_only=True) if _is_inside(each)
    ]
    try:
        if registry.known.hooks:
            returned = hooks.call_within(job, partial(_call, handler, job, is_stopping))
        else:
            returned = _call(handler, job, is_stopping)
        return _outcome_of_value(returned, job)
    except BaseException as error:  # noqa: BLE001 - also sys.exit() only ends the attempt
        if isinstance(error, Later):
            return _put_off(error, job, is_stopping())
        return _outcome_of_error(error, job)
    finally:
        _leave_no_transaction(were_inside)


def _call(handler: Handler, job: HeldJob, is_stopping: Callable[[], bool]) -> Any:
    """The return value of the handler, called with the context of the job."""
    if handler.is_long:
        context = Context(
            job,
            is_stopping=is_stopping,
            store_checkpoint=leases.checkpoint,
            store_progress=leases.progress,
            write_log=attempt_log.say,
        )
        return handler.function(job.context, context)
    return handler.function(job.context)


def _outcome_of_value(value: Any, job: HeldJob) -> Outcome:
    """The outcome of what the handler returned."""
    if isinstance(value, NextStage):
        return job.ended(
            END_STAGE_DONE,
            stage=value.stage,
            context=value.context,
            priority=value.priority,
            run_at=None if value.wait is None else clock.now() + value.wait,
        )
    if isinstance(value, Done):
        return job.ended(END_SUCCEEDED, result=value.result, submit=tuple(value.then))
    return job.ended(END_SUCCEEDED, result=value)


def _put_off(later: Later, job: HeldJob, is_stopping: bool) -> Outcome:
    if is_stopping and later.is_at_once:
        # Put off without any change, it would count as a failure.
        return job.ended(END_RELEASED)
    named = "run_at" if isinstance(later.run_at, datetime) else "delay"
    return job.ended(END_YIELDED, **{named: later.run_at})


def interrupted(job: HeldJob, parting: timedelta) -> Outcome:
    """The process was asked to stop and ends during the handler: the job goes on elsewhere when it
    has ended, and nobody pays for a deploy."""
    wanted = {"delay": parting, "reason": reasons.WORKER_STOPPED}
    return job.ended(END_INTERRUPTED, log=attempt_log.rest_of(job), **wanted)


def _outcome_of_error(error: BaseException, job: HeldJob) -> Outcome:
    if isinstance(error, Cancelled):
        return job.ended(END_CANCELLED, memo=storable(str(error)))
    path = f"{type(error).__module__}.{type(error).__qualname__}"[:MAX_PATH]
    if isinstance(error, Retry):
        retry = RETRY_AS_ASKED if error.is_asked else RETRY_BY_POLICY
        wanted: dict[str, Any] = {"after": error.after, "detail": error.detail, "retry": retry}
        return _failure(job, str(error), exception=path, **wanted)
    if isinstance(error, Fail):
        wanted = {"retry": RETRY_NEVER, "detail": error.detail}
        return _failure(job, str(error), exception=path, **wanted)
    summary = begin_of(storable(line_of_error(error)), MAX_MEMO)
    return _failure(job, format_error(error), exception=path, summary=summary)


def _failure(
    job: HeldJob,
    error: str,
    *,
    retry: str = RETRY_BY_POLICY,
    after: timedelta | None = None,
    **more: Any,
) -> Outcome:
    error = _cut(storable(error))
    return job.ended(END_FAILED, error=error, retry=retry, retry_after=after, **more)


def format_error(error: BaseException) -> str:
    """The traceback of an error."""
    try:
        return "".join(traceback.format_exception(error)).strip()
    except Exception as second:  # noqa: BLE001 - its __str__ may raise, too
        return f"{type(error).__name__}, which cannot be formatted: {type(second).__name__}"


def storable(text: str) -> str:
    """The text without characters that some databases refuse."""
    return text.replace("\x00", "\ufffd").encode("utf-8", "replace").decode()


def _cut(text: str) -> str:
    if len(text) <= MAX_ERROR:
        return text
    head, tail = begin_of(text, MAX_ERROR - _MAX_TAIL - 100), end_of(text, _MAX_TAIL)
    return f"{head}\n… {len(text) - len(head) - len(tail)} characters are cut out …\n{tail}"


def _leave_no_transaction(were_inside: Collection[str]) -> None:
    """Roll back the transactions that the handler left open, on whichever database: the next job
    would write into them."""
    for database in connections.all(initialized_only=True):
        if _is_inside(database) != (database.alias in were_inside):
            logger.error(
                "a handler left a transaction open on %s; it is rolled back", database.alias
            )
            database.close()
            del connections[database.alias]


def _is_inside(database: BaseDatabaseWrapper) -> bool:
    """Whether a transaction is open that is not one of its settings."""
    is_begun = database.connection is not None and not database.autocommit
    return database.in_atomic_block or (is_begun and database.settings_dict["AUTOCOMMIT"])
