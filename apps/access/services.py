"""Create, change, rotate and revoke API keys; each is one transaction with one journal entry.

A secret is returned once and neither stored nor logged.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict
from datetime import datetime, timedelta
from typing import Any

from apps.access.models import ApiClient, State
from apps.access.rules import keys
from apps.access.rules.clients import ClientTerms, validated
from apps.common import clock
from apps.common.db import transactional
from apps.common.errors import Conflict, Invalid, NotFound
from apps.common.messages import Message as _
from apps.journal.services.edit import record_edit, require_version

KEEP_OLD = timedelta(hours=24)
MAX_KEEP_OLD = timedelta(days=30)


def find(client_id: str) -> ApiClient:
    """The client with that id; NotFound otherwise."""
    client = None
    if keys.is_client_id(client_id):
        client = ApiClient.objects.filter(client_id=client_id).first()
    if client is None:
        raise NotFound(
            _("There is no API client {id!r}; list them and take an id.", id=client_id[:80])
        )
    return client


@transactional
def create_client(
    *,
    name: str,
    scopes: Iterable[str],
    executors: Iterable[str] = (),
    job_types: Iterable[str] = (),
    expires_at: datetime | None = None,
    rate: str = "",
    actor: str,
) -> tuple[ApiClient, str]:
    """A new client and its key `<client-id>.<secret>`, which is returned only here.

    Empty `executors` and `job_types` allow all, `rate` "" means no limit. Invalid names every wrong
    field.
    """
    now = clock.now()
    terms = validated(
        ClientTerms(
            name=name,
            scopes=tuple(scopes),
            executors=tuple(executors),
            job_types=tuple(job_types),
            expires_at=expires_at,
            rate=rate,
        ),
        now=now,
    )
    secret = keys.new_secret()
    client = ApiClient.objects.create(
        client_id=_free_client_id(terms.name),
        secret_hash=keys.digest_of(secret),
        created_at=now,
        created_by=actor[:160],
        **_columns(terms),
    )
    _record(client, "client_created", now=now, actor=actor, to_state=State.LIVE, after=terms)
    return client, keys.key_text(client.client_id, secret)


@transactional
def edit_client(
    client: ApiClient,
    *,
    name: str,
    scopes: Iterable[str],
    executors: Iterable[str],
    job_types: Iterable[str],
    expires_at: datetime | None,
    rate: str,
    version: int,
    actor: str,
) -> ApiClient:
    """Give the client new terms; only changed columns are written, and no change writes nothing.

    Invalid names every wrong field; Conflict when `version` is not the current one or the key is
    revoked.
    """
    now = clock.now()
    current = _locked(client)
    require_version(current, version)
    _require_not_revoked(current)
    before = current.terms()
    after = validated(
        ClientTerms(
            name=name,
            scopes=tuple(scopes),
            executors=tuple(executors),
            job_types=tuple(job_types),
            expires_at=expires_at,
            rate=rate,
        ),
        now=now,
        agreed=before,
    )
    old, new = _columns(before), _columns(after)
    changed = {column: value for column, value in new.items() if value != old[column]}
    if changed:
        from_state = current.state(now)
        _write(current, changed)
        _record(
            current,
            "client_changed",
            now=now,
            actor=actor,
            from_state=from_state,
            to_state=current.state(now),
            before=before,
            after=after,
        )
    return current


@transactional
def rotate(
    client: ApiClient, *, actor: str, reason: str = "", keep_old: timedelta = KEEP_OLD
) -> str:
    """A new key for the client; the old one stays valid for `keep_old`, earlier ones end.

    Conflict when the key is revoked or expired, or was changed since the caller read it: if two
    operators rotated at once, one would pass on a key that the other has replaced.
    """
    if not timedelta(0) <= keep_old <= MAX_KEEP_OLD:
        raise Invalid.field(
            "keep_old",
            _(
                "The old key cannot be kept for {long}; the limit is {limit} days.",
                long=str(keep_old),
                limit=MAX_KEEP_OLD.days,
            ),
        )
    now = clock.now()
    current = _locked(client)
    _require_not_revoked(current)
    if current.expires_at is not None and current.state(now) == State.EXPIRED:
        raise Conflict(
            _(
                "{id} expired at {at}; give it a later expiry first.",
                id=current.client_id,
                at=current.expires_at.replace(microsecond=0),
            )
        )
    if current.version != client.version:
        raise Conflict(
            _(
                "{id} was changed or rotated by somebody else just now; check it before "
                "rotating it.",
                id=current.client_id,
            )
        )
    secret = keys.new_secret()
    _write(
        current,
        {
            "secret_hash": keys.digest_of(secret),
            "previous_hash": current.secret_hash,
            "previous_valid_until": now + keep_old,
        },
    )
    _record(
        current,
        "client_rotated",
        now=now,
        actor=actor,
        reason=reason,
        from_state=State.LIVE,
        to_state=State.LIVE,
        extra={"previous_valid_until": _text(current.previous_valid_until)},
    )
    return keys.key_text(current.client_id, secret)


@transactional
def revoke(client: ApiClient, *, actor: str, reason: str = "") -> bool:
    """Revoke the key, in every process within a second; False when it was revoked already.

    There is no check of the version: a revocation always counts.
    """
    now = clock.now()
    current = _locked(client)
    if current.revoked_at is not None:
        return False
    from_state = current.state(now)
    _write(current, {"revoked_at": now})
    _record(
        current,
        "client_revoked",
        now=now,
        actor=actor,
        reason=reason,
        from_state=from_state,
        to_state=State.REVOKED,
    )
    return True


def _free_client_id(name: str) -> str:
    while True:
        client_id = keys.new_client_id(name)
        if not ApiClient.objects.filter(client_id=client_id).exists():
            return client_id


def _locked(client: ApiClient) -> ApiClient:
    return ApiClient.objects.select_for_update().get(pk=client.pk)


def _require_not_revoked(client: ApiClient) -> None:
    if client.revoked_at is not None:
        raise Conflict(
            _(
                "{id} was revoked at {at}, which is final; create a new client instead.",
                id=client.client_id,
                at=client.revoked_at.replace(microsecond=0),
            )
        )


def _write(client: ApiClient, changes: Mapping[str, Any]) -> None:
    for column, value in changes.items():
        setattr(client, column, value)
    client.version += 1
    client.save(update_fields=[*changes, "version"])


def _columns(terms: ClientTerms) -> dict[str, Any]:
    """The terms as the model keeps them: JSON has lists, not tuples."""
    return {
        column: list(value) if isinstance(value, tuple) else value
        for column, value in asdict(terms).items()
    }


def _as_data(terms: ClientTerms | None) -> dict[str, Any]:
    """The terms as the journal keeps them."""
    return (
        {} if terms is None else {**_columns(terms), "expires_at": _text(terms.expires_at) or None}
    )


def _text(instant: datetime | None) -> str:
    return "" if instant is None else instant.isoformat(timespec="seconds")


def _record(
    client: ApiClient,
    event: str,
    *,
    now: datetime,
    actor: str,
    reason: str = "",
    from_state: str = "",
    to_state: str,
    before: ClientTerms | None = None,
    after: ClientTerms | None = None,
    extra: Mapping[str, Any] | None = None,
) -> None:
    old, new = _as_data(before), _as_data(after)
    changed = {key for key in new if old.get(key) != new[key]}
    record_edit(
        client,
        event,
        now=now,
        actor=actor,
        reason=reason,
        from_state=from_state,
        to_state=to_state,
        before={key: value for key, value in old.items() if key in changed},
        after={key: new[key] for key in new if key in changed},
        more=extra,
    )
