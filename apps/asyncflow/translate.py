"""Tasks of asyncflow and jobs, one to the other; pure, and the same for every dialect."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

from apps.asyncflow.dialects import BODY, INPUT, SET, Dialect
from apps.common.errors import PlatformError
from apps.common.json_rules import canonical
from apps.common.messages import wire_time
from apps.common.readers import read_integer
from apps.jobs.rules import transitions as t
from apps.jobs.rules.order import HIGHEST_PRIORITY, LOWEST_PRIORITY
from apps.jobs.rules.outcome import RETRY_NEVER, Outcome
from apps.jobs.rules.submission import MAX_DELAY
from apps.jobs.rules.type_snapshot import TypeSnapshot

MAX_CONTEXT = 8_192
MAX_LOG = 4_096
MAX_PRIORITY = 31_104_000
MAX_LIMIT = 1_000
# A priority is in seconds of precedence, one step of ours is worth a minute by default.
_STEP = 60
_NO_LOG = "{}"
_TASK_ID = re.compile(r"([1-9][0-9]{0,18})(?:h([0-9]{1,9}))?(?:_(.*))?", re.DOTALL)
# How deep a log may lie in strings of JSON: some workers encode it once more with each success.
_NESTED = 4


class Refused(PlatformError):
    """A call that fails as it does with asyncflow's own server: a number in an answer of 200."""

    status = 200

    def __init__(self, number: int, detail: str) -> None:
        super().__init__(detail)
        self.number = number


# --- what is sent ---------------------------------------------------------------------------------
def readable(values: Mapping[str, Any]) -> dict[str, Any]:
    """The values by names without underscores and capitals: clients and servers of one dialect
    spell them differently."""
    return {name.replace("_", "").lower(): value for name, value in values.items()}


def text_of(values: Mapping[str, Any], name: str) -> str:
    value = values.get(name)
    if value is None:
        return ""
    if not isinstance(value, str):
        raise Refused(BODY, f"{name} is no string.")
    return value


def number_of(values: Mapping[str, Any], name: str) -> int | None:
    """A whole number; a query has it as text."""
    value = values.get(name)
    if isinstance(value, str) and (number := read_integer(value)) is not None:
        value = number
    if value is not None and type(value) is not int:
        raise Refused(BODY, f"{name} is no whole number.")
    return value


@dataclass(frozen=True, kw_only=True)
class Sent:
    """A task as a client sends it; empty texts and zeros leave what there is."""

    task_id: str
    type: str
    user_id: str
    stage: str
    status: int
    priority: int
    tries: int
    interval: int
    log: str
    context: str
    order_time: int

    @classmethod
    def of(cls, body: Mapping[str, Any]) -> Sent:
        """The task in the body, flat or wrapped; a field that is empty in the task may stand beside
        it."""
        values = dict(body)
        wrapped = values.pop("taskdata", {})
        if not isinstance(wrapped, dict):
            raise Refused(BODY, "The task is no JSON object.")
        values |= {name: v for name, v in readable(wrapped).items() if v not in (None, "")}
        return cls(
            task_id=text_of(values, "taskid"),
            type=text_of(values, "tasktype"),
            user_id=text_of(values, "userid"),
            stage=text_of(values, "taskstage"),
            status=number_of(values, "status") or 0,
            priority=number_of(values, "priority") or 0,
            tries=number_of(values, "crtretrynum") or 0,
            interval=number_of(values, "maxretryinterval") or 0,
            log=text_of(values, "schedulelog"),
            context=text_of(values, "taskcontext") or text_of(values, "context"),
            order_time=number_of(values, "ordertime") or 0,
        )

    @property
    def canonical_text(self) -> str:
        """The report as text, equal for equal reports."""
        return canonical(vars(self))

    def require_small(self, code: int) -> None:
        size = len(self.context.encode("utf-8", "replace"))
        if size > MAX_CONTEXT:
            raise Refused(code, f"The context has {size} bytes; the limit is {MAX_CONTEXT}.")

    @property
    def kept_log(self) -> str:
        """The log, "" for one that is too long to be kept."""
        return self.log if len(self.log) <= MAX_LOG else ""

    @property
    def error(self) -> str:
        """The latest error in the log, "" for none."""
        log: Any = self.log
        for _ in range(_NESTED):
            if not isinstance(log, str):
                break
            try:
                log = json.loads(log)
            except ValueError:
                return ""
        last = readable(log).get("lastdata") if isinstance(log, dict) else None
        found = readable(last).get("errmsg") if isinstance(last, dict) else None
        return found if isinstance(found, str) else ""


