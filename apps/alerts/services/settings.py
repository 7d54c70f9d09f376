"""Rules and channels: each change is one transaction with one entry in the journal."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, time
from typing import Any, TypeVar

from django.conf import settings
from django.db import IntegrityError, transaction
from django.db.models import QuerySet

from apps.alerts.models import AlertRule, Channel
from apps.alerts.rules.faults import channel_faults, rule_faults
from apps.alerts.services.record import record
from apps.common import clock
from apps.common.db import fetch, table, take_version, transactional
from apps.common.errors import Conflict, FieldError, refusal
from apps.common.messages import Message as _
from apps.common.sealed import resealed

RULE_FIELDS = (
    "name",
    "kind",
    "target",
    "threshold",
    "for_seconds",
    "severity",
    "quiet_from",
    "quiet_to",
    "quiet_zone",
    "quiet_days",
    "repeat_minutes",
    "enabled",
)
CHANNEL_FIELDS = ("name", "kind", "url", "secret", "recipients", "language", "enabled")
# Never shown, not even in the journal.
_SECRET = ("url", "secret")
RowT = TypeVar("RowT", AlertRule, Channel)


def faults_of_rule(given: Mapping[str, Any]) -> list[FieldError]:
    """What is wrong with the values of a rule; left out ones are the usual ones."""
    return list(rule_faults({**_usual(AlertRule, RULE_FIELDS), **given}))


def faults_of_channel(given: Mapping[str, Any]) -> list[FieldError]:
    """What is wrong with the values of a channel; left out ones are the usual ones."""
    values = {**_usual(Channel, CHANNEL_FIELDS), **given}
    return list(channel_faults(values, has_mail=bool(settings.MAIL_HOST)))


@transactional
def create_rule(*, channels: Iterable[Channel] = (), actor: str, **values: Any) -> AlertRule:
    """A new rule; values left out take their defaults. Invalid names every wrong one; Conflict
    when the name is taken."""
    now = clock.now()
    rule = AlertRule(created_at=now, created_by=actor[:160])
    _fill(rule, values, faults_of_rule(values), now=now, actor=actor)
    _save_new(rule)
    rule.channels.set(channels)
    record(rule, "rule_created", now=now, actor=actor, after=_shown(rule, _rule_values(rule)))
    return rule


@transactional
def update_rule(
    *, rule: AlertRule, changes: Mapping[str, Any], version: int, actor: str
) -> AlertRule:
    """Change the named values, `channels` among them, and nothing else; they apply within seconds.

    Conflict when `version` is not the current one or the name is taken.
    """
    current = take_version(AlertRule, rule.pk, version)
    before = _rule_values(current)
    given = {name: value for name, value in changes.items() if name != "channels"}
    _change(current, given, faults_of_rule({**_values(current, RULE_FIELDS), **given}), actor)
    if "channels" in changes:
        current.channels.set(changes["channels"])
    after = _rule_values(current)
    _record_change(current, "rule_changed", before, after, actor)
    return current


@transactional
def delete_rule(*, rule: AlertRule, actor: str) -> None:
    """Delete a rule with its alerts and their deliveries."""
    current = take_version(AlertRule, rule.pk, None)
    record(current, "rule_deleted", now=clock.now(), actor=actor, before={"name": current.name})
    current.delete()


def unheard() -> QuerySet[AlertRule]:
    """The rules that watch, and have no enabled channel."""
    return AlertRule.objects.filter(enabled=True).exclude(channels__enabled=True)


@transactional
def create_channel(*, actor: str, **values: Any) -> Channel:
    """A new channel; see `create_rule`."""
    now = clock.now()
    channel = Channel(created_at=now, created_by=actor[:160])
    _fill(channel, values, faults_of_channel(values), now=now, actor=actor)
    _save_new(channel)
    after = _values(channel, CHANNEL_FIELDS)
    record(channel, "channel_created", now=now, actor=actor, after=_shown(channel, after))
    return channel


@transactional
def update_channel(
    *, channel: Channel, changes: Mapping[str, Any], version: int, actor: str
) -> Channel:
    """Change the named values and nothing else; see `update_rule`."""
    current = take_version(Channel, channel.pk, version)
    before = _values(current, CHANNEL_FIELDS)
    _change(current, changes, faults_of_channel({**before, **changes}), actor)
    after = _values(current, CHANNEL_FIELDS)
    _record_change(current, "channel_changed", before, after, actor)
    return current


def seal_channels() -> int:
    """Seal by the present key what is plain, from an earlier release, or sealed by an older key;
    returns of how many channels."""
    columns = ", ".join(_SECRET)
    rows = fetch(f"SELECT id, version, {columns} FROM {table(Channel)} ORDER BY id")
    done = 0
    for pk, version, *stored in rows:
        sealed = {
            name: text
            for name, old in zip(_SECRET, stored, strict=True)
            if (text := resealed(old)) is not None
        }
        if sealed:
            # An edit meanwhile has sealed it itself.
            done += Channel.objects.filter(pk=pk, version=version).update(**sealed)
    return done


@transactional
def delete_channel(*, channel: Channel, actor: str) -> None:
    """Delete a channel with its deliveries; rules go on without it."""
    current = take_version(Channel, channel.pk, None)
    record(current, "channel_deleted", now=clock.now(), actor=actor, before={"name": current.name})
    current.delete()


# --- the steps ------------------------------------------------------------------------------------
def _usual(model: type[RowT], names: Sequence[str]) -> dict[str, Any]:
    return _values(model(), names)


def _values(row: AlertRule | Channel, names: Sequence[str]) -> dict[str, Any]:
    return {name: getattr(row, name) for name in names}


def _rule_values(rule: AlertRule) -> dict[str, Any]:
    names = sorted(rule.channels.values_list("name", flat=True))
    return {**_values(rule, RULE_FIELDS), "channels": names}


def _fill(
    row: AlertRule | Channel,
    values: Mapping[str, Any],
    faults: Sequence[FieldError],
    *,
    now: datetime,
    actor: str,
) -> None:
    if faults:
        raise refusal(faults)
    for name, value in values.items():
        setattr(row, name, value)
    row.updated_at, row.updated_by = now, actor[:160]


def _change(
    row: AlertRule | Channel,
    changes: Mapping[str, Any],
    faults: Sequence[FieldError],
    actor: str,
) -> None:
    _fill(row, changes, faults, now=clock.now(), actor=actor)
    row.version += 1
    _save(row, update_fields=[*changes, "version", "updated_at", "updated_by"])


def _save_new(row: AlertRule | Channel) -> None:
    _save(row, force_insert=True)


def _save(row: AlertRule | Channel, **how: Any) -> None:
    try:
        with transaction.atomic():
            row.save(**how)
    except IntegrityError as error:
        message = _("{name} exists already; choose another name.", name=row.name)
        raise Conflict(message, errors=[FieldError("name", Conflict.code, message)]) from error


def _record_change(
    row: AlertRule | Channel,
    event: str,
    before: Mapping[str, Any],
    after: Mapping[str, Any],
    actor: str,
) -> None:
    changed = [name for name in after if after[name] != before[name]]
    if changed:
        record(
            row,
            event,
            now=clock.now(),
            actor=actor,
            before=_shown(row, {name: before[name] for name in changed}),
            after=_shown(row, {name: after[name] for name in changed}),
        )


def _shown(row: AlertRule | Channel, values: Mapping[str, Any]) -> dict[str, Any]:
    """As the journal keeps them: of secrets only that there is one."""
    shown: dict[str, Any] = {}
    for name, value in values.items():
        if isinstance(row, Channel) and name in _SECRET:
            shown[name] = "…" if value else ""
        else:
            shown[name] = value.isoformat() if isinstance(value, time) else value
    return shown
