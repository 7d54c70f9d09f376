"""Validation of submissions, and what is derived from them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import KW_ONLY, dataclass, field, fields
from datetime import datetime, timedelta
from typing import Any, NamedTuple
from zlib import crc32

from apps.common.errors import FieldError, PlatformError
from apps.common.json_rules import check_tree
from apps.common.messages import Message as _
from apps.common.readers import is_key
from apps.jobs.rules.key_limit import NoValue
from apps.jobs.rules.order import HIGHEST_PRIORITY, LOWEST_PRIORITY, Score
from apps.jobs.rules.type_snapshot import ALWAYS, NEVER, RANGES, TypeSnapshot

SHARDS = 1024
MAX_KEY = 128
MAX_USER = 128
MAX_STAGE = 64
MAX_TRACE = 64
MAX_ROUTE = 255
_KEYS = (
    ("key", MAX_KEY),
    ("user_id", MAX_USER),
    ("trace_id", MAX_TRACE),
    ("route_key", MAX_ROUTE),
)
# The longest delay of a job.
MAX_DELAY = timedelta(days=36_525)
# Jobs that one attempt submits with its end, and how many jobs may have led to one another.
MAX_FOLLOW_UPS = 100
MAX_DEPTH = 100
# What becomes of a submission whose key a waiting job has: it is answered with that job, which
# stays as it is, gets the new context, priority and time, or the new time if that is later.
RETURN, REPLACE, LATER = "return", "replace", "later"
ON_TWIN = (RETURN, REPLACE, LATER)
# What was done to that job, as the answer says it.
RETURNED, REPLACED, MOVED = "returned", "replaced", "moved"
TWIN = (RETURNED, REPLACED, MOVED)


@dataclass(slots=True)
class Submission:
    """One job to be. Either `delay` or `run_at`, neither for now; what is None the type decides.

    `unique` needs a key: while a job of that type and key is open, and for `unique_for` seconds
    after its end, no other is made, and `on_twin` says what becomes of that one. `route_key` keeps
    jobs together on the workers that prefer its shard. `score` is the place in a pool.
    """

    type: str
    context: dict[str, Any] = field(default_factory=dict)
    _: KW_ONLY
    key: str = ""
    run_at: datetime | None = None
    delay: timedelta | None = None
    priority: int | None = None
    max_attempts: int | None = None
    unique: bool = False
    unique_for: int | None = None
    on_twin: str = RETURN
    user_id: str = ""
    stage: str | None = None
    route_key: str = ""
    trace_id: str = ""
    score: Score | None = None

    def is_unique(self, type_: TypeSnapshot) -> bool:
        return self.unique or type_.unique == ALWAYS

    def first_stage(self, type_: TypeSnapshot) -> str:
        if self.stage is not None:
            return self.stage
        return type_.stages[0] if type_.stages and not type_.has_free_stages else ""


_USUAL = Submission("")
_NAMES = tuple(each.name for each in fields(Submission))


def to_json(job: Submission) -> dict[str, Any]:
    """The submission as JSON if its context is JSON; equal for equal submissions."""
    said = {
        name: value for name in _NAMES if (value := getattr(job, name)) != getattr(_USUAL, name)
    }
    if job.run_at is not None:
        said["run_at"] = job.run_at.isoformat()
    if job.delay is not None:
        said["delay"] = job.delay.total_seconds()
    return said


def from_json(said: Mapping[str, Any]) -> Submission:
    """The submission of which `to_json` made this."""
    values = dict(said)
    if "run_at" in values:
        values["run_at"] = datetime.fromisoformat(values["run_at"])
    if "delay" in values:
        values["delay"] = timedelta(seconds=values["delay"])
    return Submission(**values)


def shard_of(route: str) -> int:
    """The shard of all jobs with this route: the same in every process, for ever."""
    return crc32(route.encode()) % SHARDS


class Submitted(NamedTuple):
    """The job's id, or that of the twin that has its key, with `created` False and what was done to
    the twin: it was returned as it is, replaced or moved. `host` of a job that is for one alone."""

    id: int
    created: bool
    status: str
    twin: str = ""
    host: str = ""


def unique_key(job_type: str, key: str) -> str:
    """The key that only one open job may have; neither types nor keys contain the bar."""
    return f"{job_type}|{key}"


def faults(job: Submission, now: datetime) -> Iterator[FieldError]:
    """The errors of a submission that do not depend on its type; the caller checks the size."""
    for name, limit in _KEYS:
        text = getattr(job, name)
        if text and (type(text) is not str or not is_key(text, limit)):
            yield _no_key(name, text, limit)
    yield from context_faults(job.context)
    if job.run_at is not None or job.delay is not None:
        yield from _time_faults(job, now)
    if job.priority is not None:
        yield from number_faults("priority", job.priority, LOWEST_PRIORITY, HIGHEST_PRIORITY)
    if job.max_attempts is not None:
        yield from number_faults("max_attempts", job.max_attempts, *RANGES["max_attempts"])
    if job.on_twin not in ON_TWIN:
        yield FieldError(
            "on_twin",
            "invalid",
            _(
                "{text!r} is not known; choose one of: {known}.",
                text=str(job.on_twin)[:60],
                known=", ".join(ON_TWIN),
            ),
        )


def _no_key(name: str, text: Any, limit: int) -> FieldError:
    return FieldError(
        name,
        "invalid",
        _(
            "{text!r} is no {name}; use at most {limit} letters, digits and "
            "_ . : @ / + -, without blanks.",
            text=str(text)[:60],
            name=name,
            limit=limit,
        ),
    )


def type_faults(
    job: Submission, type_: TypeSnapshot, *, is_context: bool, is_brief: bool = False
) -> Iterator[FieldError]:
    """The errors of a submission that depend on its type; only a valid context is checked. With
    `is_brief` one error says that this does not fit, and not where."""
    if job.unique and type_.unique == NEVER:
        yield FieldError(
            "unique",
            "invalid",
            _("Jobs of type {type} are never unique; leave it out.", type=type_.name),
        )
    elif not job.key and job.is_unique(type_):
        yield FieldError(
            "key", "invalid", _("A unique job needs a key by which its open twin is known.")
        )
    if not job.is_unique(type_):
        for name, is_said in (
            ("unique_for", job.unique_for is not None),
            ("on_twin", job.on_twin != RETURN),
        ):
            if is_said:
                message = _("Only unique jobs have {name}; add unique and a key.", name=name)
                yield FieldError(name, "invalid", message)
    if job.unique_for is not None and type_.pool:
        message = _("The keys of the pool {type} are free when they are done.", type=type_.name)
        yield FieldError("unique_for", "invalid", message)
    stages = type_.stages or ("",)
    if job.stage and type_.has_free_stages and not is_key(job.stage, MAX_STAGE):
        yield _no_key("stage", job.stage, MAX_STAGE)
    if job.stage is not None and job.stage not in stages and not type_.has_free_stages:
        yield FieldError(
            "stage",
            "invalid",
            _(
                "{text!r} is no stage of {type}; its stages: {known}.",
                text=str(job.stage)[:60],
                type=type_.name,
                known=", ".join(type_.stages) or _("none"),
            ),
        )
    if is_context and type_.checker is not None:
        yield from type_.checker.faults(job.context, field="context", is_brief=is_brief)
    if is_context and type_.key_limit is not None:
        yield from limit_faults(job.context, type_)


def limit_faults(context: Mapping[str, Any], type_: TypeSnapshot) -> Iterator[FieldError]:
    """The error of a context in which the value that the type limits by is none."""
    try:
        type_.limit_id(key="", user_id="", context=context)
    except NoValue as error:
        yield FieldError("context", "invalid", error.args[0])


def context_faults(context: Any) -> Iterator[FieldError]:
    """The errors of a context; the caller checks the size."""
    if not isinstance(context, dict):
        yield FieldError("context", "invalid", _("The context must be a JSON object; write {…}."))
        return
    try:
        check_tree(context, field="context")
    except PlatformError as error:
        yield from error.errors


def _time_faults(job: Submission, now: datetime) -> Iterator[FieldError]:
    if job.run_at is not None and job.delay is not None:
        yield FieldError("delay", "invalid", _("Give either delay or run_at, not both."))
    if job.run_at is not None:
        yield from instant_faults("run_at", job.run_at, now)
    if job.delay is not None and not timedelta(0) <= job.delay <= MAX_DELAY:
        yield FieldError(
            "delay",
            "invalid",
            _(
                "A job waits from 0 to {max} days, not {delay}.",
                max=MAX_DELAY.days,
                delay=str(job.delay),
            ),
        )


def instant_faults(name: str, at: datetime, now: datetime) -> Iterator[FieldError]:
    """The errors of the `run_at` of a job."""
    if at.tzinfo is None:
        yield FieldError(name, "invalid", _("{at} needs a time zone.", at=at.isoformat()))
    elif at > now + MAX_DELAY:
        yield FieldError(
            name,
            "invalid",
            _(
                "{at} is more than {max} days ahead; choose an earlier time.",
                at=at,
                max=MAX_DELAY.days,
            ),
        )


def number_faults(name: str, value: Any, low: float, high: float) -> Iterator[FieldError]:
    """The error of a number that must be whole."""
    if type(value) is not int or not low <= value <= high:
        yield FieldError(
            name,
            "invalid",
            _(
                "{value} is no {name}; write a whole number from {min} to {max}.",
                value=str(value)[:60],
                name=name,
                min=low,
                max=high,
            ),
        )
