"""Bulk runs over jobs."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any, cast

from django.db import DatabaseError
from django.db.models import QuerySet

from apps.bulk.services.targets import MAX_INDEXED, TARGETS, Target
from apps.common import clock
from apps.common.db import is_retryable
from apps.common.errors import FieldError, PlatformError
from apps.common.filtering import RowFilter
from apps.common.verbs import Verb
from apps.jobs.handlers import registry
from apps.jobs.models import Bounds, Job, JobType
from apps.jobs.rules import verbs as of
from apps.jobs.rules.submission import Submitted
from apps.jobs.services import action_effects, control, find
from apps.jobs.services.action_effects import ActionEffect
from apps.jobs.services.job_filters import JobFilters
from apps.jobs.services.submit_check import names_within, unknown_type
from apps.jobs.services.type_snapshots import type_snapshots
from apps.journal.models import JournalEntry, Source
from apps.journal.services.undo import last_entries


class Jobs(Target):
    kind = "jobs"
    model = Job
    label = ("type", "key")
    verbs = of.VERBS
    filters = JobFilters
    payload = "jobs.view_payload"

    def unknown(self, wanted: RowFilter, bounds: Bounds) -> Iterator[FieldError]:
        types = wanted.get("type") or ()
        known = {*JobType.objects.filter(name__in=types).values_list("name", flat=True)}
        if bounds.types is not None:
            known &= {*bounds.types}
        # A type with live jobs is never deleted.
        if unknown := [name for name in types if name not in known]:
            names = names_within(bounds)
            yield from (unknown_type(name, names) for name in unknown)

    def rows(self, wanted: RowFilter, bounds: Bounds) -> QuerySet[Any]:
        # Jobs that carry out bulk runs, or tell people of alerts, are no target of one.
        return find.query(wanted, bounds=bounds).exclude(type__in=registry.system_types())

    def within(self, rows: QuerySet[Any], bounds: Bounds) -> QuerySet[Any]:
        return rows.filter(bounds.condition())

    def keys_if_few(self, wanted: RowFilter, bounds: Bounds) -> Sequence[int] | None:
        found = find.keys_if_few(Job.objects.within(bounds), wanted, most=MAX_INDEXED)
        return None if found is None else sorted(found, reverse=True)

    def are_few(self, wanted: RowFilter, bounds: Bounds) -> bool:
        return find.are_few(Job.objects.within(bounds), wanted, most=MAX_INDEXED)

    def faults(self, verb: Verb, params: Mapping[str, Any], now: datetime) -> Iterator[FieldError]:
        found = [*super().faults(verb, params, now)]
        yield from found
        if verb.name == of.MOVE and not found and params["host"]:
            yield from control.host_faults(params["host"])

    def locked(self, rows: QuerySet[Any], numbers: Sequence[int]) -> dict[int, Any]:
        jobs = super().locked(rows.defer("context", "checkpoint", "result"), numbers)
        # A retry counts for a key, which may be in the context; others are long and not needed.
        types = type_snapshots({job.type for job in jobs.values()}).values()
        limits = {type_.name: type_.key_limit for type_ in types}
        by_context = {name for name, limit in limits.items() if limit and not limit.is_column}
        wanted = [number for number, job in jobs.items() if job.type in by_context]
        if wanted:
            contexts = Job.objects.filter(pk__in=wanted).values_list("pk", "context")
            for number, context in contexts:
                jobs[number].context = context
        return jobs

    def entries(self, numbers: Collection[int], of: Mapping[str, Any]) -> dict[int, JournalEntry]:
        return last_entries(Source.JOB, numbers, of)

    def undo_on(
        self, rows: Sequence[Any], entries: Mapping[int, JournalEntry], *, actor: str, reason: str
    ) -> dict[int, PlatformError]:
        return control.undo_each(rows, entries, actor=actor, reason=reason)

    def act(
        self, row: Any, verb: str, params: Mapping[str, Any], *, actor: str, reason: str
    ) -> None:
        decide = _decision([row], verb, params)
        for error in control.take_each([row], decide, actor=actor, reason=reason).values():
            raise error

    def act_on(
        self, rows: Sequence[Any], verb: str, params: Mapping[str, Any], *, actor: str, reason: str
    ) -> dict[int, PlatformError | DatabaseError]:
        try:
            decide = _decision(rows, verb, params)
            return {**control.take_each(rows, decide, actor=actor, reason=reason)}
        except PlatformError as error:
            return dict.fromkeys((row.pk for row in rows), error)
        except DatabaseError as error:
            if is_retryable(error):
                raise
        # One of them is at fault, and the others need not wait for it.
        return super().act_on(rows, verb, params, actor=actor, reason=reason)


def _decision(
    jobs: Sequence[Job], verb: str, params: Mapping[str, Any]
) -> Callable[[Job], ActionEffect | None]:
    """The function that decides what the verb changes in a locked job; None for nothing."""
    now = clock.now()
    if verb == of.CANCEL:
        return lambda job: action_effects.cancel(job, now)
    if verb == of.RETRY:
        twins = control.twins_of(jobs)

        def retried(job: Job) -> ActionEffect:
            effect = action_effects.retry(
                job, now, twins=twins, keep_time=params.get("keep_time", False)
            )
            if key := effect.changes.get("unique_key"):
                # It is open now for those that follow.
                twins[key] = Submitted(job.pk, False, effect.changes["status"])
            return effect

        return retried
    if verb == of.RUN_NOW:
        return lambda job: action_effects.run_now(job, now)
    if verb == of.MARK_DONE:
        return action_effects.mark_done
    if verb == of.MOVE and params["host"]:
        control.require_host(params["host"])
    change = cast(of.Change, of.VERBS[verb])
    return lambda job: action_effects.edit(job, now, change.changes(job.__dict__, params))


TARGETS[Jobs.kind] = Jobs()
