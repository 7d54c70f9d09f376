"""Create, change, rotate and revoke API keys; each is one transaction with one journal entry.

A secret is returned once and neither stored nor logged.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from datetime import timedelta
from typing import Any

from django.utils.translation import gettext

from apps.access.directory import directory_of
from apps.access.models import ApiClient, State
from apps.access.rules import keys
from apps.access.rules.clients import Binding, ClientTerms, validated
from apps.common import clock
from apps.common.db import transactional
from apps.common.errors import Conflict, Invalid, NotFound
from apps.common.messages import Message as _
from apps.journal.services.edit import Revision, record_edit

KEEP_OLD = timedelta(hours=24)
MAX_KEEP_OLD = timedelta(days=30)


def find(client_id: str) -> ApiClient:
    """The client with that id; NotFound otherwise."""
    client = None
    if keys.is_client_id(client_id):
        client = ApiClient.objects.filter(client_id=client_id).first()
    if client is None:
        raise NotFound(
            _("There is no API key {id!r}; list them and take an id.", id=client_id[:80])
        )
    return client


def unknown_names(clients: Iterable[ApiClient]) -> dict[str, set[str]]:
    """The names that these keys are bound to and that nothing has, by field; one query for each."""
    clients = list(clients)
    unknown = {}
    for field in Binding:
        names = {name for client in clients for name in getattr(client, field)}
        found = directory_of(field).existing(names) if names else ()
        unknown[str(field)] = names - set(found)
    return unknown


def warnings_of(client: ApiClient) -> list[str]:
    """A sentence for each kind of names that the key is bound to and that do not exist."""
    sentences = {
        Binding.EXECUTORS: gettext(
            "Nobody has the name: %(names)s. The key finds nothing there until "
            "one is made; check the spelling."
        ),
        Binding.JOB_TYPES: gettext(
            "No job type has the name: %(names)s. The key finds nothing there until one is made; "
            "check the spelling."
        ),
    }
    return [
        sentences[Binding(field)] % {"names": ", ".join(sorted(names))}
        for field, names in unknown_names([client]).items()
        if names
    ]


@transactional
def create_client(*, actor: str, **terms: Any) -> tuple[ApiClient, str]:
    """A new client with these `ClientTerms`, and its key `<client-id>.<secret>`, which is returned
    only here.

    Invalid names every wrong field.
    """
    now = clock.now()
    agreed = validated(ClientTerms(**terms), now=now)
    secret = keys.new_secret()
    client = ApiClient.objects.create(
        client_id=_free_client_id(agreed.name),
        secret_hash=keys.digest_of(secret),
        created_at=now,
        created_by=actor[:160],
        **vars(agreed),
    )
    live = {"to_state": State.LIVE}
    record_edit(
        client, "client_created", now=now, actor=actor, after=client.journal_values(), **live
    )
    return client, keys.key_text(client.client_id, secret)


@transactional
def edit_client(client: ApiClient, *, version: int, actor: str, **terms: Any) -> ApiClient:
    """Give the client these of its `ClientTerms`; only changed columns are written, and no change
    writes nothing.

    Invalid names every wrong field; Conflict when `version` is not the current one or the key is
    revoked.
    """
    now = clock.now()
    revision = Revision.of(client, version)
    current = revision.row
    _require_not_revoked(current)
    from_state = current.state(now)
    before = current.terms()
    revision.fill(vars(validated(replace(before, **terms), now=now, agreed=before)))
    states = {"from_state": from_state, "to_state": current.state(now)}
    revision.write("client_changed", now=now, actor=actor, **states)
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
    revision = Revision.of(client)
    current = revision.row
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
    current.previous_hash, current.secret_hash = current.secret_hash, keys.digest_of(secret)
    current.previous_valid_until = now + keep_old
    revision.write(
        "client_rotated",
        now=now,
        actor=actor,
        reason=reason,
        from_state=State.LIVE,
        to_state=State.LIVE,
        more={"previous_valid_until": current.journal_value("previous_valid_until")},
    )
    return keys.key_text(current.client_id, secret)


@transactional
def revoke(client: ApiClient, *, actor: str, reason: str = "") -> bool:
    """Revoke the key, in every process within a second; False when it was revoked already.

    There is no check of the version: a revocation always counts.
    """
    now = clock.now()
    revision = Revision.of(client)
    current = revision.row
    if current.revoked_at is not None:
        return False
    states = {"from_state": current.state(now), "to_state": State.REVOKED}
    current.revoked_at = now
    return revision.write("client_revoked", now=now, actor=actor, reason=reason, **states)


def _free_client_id(name: str) -> str:
    while True:
        client_id = keys.new_client_id(name)
        if not ApiClient.objects.filter(client_id=client_id).exists():
            return client_id


def _require_not_revoked(client: ApiClient) -> None:
    if client.revoked_at is not None:
        raise Conflict(
            _(
                "{id} was revoked at {at}, which is final; make a new key instead.",
                id=client.client_id,
                at=client.revoked_at.replace(microsecond=0),
            )
        )
