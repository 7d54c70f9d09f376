"""Bulk runs over jobs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any

from django.db.models import QuerySet

from apps.bulk.rules.settings import TYPE
from apps.bulk.services.targets import MAX_INDEXED, TARGETS, Target
from apps.common.errors import FieldError
from apps.common.messages import Message
from apps.jobs.models import Bounds, Job
from apps.jobs.rules import verbs as of
from apps.jobs.rules.job_filter import WIRE, JobFilter, read
from apps.jobs.services import control, find

# Jobs that carry out bulk runs, or tell people of alerts, are no target of one.
NO_TARGETS = (TYPE, "deliver")
_OPERATE, _OVERRIDE = "jobs.operate_job", "jobs.override_job"


class Jobs(Target):
    kind = "jobs"
    model = Job
    label = ("type", "key")
    verbs = {
        of.CANCEL: _OPERATE,
        of.RETRY: _OPERATE,
        of.RUN_NOW: _OPERATE,
        of.PRIORITY: _OPERATE,
        of.TIME: _OPERATE,
        of.MAX_ATTEMPTS: _OPERATE,
        of.MOVE: _OPERATE,
        of.MARK_DONE: _OVERRIDE,
    }
    dangerous = frozenset({of.CANCEL, of.MARK_DONE})

    def read(self, given: Mapping[str, Any]) -> JobFilter:
        return read(given, WIRE)

    def rows(self, wanted: JobFilter, bounds: Bounds) -> QuerySet[Any]:
        return find.query(wanted, bounds=bounds).exclude(type__in=NO_TARGETS)

    def within(self, rows: QuerySet[Any], bounds: Bounds) -> QuerySet[Any]:
        return rows.filter(bounds.condition())

    def few(self, wanted: JobFilter, bounds: Bounds) -> Sequence[int] | None:
        found = find.few(Job.objects.within(bounds), wanted, most=MAX_INDEXED)
        return None if found is None else sorted(found, reverse=True)

    def are_few(self, wanted: JobFilter, bounds: Bounds) -> bool:
        return find.are_few(Job.objects.within(bounds), wanted, most=MAX_INDEXED)

    def columns(self, verb: str) -> tuple[str, ...]:
        return of.facts_of(verb)

    def faults(self, verb: str, params: Mapping[str, Any], now: datetime) -> Iterator[FieldError]:
        yield from of.faults(verb, params, now)

    def why_not(
        self, verb: str, facts: Mapping[str, Any], params: Mapping[str, Any]
    ) -> Message | None:
        return of.why_not(verb, facts, params)

    def note(self, verb: str, facts: Mapping[str, Any]) -> Message | None:
        return of.note(verb, facts)

    def sample(self, verb: str, facts: Mapping[str, Any], params: Mapping[str, Any]) -> str:
        return of.sample(verb, facts, params)

    def needed(self, verb: str, params: Mapping[str, Any]) -> tuple[str, ...]:
        return of.needed(verb, params)

    def opposite(self, verb: str, params: Mapping[str, Any]) -> tuple[str, dict[str, Any]] | None:
        return of.opposite(verb, params)

    def act(
        self, row: Any, verb: str, params: Mapping[str, Any], *, actor: str, reason: str
    ) -> None:
        if verb == of.CANCEL:
            control.cancel(job=row, actor=actor, reason=reason)
        elif verb == of.RETRY:
            control.retry(job=row, actor=actor, reason=reason)
        elif verb == of.RUN_NOW:
            control.run_now(job=row, actor=actor, reason=reason)
        elif verb == of.MARK_DONE:
            control.mark_done(job=row, actor=actor, reason=reason)
        else:
            changes = of.changes(verb, row.__dict__, params)
            control.edit(job=row, version=row.version, changes=changes, actor=actor, reason=reason)


TARGETS[Jobs.kind] = Jobs()
