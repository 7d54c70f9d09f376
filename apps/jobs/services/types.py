"""Job types: each change is one transaction with one entry in the journal."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from datetime import datetime
from functools import partial
from typing import Any

from django.db import transaction
from django.db.models import Q, QuerySet

from apps.common import clock, uses
from apps.common.db import transactional
from apps.common.errors import Conflict, FieldError, Invalid, NotFound
from apps.common.json.search import saying
from apps.common.json_rules import is_same
from apps.common.masking.names import check_declared, forget_declared
from apps.common.messages import Message, joined
from apps.common.messages import Message as _
from apps.common.readers import is_key
from apps.jobs import wakeup
from apps.jobs.conf import READY_MADE, conf
from apps.jobs.handlers import registry
from apps.jobs.models import Job, JobType, TypeState
from apps.jobs.rules import breaker, retention, type_settings
from apps.jobs.rules.transitions import OPEN
from apps.jobs.rules.type_settings import SETTINGS
from apps.jobs.services import admission
from apps.jobs.services.type_snapshots import forget_type_snapshots
from apps.journal.services.edit import Revision, record_edit, take_version, unless_taken

MAX_NAMED = 30
_OWN = _("The platform itself needs the type {type} as it is; choose another one.")
# Settings that could keep the jobs of a type from running, or run something else in their place.
# The platform's own types keep these as it has made them: without `deliver` nobody is notified.
_KEPT = (
    *("handler", "stages", "params_schema", "unique", "pool", "allowed_hosts"),
    *("breaker_enabled", "paused", "pause_reason", "paused_until"),
)
# The least of others: below it their jobs would not run, or not to their end.
_LEAST: Mapping[str, int] = {
    **{"max_running": 1, "rate_per_minute": 1, "expires_after_seconds": 86_400},
    **{"lease_seconds": 30, "max_processing_seconds": 30},
}


def find(name: str, bound: Collection[str] | None = None) -> JobType:
    """The type of that name; NotFound when unknown or outside the types in `bound`."""
    found = None
    if is_key(name, type_settings.MAX_NAME) and (bound is None or name in bound):
        found = JobType.objects.filter(name=name).first()
    if found is None:
        raise NotFound(_("There is no job type {name!r}.", name=name[:80]))
    return found


def names_among(names: Collection[str]) -> list[str]:
    """The given names that belong to a type."""
    return list(JobType.objects.filter(name__in=names).values_list("name", flat=True))


def schemas_with_secrets() -> Iterable[Any]:
    """The schemas of types that may declare secrets."""
    return saying(JobType.objects.all(), "params_schema", "secret")


def for_people(bound: Collection[str] | None) -> QuerySet[JobType]:
    """The types in `bound`, None for all, that are not the platform's own; by name."""
    types = JobType.objects.exclude(name__in=registry.system_types()).order_by("name")
    return types if bound is None else types.filter(name__in=bound)


def open_types(bound: Collection[str] | None) -> QuerySet[JobType]:
    """Return the types of `for_people` that others than code submit jobs of."""
    types = for_people(bound)
    for handler, opened in registry.closing().items():
        types = types.exclude(Q(name=handler) | Q(handler=handler), ~Q(name__in=opened))
    return types


@transactional
def create_type(*, name: str, actor: str, **settings: Any) -> JobType:
    """A new type; settings left out take their defaults. Invalid names every wrong one, and a name
    that the platform keeps for itself; Conflict when the name is taken."""
    if registry.is_system(name):
        raise Invalid.field("name", Message(_OWN, type=name))
    return _create(name, settings, actor=actor)


@transactional
def _create(name: str, settings: Mapping[str, Any], *, actor: str) -> JobType:
    now = clock.now()
    errors = list(type_settings.name_faults(name))
    job_type = JobType.made(name=name, now=now, actor=actor)
    _fill(Revision(job_type), settings, errors=errors)
    _note_pause(job_type, now, actor)
    there = _("{name} exists already; change it by PATCH /api/v1/job-types/{name}/.", name=name)
    with unless_taken(there, field="name"):
        job_type.save(force_insert=True)
    record_edit(job_type, "type_created", now=now, actor=actor, after=job_type.journal_values())
    _forget()
    return job_type


@transactional
def update_type(
    *,
    job_type: JobType,
    changes: Mapping[str, Any],
    actor: str,
    version: int | None = None,
    reason: str = "",
) -> JobType:
    """Change the named settings and nothing else; they apply at the next hold or submission.

    Conflict when `version` is given and no longer current.
    """
    revision = Revision.of(job_type, version)
    return _change(revision, changes, "type_changed", now=clock.now(), actor=actor, reason=reason)