def limit_of(values: Mapping[str, Any], default: int) -> int:
    """How many tasks are wanted; the default for none, the greatest number for more."""
    limit = number_of(values, "limit") or default
    if limit < 0:
        raise Refused(INPUT, "limit is below zero.")
    return min(limit, MAX_LIMIT)


def priority_of(seconds: int) -> int:
    return min(HIGHEST_PRIORITY, max(LOWEST_PRIORITY, round(seconds / _STEP)))


# --- task ids -------------------------------------------------------------------------------------
def task_id(dialect: Dialect, job: int, type_: str, hold: int | None = None) -> str:
    """The id of a job; with the number of the hold, the right to report about it."""
    number = str(job) if hold is None else f"{job}h{hold}"
    return dialect.id_form.format(job=number, type=type_)


class TaskId(NamedTuple):
    job: int
    hold: int | None
    rest: str

    def names(self, type_: str) -> bool:
        """Whether the id is of a job of this type: ids of another server may begin alike."""
        return not self.rest or self.rest.lower().startswith(type_.lower() + "_")


def read_task_id(text: str) -> TaskId | None:
    """The parts of the id of a task; None for an id that the platform has not made."""
    found = _TASK_ID.fullmatch(text)
    if found is None or int(found[1]) >= 2**63:
        return None
    return TaskId(int(found[1]), None if found[2] is None else int(found[2]), found[3] or "")


# --- what is answered -----------------------------------------------------------------------------
class Row(NamedTuple):
    """The columns of a job that a task is made of."""

    id: int
    type: str
    user_id: str
    status: str
    stage: str
    attempts: int
    max_attempts: int
    holds: int
    run_at: datetime
    created_at: datetime
    held_at: datetime | None
    finished_at: datetime | None
    context: dict[str, Any]
    checkpoint: Any

    @property
    def tries(self) -> int:
        """The attempts that failed before the present or last one."""
        return self.attempts if self.status in t.WAITING else max(0, self.attempts - 1)

    @property
    def own_context(self) -> str:
        """The context as submitted, or as the last stage left it."""
        kept = self.context.get("task_context")
        # Jobs that came in otherwise have any JSON.
        return kept if isinstance(kept, str) else json.dumps(self.context, ensure_ascii=False)

    @property
    def kept(self) -> dict[str, Any]:
        """The reports of its workers since, from the checkpoint."""
        return self.checkpoint if isinstance(self.checkpoint, dict) else {}

    @property
    def priority(self) -> int:
        found = self.context.get("task_priority")
        return found if type(found) is int else 0

    @property
    def log(self) -> str:
        found = self.kept.get("schedule_log") or self.context.get("schedule_log")
        return found if isinstance(found, str) else _NO_LOG

    @property
    def newest_context(self) -> str:
        found = self.kept.get("task_context")
        return found if isinstance(found, str) else self.own_context


def task_of(
    row: Row, dialect: Dialect, *, type_: TypeSnapshot | None, **own: str
) -> dict[str, Any]:
    """The job as a task; `own` are words that are written differently, such as its id."""
    interval = row.kept.get("max_retry_interval")
    if type(interval) is not int:
        interval = round(type_.backoff.delay) if type_ else 0
    return dialect.task(
        {
            "user_id": row.user_id,
            "task_type": row.type,
            "task_stage": row.stage,
            "status": dialect.number(row.status),
            "priority": row.priority,
            "crt_retry_num": row.tries,
            "max_retry_num": row.max_attempts - 1,
            "max_retry_interval": interval,
            "schedule_log": row.log,
            "task_context": row.newest_context,
            "order_time": int(row.run_at.timestamp() * dialect.second),
            "create_time": time_of(row.created_at, dialect),
            "modify_time": time_of(row.finished_at or row.held_at or row.created_at, dialect),
            **own,
        }
    )


