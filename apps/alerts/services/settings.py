"""Rules and channels: each change is one transaction with one entry in the journal."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import partial
from typing import Any, TypeVar

from django.conf import settings
from django.db.models import Exists, OuterRef, Q, QuerySet

from apps.alerts.models import AlertRule, Channel
from apps.alerts.rules.faults import channel_faults, rule_faults
from apps.common import clock
from apps.common.db import fetch, table, transactional
from apps.common.errors import FieldError, refusal
from apps.common.messages import Message
from apps.common.messages import Message as _
from apps.common.sealed import resealed
from apps.journal.services.edit import Revision, record_edit, take_version, unless_taken
from apps.reports.watches import FOR_RULES

RowT = TypeVar("RowT", AlertRule, Channel)
# How the events of each begin.
_EVENTS: Mapping[type, str] = {AlertRule: "rule", Channel: "channel"}


def faults(row: AlertRule | Channel, changes: Mapping[str, Any]) -> list[FieldError]:
    """The mistakes in the row if it had these values."""
    values = {**row.__dict__, **changes}
    if isinstance(row, AlertRule):
        limits = {kind: watch.limit for kind, watch in FOR_RULES.items()}
        return list(rule_faults(values, limits))
    return list(channel_faults(values, has_mail=bool(settings.MAIL_HOST)))


@transactional
def create(
    model: type[RowT], *, channels: Iterable[Channel] = (), actor: str, **values: Any
) -> RowT:
    """A new rule, which notifies the channels, or a new channel; values left out take their
    defaults. Invalid names every wrong one; Conflict when the name is taken."""
    now = clock.now()
    _require_no_fault(model(), values)
    row = model.made(**values, now=now, actor=actor)
    with unless_taken(_taken(row.name), field="name"):
        row.save(force_insert=True)
    if isinstance(row, AlertRule):
        row.channels.set(channels)
    event = f"{_EVENTS[model]}_created"
    record_edit(row, event, now=now, actor=actor, after=row.journal_values())
    return row


create_rule = partial(create, AlertRule)
create_channel = partial(create, Channel)


@transactional
def update(row: RowT, changes: Mapping[str, Any], *, version: int, actor: str) -> RowT:
    """Change the named values and nothing else; they apply within seconds.

    Conflict when `version` is not the current one or the name is taken.
    """
    revision = Revision.of(row, version)
    _require_no_fault(revision.row, changes)
    revision.fill(changes)
    with unless_taken(_taken(revision.row.name), field="name"):
        revision.write(f"{_EVENTS[type(row)]}_changed", now=clock.now(), actor=actor)
    if isinstance(row, Channel):
        # It may be another server, or somebody has mended it.
        Channel.objects.filter(pk=row.pk).update(silent_since=None, silent_until=None)
    return revision.row


@transactional
def delete(row: AlertRule | Channel, *, actor: str) -> None:
    """Delete a rule with its alerts, or a channel, without which rules go on; and their
    deliveries."""
    current = take_version(row)
    event, before = f"{_EVENTS[type(row)]}_deleted", {"name": current.name}
    record_edit(current, event, now=clock.now(), actor=actor, before=before)
    current.delete()


def rules_without_channel() -> QuerySet[AlertRule]:
    """The enabled rules without an enabled channel, of their own or by default."""
    return AlertRule.objects.filter(~has_enabled_channel(), enabled=True)


def has_enabled_channel(rule: str = "pk") -> Q:
    """The condition that an enabled channel takes the alerts of the rule whose key is in that
    column: one of its own channels, else a default one."""
    links = AlertRule.channels.through.objects.filter(alertrule=OuterRef(rule))
    default = Channel.objects.filter(is_default=True, enabled=True)
    return Q(Exists(links.filter(channel__enabled=True))) | Q(~Exists(links), Exists(default))


def seal_channels() -> int:
    """Seal by the present key what is plain, from an earlier release, or sealed by an older key;
    returns of how many channels."""
    columns = ", ".join(Channel.secrets)
    rows = fetch(f"SELECT id, version, {columns} FROM {table(Channel)} ORDER BY id")
    done = 0
    for pk, version, *stored in rows:
        sealed = {
            name: text
            for name, old in zip(Channel.secrets, stored, strict=True)
            if (text := resealed(old)) is not None
        }
        if sealed:
            # An edit meanwhile has sealed it itself.
            done += Channel.objects.filter(pk=pk, version=version).update(**sealed)
    return done


# --- the steps ------------------------------------------------------------------------------------
def _require_no_fault(row: AlertRule | Channel, changes: Mapping[str, Any]) -> None:
    if found := faults(row, changes):
        raise refusal(found)


def _taken(name: str) -> Message:
    return _("{name} exists already; choose another name.", name=name)