@transactional
def pause_type(
    *, job_type: JobType, reason: str, actor: str, until: datetime | None = None
) -> JobType:
    """Hold no jobs of the type until the instant, or until it is resumed. Running jobs finish.

    Conflict when it is one of the platform itself.
    """
    now = clock.now()
    require_not_own(job_type.name)
    if not reason.strip():
        raise Invalid.field("reason", _("Say why the type is paused; its page and lists show it."))
    if until is not None and until.tzinfo is not None and until <= now:
        raise Invalid.field("until", _("{at} is past; choose a later time.", at=until))
    changes = {"paused": True, "pause_reason": reason, "paused_until": until}
    revision = Revision.of(job_type)
    return _change(revision, changes, "type_paused", now=now, actor=actor, reason=reason)


def require_not_own(name: str) -> None:
    """Conflict when the platform itself needs the type: it is neither paused nor deleted."""
    if registry.is_system(name):
        raise Conflict(Message(_OWN, type=name))


@transactional
def resume_type(*, job_type: JobType, actor: str, reason: str = "") -> JobType:
    """Hold its jobs again; a type that is not paused does not change."""
    changes = {"paused": False, "pause_reason": "", "paused_until": None}
    revision = Revision.of(job_type)
    return _change(revision, changes, "type_resumed", now=clock.now(), actor=actor, reason=reason)


@transactional
def reset_breaker(*, job_type: JobType, actor: str, reason: str) -> bool:
    """Close its breaker and reset its counts; False when it was closed already."""
    now = clock.now()
    state = TypeState.objects.select_for_update().filter(type=job_type.name).first()
    if state is None or state.breaker == breaker.CLOSED:
        return False
    before = state.breaker
    state.breaker_state = breaker.BreakerState(since=now)
    state.save()
    record_edit(
        job_type,
        "breaker_reset",
        now=now,
        actor=actor,
        reason=reason,
        before={"breaker": before},
        after={"breaker": state.breaker},
    )
    _forget()
    wakeup.announce()
    return True


@transactional
def delete_type(
    *, job_type: JobType, actor: str, version: int | None = None, reason: str = ""
) -> None:
    """Delete a type without jobs, or with archived ones only; Conflict otherwise, and when it is
    one of the platform itself."""
    current = take_version(job_type, version)
    require_not_own(current.name)
    if Job.objects.filter(type=current.name).exists():
        raise Conflict(
            _(
                "There are jobs of type {type}; ended ones count until they are among the older "
                "ones. Pause it instead.",
                type=current.name,
            )
        )
    if used := uses.of(uses.JOB_TYPE, current.name):
        raise Conflict(uses.refusal(current.name, used))
    before = current.journal_values()
    record_edit(current, "type_deleted", now=clock.now(), actor=actor, reason=reason, before=before)
    _forget()
    TypeState.objects.filter(type=current.name).delete()
    current.delete()


def ensure_types(
    names: Collection[str],
    defaults: Mapping[str, Mapping[str, Any]] | None = None,
    *,
    actor: str = "",
) -> list[str]:
    """Make the missing type of each handler; returns the names of the new types.

    `defaults` holds settings by name. Existing types keep what operators have set.
    """
    there = set(JobType.objects.filter(name__in=names).values_list("name", flat=True))
    made = []
    for name in sorted(set(names) - there):
        settings = {"handler": name, **(defaults or {}).get(name, {})}
        try:
            _create(name, settings, actor=actor)
        except Conflict:
            # Another process that started together was faster.
            if not JobType.objects.filter(name=name).exists():
                raise
        else:
            made.append(name)
    return made


def make_types(*, actor: str) -> list[str]:
    """Make a job type for each handler of this process that has none; for ready-made ones on wish:
    every key that submits jobs could keep workers busy with them. Returns the names of the new."""
    unwanted = {*READY_MADE} - {*conf.JOB_READY_MADE}
    settings = {
        name: entry.settings
        for name, entry in registry.known.handlers.items()
        if name not in unwanted and not (entry.of_many or entry.when_needed)
    }
    settings |= registry.known.types
    return ensure_types(settings, settings, actor=actor)


# --- the steps ----------------------------------------------------------------------------------
def _note_pause(job_type: JobType, now: datetime, actor: str) -> None:
    job_type.paused_at = now if job_type.paused else None
    job_type.paused_by = actor[:160] if job_type.paused else ""


def _change(
    revision: Revision[JobType], changes: Mapping[str, Any], event: str, **logged: Any
) -> JobType:
    """Validate the changes and write them, if they change anything."""
    _fill(revision, changes, errors=[])
    if "paused" in revision.changed:
        _note_pause(revision.row, logged["now"], logged["actor"])
    if revision.write(event, **logged):
        _forget()
        if any(name.startswith("limit_") for name in revision.changed):
            admit_it = partial(admission.admit_type, revision.row.name)
            transaction.on_commit(admit_it, robust=True)
        # More may run now than before.
        wakeup.announce()
    return revision.row


