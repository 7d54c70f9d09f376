"""Checks submissions: finds everything that `submit` would refuse."""

from __future__ import annotations

import difflib
import json
from collections.abc import Iterator, Sequence
from datetime import datetime

from apps.common import clock
from apps.common.errors import FieldError, refusal
from apps.common.json.schema import MAX_COST
from apps.common.json_rules import MAX_BYTES, check_size
from apps.common.messages import Message
from apps.common.messages import Message as _
from apps.jobs.conf import conf
from apps.jobs.handlers import registry
from apps.jobs.models import Bounds
from apps.jobs.rules.submission import Submission, faults, number_faults, type_faults
from apps.jobs.rules.type_snapshot import ALWAYS, TypeSnapshot
from apps.jobs.services.type_snapshots import type_snapshots
from apps.jobs.services.types import open_types

MAX_ERRORS = 100
MAX_NAMED = 20
# The bounds of the platform's own code.
PLATFORM = Bounds()


_FOREIGN_USER = _(
    "Only jobs of some people are within reach here; write the name of one of them as user_id."
)

_SYSTEM = _("The platform itself submits the jobs of {name!r}; choose another job type.")
_FURTHER = _(
    "Jobs of {name!r} start what lies beyond the limits that apply here; start it itself, or use a "
    "key without limits."
)
_FOR_CODE = _(
    "Code enqueues the tasks of {name!r}; choose another job type, or have it named in TASK_OPEN."
)


def field_errors(job: Submission, bounds: Bounds) -> list[FieldError]:
    """Everything that `submit` would refuse, except a context that is too large."""
    return faults_of([job], bounds)[0]


def faults_of(jobs: Sequence[Submission], bounds: Bounds) -> list[list[FieldError]]:
    """`field_errors` of each. Of contexts that do not fit it says where until that has cost enough,
    then only that they do not."""
    users, now = _users_of(jobs, bounds), clock.now()
    known = type_snapshots({job.type for job in jobs}) if jobs else {}
    if bounds.types is not None:
        known = {name: type_ for name, type_ in known.items() if name in bounds.types}
    names = _names_if_asked(jobs, known, bounds)
    found, cost = [], 0
    for job in jobs:
        type_ = known.get(job.type)
        is_brief = cost > MAX_COST
        wrong = list(_faults(job, type_, bounds, users, now, names, is_brief=is_brief))
        cost += _cost(job, type_) if wrong else 0
        found.append(wrong)
    return found


def _cost(job: Submission, type_: TypeSnapshot | None) -> int:
    """The number of errors that a check of its context may make, roughly."""
    return type_.checker.cost(job.context) if type_ is not None and type_.checker else 0


def faults_of_parts(jobs: Sequence[Submission], bounds: Bounds) -> list[list[FieldError]]:
    """`field_errors` of each, or that its type has jobs of which one may take the place of
    another."""
    return [
        [*twin_faults(job.type)] or found if all(each.field != "type" for each in found) else found
        for job, found in zip(jobs, faults_of(jobs, bounds), strict=True)
    ]


def twin_faults(name: str) -> Iterator[FieldError]:
    """That jobs of the type take the place of one another."""
    type_ = type_snapshots([name]).get(name)
    if type_ is not None and (type_.pool or type_.unique == ALWAYS):
        message = _("Jobs of {type} are always unique; a part needs jobs of its own.", type=name)
        yield FieldError("type", "invalid", message)


def check(
    jobs: Sequence[Submission],
    known: dict[str, TypeSnapshot],
    bounds: Bounds,
    now: datetime,
    path: str,
) -> None:
    """Raise one error that lists what is wrong with the jobs, or with the first of them."""
    found: list[FieldError] = []
    cost = 0
    users, names = _users_of(jobs, bounds), _names_if_asked(jobs, known, bounds)
    for position, job in enumerate(jobs):
        type_ = known.get(job.type)
        wrong = list(_faults(job, type_, bounds, users, now, names))
        if wrong:
            prefix = path.format(position)
            found += [FieldError(prefix + e.field, e.code, e.message) for e in wrong]
            cost += _cost(job, type_)
            if len(found) >= MAX_ERRORS or cost > MAX_COST:
                break
    if found:
        raise refusal(found[:MAX_ERRORS])


def _users_of(jobs: Sequence[Submission], bounds: Bounds) -> set[str] | None:
    """Return the users of the jobs that are within the bounds; None for all."""
    if bounds.users is None:
        return None
    users = bounds.users.among({job.user_id for job in jobs})
    return users | {""} if bounds.takes_nobodys else users


def _faults(
    job: Submission,
    type_: TypeSnapshot | None,
    bounds: Bounds,
    users: set[str] | None,
    now: datetime,
    names: Sequence[str],
    *,
    is_brief: bool = False,
) -> Iterator[FieldError]:
    if type_ is None:
        yield unknown_type(job.type, names)
    elif bounds is not PLATFORM and registry.is_closed(job.type, type_.handler):
        message = _SYSTEM if registry.is_system(job.type) else _FOR_CODE
        yield FieldError("type", "invalid", Message(message, name=job.type))
    elif not bounds.are_open and registry.reaches_further(type_.handler):
        yield FieldError("type", "invalid", Message(_FURTHER, name=job.type))
    if users is not None and job.user_id not in users:
        yield FieldError("user_id", "invalid", _FOREIGN_USER)
    is_context = True
    for fault in faults(job, now):
        is_context = is_context and not fault.field.startswith("context")
        yield fault
    if job.unique_for is not None:
        # By then it may be in the archive, where no key is kept.
        most = int(conf.JOB_ARCHIVE_AFTER.total_seconds())
        yield from number_faults("unique_for", job.unique_for, 1, most)
    if type_ is not None:
        yield from type_faults(job, type_, is_context=is_context, is_brief=is_brief)


def _names_if_asked(
    jobs: Sequence[Submission], known: dict[str, TypeSnapshot], bounds: Bounds
) -> list[str]:
    """The names that errors about unknown types suggest."""
    return [] if all(job.type in known for job in jobs) else names_within(bounds)


def names_within(bounds: Bounds) -> list[str]:
    """Read the names of some types that there are within the bounds: one more than are named."""
    return list(open_types(bounds.types).values_list("name", flat=True)[: MAX_NAMED + 1])


def unknown_type(name: str, known: Sequence[str]) -> FieldError:
    """No such type exists, or the API key may not use it; the message names `known` ones."""
    short = name[:80]
    if near := difflib.get_close_matches(name, known, n=1):
        message = _("There is no job type {name!r}; did you mean {near}?", name=short, near=near[0])
    elif known:
        some = ", ".join([*known[:MAX_NAMED], *(["…"] if len(known) > MAX_NAMED else [])])
        message = _("There is no job type {name!r}; known are: {known}.", name=short, known=some)
    else:
        message = _("There is no job type {name!r}; make one first.", name=short)
    return FieldError("type", "invalid", message)


def texts_of(jobs: Sequence[Submission], path: str) -> list[str]:
    """The contexts as JSON text; TooLarge when one exceeds the limit."""
    texts = [json.dumps(job.context) for job in jobs]
    for position, text in enumerate(texts):
        # Escaped text is never shorter than UTF-8.
        if len(text) > MAX_BYTES:
            check_size(jobs[position].context, field=f"{path.format(position)}context")
    return texts
