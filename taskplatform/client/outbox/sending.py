"""Sends the outbox to the server: each job once, whoever dies meanwhile.

The rows of a request are on record before it is sent, so that the next sender repeats exactly that
request after a lost answer or a killed sender; the server answers a repeat as it did at first.
"""

from __future__ import annotations

import json
import logging
import re
import secrets
import socket
from collections import defaultdict
from collections.abc import Sequence
from datetime import timedelta
from typing import Any

from django.db import router, transaction
from django.db.models import QuerySet
from django.db.models.functions import Length
from django.utils import timezone
from django.utils.translation import gettext_noop

from ..sdk import ApiError, Client, PlatformError
from .conf import options
from .models import OutgoingJob

logger = logging.getLogger("taskplatform.outbox")

MAX_JOBS = 1000
# Well below what the server takes in one body.
MAX_BYTES = 4 * 1024 * 1024
# Longer than a call can take.
CLAIM = timedelta(minutes=2)
# The server knows a request for a day.
KNOWN = timedelta(hours=23)
# Refusals for what the jobs are, not for the key or the address.
_OF_JOBS = frozenset({400, 409, 413, 422})
# The request was sent before, with other jobs: somebody has changed the table by hand.
_OTHER_JOBS = 422

UNKNOWN = gettext_noop(
    "It was sent more than 23 hours ago and the answer was lost, so nobody knows whether the "
    "server has it. Look for it there: discard it if it is there, else send it again."
)


class Sender:
    """Sends with one client, that of the settings if it is given none."""

    def __init__(self, client: Client | None = None) -> None:
        self._client = client or options().client()
        self._using = router.db_for_write(OutgoingJob)

    def send_due(self) -> int:
        """Send until nothing waits; see `outbox.send_due`."""
        sent = 0
        while (taken := self._take()) is not None:
            rows, is_repeat = taken
            if rows:
                sent += self._send(rows, is_repeat=is_repeat)
        return sent

    @property
    def _waiting(self) -> QuerySet[Any]:
        rows = OutgoingJob.objects.using(self._using)
        return rows.filter(refused_at__isnull=True).order_by("pk")

    def _take(self) -> tuple[list[OutgoingJob], bool] | None:
        """The rows of a request that is to be repeated, else of a new one; none of them when
        another sender was faster, None when nothing waits."""
        now = timezone.now()
        left = self._waiting.filter(request_id__gt="", claimed_until__lte=now)
        first = left.values_list("request_id", "tried_at").first()
        if first is not None:
            request_id, tried_at = first
            left = left.filter(request_id=request_id)
            if tried_at < now - KNOWN:
                left.update(refused_at=now, request_id="", error=UNKNOWN)
                return [], True
            return self._claim(left, request_id), True
        fresh = self._waiting.filter(request_id="")
        numbers = self._together(fresh)
        if not numbers:
            return None
        request_id = secrets.token_hex(16)
        return self._claim(fresh.filter(pk__in=numbers), request_id, tried_at=now), False

    def _together(self, fresh: QuerySet[Any]) -> list[int]:
        """The first rows that fit into one request."""
        numbers: list[int] = []
        size = 0
        for number, length in fresh.values_list("pk", Length("body"))[:MAX_JOBS]:
            size += length
            if numbers and size > MAX_BYTES:
                break
            numbers.append(number)
        return numbers

    def _claim(self, rows: QuerySet[Any], request_id: str, **more: Any) -> list[OutgoingJob]:
        # Durable: inside of a transaction of the caller it would be undone after the jobs are made.
        with transaction.atomic(using=self._using, durable=True):
            until = timezone.now() + CLAIM
            claimed = rows.order_by().update(request_id=request_id, claimed_until=until, **more)
        return list(self._waiting.filter(request_id=request_id)) if claimed else []

    def _send(self, rows: Sequence[OutgoingJob], *, is_repeat: bool) -> int:
        # On a connection of its own a refused one says that nothing has arrived.
        self._client.close()
        try:
            jobs = [json.loads(row.body) for row in rows]
            self._client.submit_many(jobs, request_id=rows[0].request_id)
        except ApiError as error:
            if error.status in _OF_JOBS:
                self._sort_out(rows, error)
                return 0
            self._give_back(rows, has_arrived=is_repeat)
            raise
        except PlatformError as error:
            never = isinstance(error.__cause__, (ConnectionRefusedError, socket.gaierror))
            self._give_back(rows, has_arrived=is_repeat or not never)
            raise
        self._of(rows).delete()
        return len(rows)

    def _give_back(self, rows: Sequence[OutgoingJob], *, has_arrived: bool) -> None:
        """To be repeated as it was, if the server may have it; else to be taken anew."""
        if has_arrived:
            self._of(rows).update(claimed_until=timezone.now())
        else:
            self._free(rows)

    def _free(self, rows: Sequence[OutgoingJob]) -> None:
        self._of(rows).update(request_id="", claimed_until=None, tried_at=None)

    def _sort_out(self, rows: Sequence[OutgoingJob], error: ApiError) -> None:
        """The server made none of them. Those that it names are refused; if it names none, halves
        are tried until it is one."""
        reasons: dict[int, list[str]] = defaultdict(list)
        for each in error.errors:
            if found := re.match(r"jobs\[([0-9]+)\]\.?(.*)", each.get("field", "")):
                reasons[int(found[1])].append(f"{found[2]}: {each.get('message', '')}".strip(": "))
        if error.status == _OTHER_JOBS or (len(rows) == 1 and not reasons):
            reasons = defaultdict(list, {at: [error.detail] for at in range(len(rows))})
        for at, said in reasons.items():
            if at < len(rows):
                self._refuse(rows[at], "\n".join(said))
        others = [row for at, row in enumerate(rows) if at not in reasons]
        if reasons:
            self._free(others)
            return
        for half in (others[: len(others) // 2], others[len(others) // 2 :]):
            now = timezone.now()
            self._of(half).update(request_id=secrets.token_hex(16), claimed_until=now, tried_at=now)

    def _refuse(self, row: OutgoingJob, reason: str) -> None:
        logger.error("job %s of type %s %s is refused: %s", row.pk, row.type, row.key, reason)
        self._of([row]).update(
            request_id="", claimed_until=None, refused_at=timezone.now(), error=reason
        )

    def _of(self, rows: Sequence[OutgoingJob]) -> QuerySet[Any]:
        """Return the rows that are in the request still: another sender may have ended it."""
        ids = {row.request_id for row in rows}
        found = OutgoingJob.objects.using(self._using)
        return found.filter(pk__in=[row.pk for row in rows], request_id__in=ids)