def _fill(
    revision: Revision[JobType], changes: Mapping[str, Any], *, errors: list[FieldError]
) -> None:
    """Set the changes on the row. Invalid lists every error, those in `errors` included."""
    job_type = revision.row
    for name in changes.keys() - set(SETTINGS):
        errors.append(
            FieldError(name, "invalid", _("A job type has no setting {name}.", name=name))
        )
    changed = revision.fill({name: changes[name] for name in SETTINGS if name in changes})
    if "paused" in changed and not job_type.paused:
        # Resuming clears the reason and the end of the pause, unless they are given.
        usual = {"pause_reason": "", "paused_until": None}
        changed = revision.fill({name: usual[name] for name in usual if name not in changes})
    if "pool" in changed and _has_open_jobs(job_type):
        open_jobs = _("{type} has open jobs, whose order would mean something else.")
        errors.append(FieldError("pool", "invalid", Message(open_jobs, type=job_type.name)))
    settings = {name: getattr(job_type, name) for name in SETTINGS}
    errors += type_settings.faults(settings, changed=frozenset(changed))
    if "handler" in changed and not any(each.field == "handler" for each in errors):
        errors += _handler_faults(job_type.handler)
        errors += _borrowed_handler_faults(job_type)
    if registry.is_system(job_type.name):
        errors += _own_type_faults(job_type, changed)
    if "retention_days" in changed and not any(e.field == "retention_days" for e in errors):
        errors += _retention_faults(job_type.retention_days)
    if errors:
        raise Invalid(joined(error.named for error in errors[:3]), errors=errors)
    if "params_schema" in changed:
        check_declared(job_type.params_schema, field="params_schema")


def _has_open_jobs(job_type: JobType) -> bool:
    return Job.objects.filter(type=job_type.name, status__in=OPEN).exists()


def _handler_faults(handler: str) -> Iterator[FieldError]:
    """An error if no such handler exists: no worker would start with it."""
    if handler and registry.find(handler) is None:
        known = ", ".join(sorted({*registry.names()} - registry.closing().keys())[:MAX_NAMED])
        yield FieldError(
            "handler",
            "invalid",
            _(
                "There is no handler {handler!r} here. Add it to an app of EXTRA_APPS first, or "
                "name one of: {known}.",
                handler=handler,
                known=known,
            ),
        )


def _borrowed_handler_faults(job_type: JobType) -> Iterator[FieldError]:
    """An error if the handler is that of a type whose jobs only code submits: whoever submits jobs
    of this type would choose what they do."""
    is_own = registry.known.types.get(job_type.name, {}).get("handler") == job_type.handler
    if job_type.handler != job_type.name and not is_own and registry.is_closed(job_type.handler):
        message = _(
            "The handler {handler!r} runs the jobs of its own types alone; name another one.",
            handler=job_type.handler,
        )
        yield FieldError("handler", "invalid", message)


def _own_type_faults(job_type: JobType, changed: Collection[str]) -> Iterator[FieldError]:
    """An error for each change that would keep the jobs of a type of the platform from running."""
    entry, usual = registry.find(job_type.name), JobType()
    own: dict[str, Any] = {name: getattr(usual, name) for name in _KEPT}
    own |= {"handler": job_type.name, **({} if entry is None else entry.settings)}
    for name in changed:
        value = getattr(job_type, name)
        is_other = name in _KEPT and not is_same(value, own[name])
        is_too_low = name in _LEAST and isinstance(value, int) and value < _LEAST[name]
        if is_other or is_too_low:
            yield FieldError(name, "invalid", Message(_OWN, type=job_type.name))


def _retention_faults(days: int | None) -> Iterator[FieldError]:
    """An error if jobs of one type cannot be kept for so many days."""
    if days is None:
        return
    limits = {"retention": conf.JOB_RETENTION, "archive_after": conf.JOB_ARCHIVE_AFTER}
    if retention.is_possible(days, **limits):
        return
    least, most = retention.possible_days(**limits)
    message = (
        _(
            "{days} does not do: jobs are among the older ones after {least} days.",
            days=days,
            least=least,
        )
        if most is None or days < least
        else _(
            "{days} does not do: no job is kept for more than {most} days.", days=days, most=most
        )
    )
    yield FieldError("retention_days", "invalid", message)


def _forget() -> None:
    """Read the types anew: here at once, elsewhere within a second."""
    for forget in (forget_type_snapshots, forget_declared):
        forget()
        transaction.on_commit(forget)