def time_of(at: datetime, dialect: Dialect) -> str | int:
    return wire_time(at) if dialect.second == 1 else int(at.timestamp() * 1000)


def settings_of(
    type_: TypeSnapshot, dialect: Dialect, *, interval: int, times: tuple[datetime, datetime]
) -> dict[str, Any]:
    """The settings of a type as workers load them; times of making and of the last change."""
    made, changed = times
    return dialect.settings(
        {
            "task_type": type_.name,
            "schedule_limit": type_.batch_limit,
            "schedule_interval": interval,
            "max_processing_time": int(type_.max_processing.total_seconds()),
            "max_retry_num": type_.max_attempts - 1,
            "retry_interval": round(type_.backoff.delay),
            "max_retry_interval": round(type_.backoff.cap),
            "create_time": time_of(made, dialect),
            "modify_time": time_of(changed, dialect),
        }
    )


# --- reports --------------------------------------------------------------------------------------
def context_of(sent: Sent, row: Row | None = None) -> dict[str, Any]:
    """The context of a job; without a row that of a new one."""
    if row is None:
        log = {"schedule_log": sent.kept_log} if sent.kept_log else {}
        return {"task_context": sent.context, "task_priority": sent.priority, **log}
    newest = sent.context or row.newest_context
    if newest == row.own_context and sent.priority in (0, row.priority):
        return row.context
    return {"task_context": newest, "task_priority": sent.priority or row.priority}


def checkpoint_of(sent: Sent, row: Row) -> dict[str, Any]:
    """The part of a report that is kept; the context, too, while its job keeps the one it has."""
    newest = sent.context or row.newest_context
    return {
        "schedule_log": sent.kept_log or row.log,
        "max_retry_interval": sent.interval or row.kept.get("max_retry_interval"),
        **({"task_context": newest} if newest != row.own_context else {}),
    }


def is_alive(sent: Sent, dialect: Dialect) -> bool:
    """Whether the report says that the task goes on."""
    return sent.status in (0, dialect.number(t.RUNNING))


def outcome_of(
    sent: Sent, row: Row, dialect: Dialect, now: datetime, *, token: str, report: str
) -> Outcome:
    """The end of the attempt that the worker reports; Refused for no state.

    Of its counts only one thing is taken: whether it has counted a failure.
    """
    kept = checkpoint_of(sent, row)
    base: dict[str, Any] = {"id": row.id, "token": token, "report": report, "checkpoint": kept}
    statuses = dialect.statuses(sent.status)
    if t.SUCCEEDED in statuses:
        return Outcome(end=t.END_SUCCEEDED, **base)
    if t.FAILED in statuses:
        return Outcome(end=t.END_FAILED, retry=RETRY_NEVER, memo=sent.error, **base)
    if t.READY not in statuses:
        raise Refused(SET, f"{sent.status} is no status.")
    run_at = _later(sent.order_time, dialect, now)
    if sent.tries > row.tries:
        wait = run_at - now if run_at and dialect.delays else None
        return Outcome(end=t.END_FAILED, retry_after=wait, memo=sent.error, **base)
    kept.pop("task_context", None)
    context = context_of(sent, row)
    step: dict[str, Any] = {
        "context": None if context is row.context else context,
        "priority": priority_of(sent.priority) if sent.priority else None,
        "run_at": run_at,
    }
    if sent.stage not in ("", row.stage):
        return Outcome(end=t.END_STAGE_DONE, stage=sent.stage, **step, **base)
    return Outcome(end=t.END_YIELDED, memo=sent.error, **step, **base)


def _later(order_time: int, dialect: Dialect, now: datetime) -> datetime | None:
    """The order time if it is to come; workers also send how old a task is."""
    seconds = order_time / dialect.second
    if seconds <= now.timestamp():
        return None
    return datetime.fromtimestamp(min(seconds, (now + MAX_DELAY - timedelta(1)).timestamp()), UTC)
