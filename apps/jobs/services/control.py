"""The actions of operators on jobs, one by one or many in one transaction.

Each action takes one arrow of rules/transitions: services/action_effects.py decides which,
services/move.py takes it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any

from apps.common import clock
from apps.common.db import transactional
from apps.common.errors import FieldError, Invalid, NotFound, PlatformError
from apps.common.messages import Message as _
from apps.common.readers import is_key
from apps.jobs import wakeup
from apps.jobs.errors import Archived
from apps.jobs.models import AnyJob, ArchivedJob, Job, Worker
from apps.jobs.rules import transitions as t
from apps.jobs.rules.submission import Submitted, unique_key
from apps.jobs.rules.type_settings import MAX_HOST
from apps.jobs.services import action_effects, resumed
from apps.jobs.services.action_effects import ActionEffect, becomes_unique
from apps.jobs.services.archive import restore
from apps.jobs.services.move import entry_of, move
from apps.jobs.services.twins import open_twins
from apps.journal.models import JournalEntry, Source
from apps.journal.services import undo
from apps.journal.services.edit import require_version

MAX_NAMED = 100
# One more action undoes each of these, so no reason is required.
HARMLESS = frozenset({"retry", "run_now"})


@transactional
def cancel(*, job: AnyJob, actor: str, reason: str, force: bool = False) -> Job:
    """Cancel a job: a waiting one at once, a running one when its handler stops.

    With `force` a running one is cancelled now and its lease is lost, so its result is refused.
    A second request for a running job changes nothing.
    """
    now, current = clock.now(), _lock(job)
    return _take(current, action_effects.cancel(current, now, force=force), now, actor, reason)


@transactional
def retry(
    *,
    job: AnyJob,
    actor: str,
    reason: str = "",
    host: str = "",
    context: Mapping[str, Any] | None = None,
) -> Job:
    """Run a finished job again from its last checkpoint; its attempts start at 0.

    With `host` only a worker on this host takes it; a worker must be registered there. Another
    `context` is checked as by an edit, and needs a reason.
    Conflict while a unique twin is open. One in the archive comes back from there.
    """
    now = clock.now()
    # The job may go to the archive after the first look, and somebody else may bring it back.
    current = _live(job) or restore(job.pk, actor=actor, reason=reason, now=now) or _lock(job)
    if host:
        require_host(host)
    effect = action_effects.retry(
        current, now, twins=twins_of([current]), host=host, context=context
    )
    if "context" in effect.changes:
        _require_reason(reason)
    return _take(current, effect, now, actor, reason)


@transactional
def run_now(*, job: AnyJob, actor: str, reason: str = "") -> Job:
    """Make a waiting job ready now; a ready one keeps its place.

    Its expiry counts from now.
    """
    now, current = clock.now(), _lock(job)
    return _take(current, action_effects.run_now(current, now), now, actor, reason)


@transactional
def mark_done(*, job: AnyJob, actor: str, reason: str) -> Job:
    """Mark a job as succeeded that was done elsewhere or is not needed."""
    now, current = clock.now(), _lock(job)
    return _take(current, action_effects.mark_done(current), now, actor, reason)


@transactional
def edit(*, job: AnyJob, version: int, changes: Mapping[str, Any], actor: str, reason: str) -> Job:
    """Change a waiting job: run_at, priority, max_attempts, context, affinity_host.

    A job without an attempt left by its new maximum ends as failed. Conflict when the version is no
    longer current; equal values change nothing.
    """
    now, current = clock.now(), _lock(job)
    require_version(current, version)
    effect = action_effects.edit(current, now, changes)
    if changes.get("affinity_host"):
        require_host(changes["affinity_host"], field="affinity_host")
    return _take(current, effect, now, actor, reason)


@transactional
def undo_each(
    jobs: Sequence[Job], entries: Mapping[int, JournalEntry], *, actor: str, reason: str
) -> dict[int, PlatformError]:
    """Undo the entry of each of the locked jobs; returns the refused jobs, each with the reason."""
    twins = twins_of(jobs)
    # A job that waits may have become due or got a place meanwhile, which has no entry.
    newest = undo.newest_of(Source.JOB, [job.pk for job in jobs if job.status in t.WAITING])

    def taken_back(job: Job) -> ActionEffect:
        entry = entries.get(job.pk)
        is_newest = entry is not None and newest.get(job.pk) == entry.pk
        before = undo.values_before(entry, job.version, is_newest=is_newest)
        effect = action_effects.undo(job, before, twins=twins)
        if key := effect.changes.get("unique_key"):
            twins[key] = Submitted(job.pk, False, effect.changes["status"])
        return effect

    return take_each(jobs, taken_back, actor=actor, reason=reason)


@transactional
def take_each(
    jobs: Sequence[Job], decide: Callable[[Job], ActionEffect | None], *, actor: str, reason: str
) -> dict[int, PlatformError]:
    """Take for each of the locked jobs the arrow that `decide` names, all of them at once: the
    statements are as many for one job as for a hundred. Returns the refused jobs with the reasons.
    """
    refused: dict[int, PlatformError] = {}
    taken: list[tuple[Job, ActionEffect]] = []
    for job in jobs:
        try:
            if (effect := decide(job)) is not None:
                taken.append((job, effect))
        except PlatformError as error:
            refused[job.pk] = error
    _take_all(taken, clock.now(), actor, reason)
    return refused


# --- the steps ------------------------------------------------------------------------------------
def _live(job: AnyJob) -> Job | None:
    """The row of the live table, locked until this transaction ends."""
    return Job.objects.select_for_update().filter(pk=job.pk).first()


def _lock(job: AnyJob) -> Job:
    """The row as `_live` returns it; Archived when it is in the archive, NotFound when it is
    nowhere."""
    current = _live(job)
    if current is None:
        if ArchivedJob.objects.filter(pk=job.pk).exists():
            raise Archived(
                _(
                    "Job {number} ended long ago and is among the older ones; a retry brings it "
                    "back.",
                    number=job.pk,
                )
            )
        raise NotFound(_("There is no job {number} any more.", number=job.pk))
    return current


def _take(job: Job, effect: ActionEffect | None, now: datetime, actor: str, reason: str) -> Job:
    if effect is not None:
        _take_all([(job, effect)], now, actor, reason)
    return job


def _take_all(
    taken: Sequence[tuple[Job, ActionEffect]], now: datetime, actor: str, reason: str
) -> None:
    """Take the arrows and bring the objects up to date."""
    if not HARMLESS.issuperset(effect.arrow for _job, effect in taken):
        _require_reason(reason)
    had_ended = [job.pk for job, _effect in taken if job.status in t.FINAL]
    moves = []
    for job, effect in taken:
        status = effect.changes.get("status", job.status)
        facts = {"actor": actor, "reason": reason, **effect.facts}
        if kept := _undo_record(job, effect, status, now):
            facts["data"] = {**(effect.facts.get("data") or {}), **kept}
        moves.append(
            (effect.arrow, job, effect.changes, entry_of(job, effect.event, status, now, **facts))
        )
    written = move(moves)
    for job, _effect in taken:
        for name, value in written[job.pk].items():
            setattr(job, name, value)
        job.version += 1
    _refresh([job for job, _effect in taken if job.status == t.BLOCKED])
    resumed.notify(had_ended)
    if any(job.status in t.WAITING for job, _effect in taken):
        wakeup.announce()


def _refresh(jobs: Sequence[Job]) -> None:
    """Read the states anew: jobs that were blocked may have a place already."""
    if not jobs:
        return
    rows = Job.objects.filter(pk__in=[job.pk for job in jobs])
    there = {pk: row for pk, *row in rows.values_list("pk", "status", "order_key", "version")}
    for job in jobs:
        job.status, job.order_key, job.version = there[job.pk]


def _require_reason(reason: str) -> None:
    if not reason.strip():
        raise Invalid.field("reason", _("Say why; the job's timeline shows it."))


def _undo_record(job: Job, effect: ActionEffect, status: str, now: datetime) -> dict[str, Any]:
    """The values that an undo needs; empty when a worker knows of the action or a result is gone,
    because then nothing can be undone."""
    if job.status in (t.RUNNING, t.SUCCEEDED) or effect.arrow == "undo":
        return {}
    already_logged = (effect.facts.get("data") or {}).get("before", {})
    names = {"status", *effect.changes, *t.implied(job.status, status, now)} - already_logged.keys()
    was = {name: getattr(job, name) for name in sorted(names - {"result"})}
    return undo.record(job.version + 1, was)


def twins_of(jobs: Sequence[Job]) -> dict[str, Submitted]:
    """The open jobs with the unique keys that these would have; no other one appears until the
    transaction ends."""
    return open_twins({unique_key(job.type, job.key) for job in jobs if becomes_unique(job)})


def require_host(host: str, *, field: str = "host") -> None:
    """Invalid unless a worker is registered on the host."""
    for fault in host_faults(host, field=field):
        raise Invalid.field(fault.field, fault.message)


def host_faults(host: str, *, field: str = "host") -> Iterator[FieldError]:
    """The fault of a host that no worker is registered on; none for a registered host."""
    registered = Worker.objects.exclude(state=Worker.State.GONE).order_by()
    # MariaDB and MySQL ignore trailing blanks.
    if is_key(host, MAX_HOST) and registered.filter(host=host).exists():
        return
    named = registered.exclude(host="").values_list("host", flat=True).distinct()
    text = _(
        "No worker is registered on a host {host!r}; choose one of: {known}.",
        host=host[:60],
        known=", ".join(sorted(named[:MAX_NAMED])) or _("none is registered"),
    )
    yield FieldError(field, "invalid", text)
