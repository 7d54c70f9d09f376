"""What a type demands of its jobs when they are submitted.

Read at most once a second in a process: an edit applies to what is submitted a second later, and at
once where it was made.
"""

from __future__ import annotations

import difflib
import functools
import json
import time
from collections.abc import Collection, Iterator
from dataclasses import dataclass

from jsonschema import Draft202012Validator

from apps.common.db import fetch, placeholders, table
from apps.common.errors import FieldError
from apps.common.json_schema import compiled
from apps.common.json_schema import faults as schema_faults
from apps.common.messages import Message as _
from apps.jobs.models import JobType
from apps.jobs.rules.policy import ALWAYS, NEVER
from apps.jobs.rules.submission import Submission

MAX_NAMED = 20


@dataclass(frozen=True, slots=True)
class Terms:
    """The terms of one type; `validator` is None when any context will do."""

    name: str
    lane: str
    unique: str
    stages: tuple[str, ...]
    max_attempts: int
    priority: int
    validator: Draft202012Validator | None

    def is_unique(self, job: Submission) -> bool:
        return job.unique or self.unique == ALWAYS

    def stage_of(self, job: Submission) -> str:
        if job.stage is not None:
            return job.stage
        return self.stages[0] if self.stages else ""

    def faults(self, job: Submission, *, is_context: bool) -> Iterator[FieldError]:
        """What the type refuses in a submission; of its context, if that is one at all."""
        if job.unique and self.unique == NEVER:
            yield FieldError(
                "unique",
                "invalid",
                _("Jobs of type {type} are never unique; leave it out.", type=self.name),
            )
        elif not job.key and self.is_unique(job):
            yield FieldError(
                "key", "invalid", _("A unique job needs a key by which its open twin is known.")
            )
        if job.stage is not None and job.stage not in (self.stages or ("",)):
            yield FieldError(
                "stage",
                "invalid",
                _(
                    "{text!r} is no stage of {type}; its stages: {known}.",
                    text=str(job.stage)[:60],
                    type=self.name,
                    known=", ".join(self.stages) or _("none"),
                ),
            )
        if is_context and self.validator is not None:
            yield from schema_faults(self.validator, job.context, field="context")


_COLUMNS = (
    "name",
    "lane",
    "`unique`",
    "stages",
    "max_attempts",
    "default_priority",
    "params_schema",
)


NEAR_SECONDS = 1.0
_near: dict[str, tuple[float, Terms]] = {}


def terms_of(types: Collection[str]) -> dict[str, Terms]:
    """The terms of these types by name, unknown ones left out."""
    now = time.monotonic()
    kept = {name: near[1] for name in types if (near := _near.get(name)) and now < near[0]}
    if len(kept) == len(types):
        return kept
    found = _read([name for name in types if name not in kept])
    _near.update({name: (now + NEAR_SECONDS, terms) for name, terms in found.items()})
    return kept | found


def forget_terms() -> None:
    """Read the terms anew at the next call: a type was changed here."""
    _near.clear()


def _read(names: list[str]) -> dict[str, Terms]:
    rows = fetch(
        f"SELECT {', '.join(_COLUMNS)} FROM {table(JobType)} "
        f"WHERE name IN ({placeholders(len(names))})",
        sorted(names),
    )
    return {row[0]: _terms(row) for row in rows}


@functools.lru_cache(maxsize=1024)
def _terms(row: tuple[str, str, str, str, int, int, str]) -> Terms:
    """Equal rows make equal terms, so that a schema is made ready once."""
    name, lane, unique, stages, max_attempts, priority, schema = row
    known = json.loads(schema)
    return Terms(
        name=name,
        lane=lane,
        unique=unique,
        stages=tuple(json.loads(stages)),
        max_attempts=max_attempts,
        priority=priority,
        validator=compiled(known) if known else None,
    )


def unknown_type(name: str, bound: Collection[str] | None) -> FieldError:
    """That there is no such type, or none for a key with this binding, naming those there are."""
    types = JobType.objects.order_by("name")
    if bound is not None:
        types = types.filter(name__in=bound)
    known = list(types.values_list("name", flat=True)[: MAX_NAMED + 1])
    short = name[:80]
    if near := difflib.get_close_matches(name, known, n=1):
        told = _("There is no job type {name!r}; did you mean {near}?", name=short, near=near[0])
    elif known:
        some = ", ".join([*known[:MAX_NAMED], *(["…"] if len(known) > MAX_NAMED else [])])
        told = _("There is no job type {name!r}; known are: {known}.", name=short, known=some)
    else:
        told = _("There is no job type {name!r}; make one first.", name=short)
    return FieldError("type", "invalid", told)
