"""Planning recurring jobs. Every edit is one transaction with one journal entry."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from datetime import datetime
from itertools import islice
from types import MappingProxyType
from typing import Any

from apps.common import clock
from apps.common.db import transactional
from apps.common.errors import Conflict, Invalid, NotFound
from apps.common.masking import kept
from apps.common.messages import Message as _
from apps.common.shaped import stored
from apps.jobs.models import Bounds
from apps.jobs.services.submit import submit
from apps.journal.services.edit import Revision, record_edit
from apps.schedules.models import Schedule, ScheduleRun
from apps.schedules.rules.limits import MAX_TITLE
from apps.schedules.rules.occurrences import ONLY
from apps.schedules.services.validation import check, check_names

ACTIVE, PAUSED, DELETED = Schedule.Status.ACTIVE, Schedule.Status.PAUSED, Schedule.Status.DELETED


@transactional
def create_schedule(
    *,
    actor: str,
    title: str,
    job_type: str,
    bounds: Bounds | None = None,
    model: type[Schedule] = Schedule,
    links: Mapping[str, Iterable[Any]] = MappingProxyType({}),
    **fields: Any,
) -> Schedule:
    """Plan jobs of the type; fields as the model has them, with `links` to many rows, `start_at`
    defaults to now.

    Invalid with every wrong field, the context against the type's schema included. Types outside
    the bounds count as unknown.
    """
    now = clock.now()
    fields |= {"title": title, "job_type": job_type}
    schedule = _draft(model, fields, now=now, actor=actor)
    check(schedule, bounds or Bounds(), due_since=schedule.start_at)
    schedule.next_at = _first_from(schedule, _after_missed(schedule, now))
    schedule.save(force_insert=True)
    for name, rows in links.items():
        getattr(schedule, name).set(rows)
    record_edit(schedule, "schedule_created", now=now, actor=actor, after=schedule.journal_values())
    return schedule


def _draft(model: type[Schedule], fields: dict[str, Any], *, now: datetime, actor: str) -> Schedule:
    check_names(fields, model)
    # Forms show and send back whole seconds.
    start_at = fields.get("start_at") or now.replace(microsecond=0)
    return model.made(**{**fields, "start_at": start_at}, now=now, actor=actor)


@transactional
def update_schedule(
    *,
    schedule: Schedule,
    changes: dict[str, Any],
    actor: str,
    version: int | None = None,
    bounds: Bounds | None = None,
    reason: str = "",
) -> Schedule:
    """Change the named fields and nothing else; jobs made already stay as they are.

    A schedule whose rule, zone or start changed, or that got another end after it had ended, has no
    occurrences before this moment. Conflict when `version` is given and no longer current, or the
    schedule is deleted.
    """
    now = clock.now()
    check_names(changes, type(schedule))
    revision = _live_revision(schedule, version)
    current = revision.row
    had_ended = current.end_at is not None and current.end_at <= now
    changed = revision.fill(changes)
    if not changed:
        return current
    is_new = not set(changed).isdisjoint(Schedule.rule_fields)
    if "context" not in changed:
        current.context = kept(current.context)
    check(current, bounds or Bounds(), due_since=now if is_new else None)
    since = current.next_at or now
    goes_on = "end_at" in changed and had_ended
    if goes_on or is_new:
        _require_another_run(current)
        since = now
    if current.status == ACTIVE:
        current.next_at = _first_from(current, since)
    revision.write("schedule_changed", now=now, actor=actor, reason=reason)
    return current


def _require_another_run(schedule: Schedule) -> None:
    """Invalid when it has no rule and its one occurrence is over already."""
    if schedule.rule is None and schedule.runs.filter(occurrence=ONLY).exists():
        message = _("It has run already, and without a rule it runs once; copy it to run it again.")
        raise Invalid.field("start_at", message)


@transactional
def pause(*, schedule: Schedule, actor: str, version: int | None = None, reason: str = "") -> bool:
    """Make no jobs until it is resumed; False when it is paused already."""
    return _set_status(_live_revision(schedule, version), PAUSED, actor=actor, reason=reason)


@transactional
def resume(*, schedule: Schedule, actor: str, version: int | None = None, reason: str = "") -> bool:
    """Make jobs again, for no occurrence of the past; False when it is active already."""
    return _set_status(_live_revision(schedule, version), ACTIVE, actor=actor, reason=reason)


@transactional
def delete_schedule(
    *, schedule: Schedule, actor: str, version: int | None = None, reason: str = ""
) -> bool:
    """Mark it deleted, so that it makes no more jobs; False when it was already."""
    return _set_status(Revision.of(schedule, version), DELETED, actor=actor, reason=reason)


_EVENTS = {
    ACTIVE: "schedule_resumed",
    PAUSED: "schedule_paused",
    DELETED: "schedule_deleted",
}


def _set_status(
    revision: Revision[Schedule], status: Schedule.Status, *, actor: str, reason: str
) -> bool:
    now, current = clock.now(), revision.row
    if revision.fill({"status": status}):
        current.next_at = _first_from(current, now) if status == ACTIVE else None
    return revision.write(_EVENTS[status], now=now, actor=actor, reason=reason)


@transactional
def copy(*, schedule: Schedule, actor: str, reason: str = "") -> Schedule:
    """A paused copy, which makes nothing until somebody has changed and resumed it."""
    now = clock.now()
    fields = {name: getattr(schedule, name) for name in Schedule.editable}
    made = _draft(Schedule, fields, now=now, actor=actor)
    made.title = f"{schedule.title[: MAX_TITLE - len(COPY)]}{COPY}"
    made.status = PAUSED
    made.save(force_insert=True)
    record_edit(
        made,
        "schedule_copied",
        now=now,
        actor=actor,
        reason=reason,
        after=made.journal_values(),
        more={"copied_from": schedule.subject},
    )
    return made


COPY = " (copy)"


@transactional
def run_now(
    *, schedule: Schedule, actor: str, bounds: Bounds | None = None, reason: str = ""
) -> ScheduleRun:
    """Make one job at once, beside those of the rule, also of a schedule that is paused.

    Conflict when it is deleted; Invalid when its type is gone or refuses the context.
    """
    now = clock.now()
    current = _live_revision(schedule).row
    made = submit(
        current.job_type,
        kept(stored(current.context)),
        # Not the key of any occurrence, nor of another run by hand.
        key=f"{current.subject}@{now.timestamp():.6f}",
        priority=current.priority,
        max_attempts=current.max_attempts,
        by=actor,
        bounds=bounds,
    )
    run = ScheduleRun(schedule=current, occurrence=-made.id, at=now, job=made.id)
    run.save(force_insert=True)
    trouble = "" if current.trouble == Schedule.Trouble.UNMADE else current.trouble
    Schedule.objects.filter(pk=current.pk).update(last_job=made.id, trouble=trouble)
    record_edit(
        current, "schedule_run", now=now, actor=actor, reason=reason, after={"job": str(made.id)}
    )
    return run


# --- reading ------------------------------------------------------------------------------------
def find_schedule(pk: int, *, types: Collection[str] | None = None) -> Schedule:
    """The schedule, unless deleted; NotFound also when it is of no type in `types`."""
    found = Schedule.objects.not_deleted().within(types)
    schedule = found.filter(pk=pk).first() if pk < 2**63 else None
    if schedule is None:
        raise NotFound(_("There is no schedule {number}.", number=str(pk)[:40]))
    return schedule


def next_runs(fields: dict[str, Any], limit: int, *, is_new: bool) -> list[datetime]:
    """When a schedule with these valid fields would make its next jobs."""
    now = clock.now()
    fields = {**fields, "title": "", "job_type": ""}
    schedule = _draft(Schedule, fields, now=now, actor="")
    since = _after_missed(schedule, now) if is_new else now
    return [*islice(schedule.recurrence.after(since), limit)]


# --- steps --------------------------------------------------------------------------------------
def _live_revision(schedule: Schedule, version: int | None = None) -> Revision[Schedule]:
    """The revision of the locked row; Conflict when it is deleted."""
    revision = Revision.of(schedule, version)
    if revision.row.status == DELETED:
        raise Conflict(_("Schedule {number} is deleted; plan a new one.", number=schedule.pk))
    return revision


def _first_from(schedule: Schedule, instant: datetime) -> datetime | None:
    """The first occurrence from then on."""
    return next(iter(schedule.recurrence.after(instant)), None)


def _after_missed(schedule: Schedule, now: datetime) -> datetime:
    """The first instant that a new schedule still makes a job for, or now."""
    schedule.next_at = schedule.start_at
    return min([*schedule.due(now, now).instants, now])
