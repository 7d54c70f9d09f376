"""Authentication by API keys in the Authorization header."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import NoReturn

from django.db import DatabaseError
from django.db.models import Q
from rest_framework.authentication import BaseAuthentication
from rest_framework.request import Request

from apps.access import throttles
from apps.access.models import ApiClient, State
from apps.access.rules import keys
from apps.access.rules.clients import Client
from apps.common import clock
from apps.common.errors import NotAuthenticated, Throttled

logger = logging.getLogger(__name__)

# Half of the second within which a revoked key must stop working everywhere.
BELIEVED_SECONDS = 0.5
MAX_BELIEVED = 10_000
LAST_USED_PERIOD = timedelta(minutes=1)

REFUSED = "This API key is not valid; ask an operator for one that is."
TOO_MANY = "Too many wrong API keys from this address; wait before trying the next."


@dataclass(frozen=True, slots=True)
class Opened:
    """A key that opened: its row, the client that it stands for, and when it was read."""

    row: ApiClient
    client: Client
    read_at: float


class KeyLookup:
    """Finds the client of a key; each process caches a valid key for half a second.

    A key that the cached row refuses is checked against the row in the database. So a key
    works as soon as it is made, and an unknown id costs the same read as a wrong secret.
    """

    def __init__(self, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._monotonic = monotonic
        self._believed: dict[str, Opened] = {}

    def find(self, credentials: keys.Credentials, now: datetime) -> Opened | None:
        """The key whose secret has that digest and opens now; None for every other case."""
        asked_at = self._monotonic()
        known = self._believed.get(credentials.client_id)
        if (
            known is not None
            and asked_at - known.read_at < BELIEVED_SECONDS
            and known.row.opens_with(credentials.digest, now)
        ):
            return known
        row = ApiClient.objects.filter(client_id=credentials.client_id).first()
        # An unknown id takes as long as a known one, so that times do not reveal ids.
        opens = (row or _nobody()).opens_with(credentials.digest, now)
        if row is None or not opens:
            return None
        if len(self._believed) >= MAX_BELIEVED:
            self._believed.clear()
        opened = self._believed[row.client_id] = Opened(row, row.as_client(), asked_at)
        return opened


def _nobody() -> ApiClient:
    return ApiClient(secret_hash=keys.digest_of(""))


_lookup = KeyLookup()


class ApiKeyAuthentication(BaseAuthentication):
    """`Authorization: Bearer <client-id>.<secret>`, or Basic with the two as name and password.

    `request.auth` and `request.user` are the frozen `Client`, both None without the header. Wrong,
    unknown, expired and revoked keys get the same 401, and beyond FAILED_KEY_LIMIT a minute from
    one address 429; a valid key from that address still works.
    """

    lookup = _lookup

    def authenticate(self, request: Request) -> tuple[Client, Client] | None:
        header = request.META.get("HTTP_AUTHORIZATION")
        if header is None:
            return None
        now = clock.now()
        try:
            credentials = keys.read_header(header)
        except ValueError as error:
            self._refuse(request, str(error))
        opened = self.lookup.find(credentials, now)
        if opened is None:
            self._refuse(request, REFUSED)
        _note_use(opened.row, now)
        return opened.client, opened.client

    def authenticate_header(self, request: Request) -> str:
        return "Bearer"

    @staticmethod
    def _refuse(request: Request, detail: str) -> NoReturn:
        wait = throttles.seconds_to_wait_after_failure(request.META.get("REMOTE_ADDR", ""))
        if wait is not None:
            raise Throttled(TOO_MANY, retry_after=wait)
        raise NotAuthenticated(detail)


def without_secret(client_id: str) -> Client | None:
    """The client of that id, if its key is valid now: for callers that a setting vouches for."""
    now = clock.now()
    row = ApiClient.objects.filter(client_id=client_id).first()
    if row is None or row.state(now) != State.LIVE:
        return None
    _note_use(row, now)
    return row.as_client()


def _note_use(row: ApiClient, now: datetime) -> None:
    """Write the time of use, at most once a minute, before the request's own transaction begins.

    If the database is busy, the request goes on without it.
    """
    a_minute_ago = now - LAST_USED_PERIOD
    if row.last_used_at is not None and row.last_used_at > a_minute_ago:
        return
    row.last_used_at = now
    unused = Q(last_used_at=None) | Q(last_used_at__lte=a_minute_ago)
    try:
        ApiClient.objects.filter(unused, pk=row.pk).update(last_used_at=now)
    except DatabaseError as error:
        logger.warning("access: the last use of %s was not written: %s", row.client_id, error)
