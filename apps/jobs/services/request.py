"""Requests over HTTP that are repeated when their answer was lost: a repeated hold gets the same
jobs, and a repeated submission the first answer."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from apps.common import clock
from apps.common.db import Statement, execute, fetch, table
from apps.common.errors import ReplayConflict
from apps.common.messages import Message as _
from apps.common.rows import insertion
from apps.common.tidy import remove
from apps.jobs.models import Hold
from apps.jobs.rules.outcome import HeldJob
from apps.jobs.rules.submission import Submitted

# How long a submission may be repeated.
REPEATABLE = timedelta(days=1)


class EarlierAnswer(NamedTuple):
    """The answer to an earlier request: the token of a hold with the jobs that may still run under
    it, or the answer to a submission."""

    body_key: str
    token: str
    job_ids: str
    answer: str

    @property
    def ids(self) -> Sequence[int]:
        return list(json.loads(self.job_ids))

    @property
    def submitted(self) -> list[Submitted]:
        return [Submitted(*each) for each in json.loads(self.answer)]


class Request:
    """A request of a client that may be repeated; one with `request_id` "" never is.

    `content` is what it asks for: another request with the same id is refused.
    """

    def __init__(
        self, client: str, request_id: str = "", content: Mapping[str, Any] | None = None
    ) -> None:
        self._client = client
        self._request_id = request_id
        text = json.dumps(content, sort_keys=True, default=str) if request_id else ""
        self._body_key = hashlib.blake2b(text.encode(), digest_size=16).hexdigest()
        # Whether there is an earlier one with this id whose time is over.
        self._is_over = False

    @property
    def is_repeatable(self) -> bool:
        return bool(self._request_id)

    def earlier(self) -> EarlierAnswer | None:
        """The answer to an earlier request with this id; None when there was none, or its time is
        over, as that of all leases of a hold.

        ReplayConflict when the earlier request had another content.
        """
        if not self.is_repeatable:
            return None
        rows = fetch(
            "SELECT body_key, token, job_ids, answer, expires_at <= %s "
            f"FROM {table(Hold)} WHERE client = %s AND request_id = %s",
            [clock.now(), self._client, self._request_id],
        )
        self._is_over = bool(rows and rows[0][-1])
        if not rows or self._is_over:
            return None
        row = EarlierAnswer(*rows[0][:-1])
        if row.body_key != self._body_key:
            raise ReplayConflict(
                _(
                    "Request {id} asked for something else before; use a new request_id.",
                    id=self._request_id,
                )
            )
        return row

    def keep(self, held: Sequence[HeldJob]) -> None:
        """Remember the held jobs; IntegrityError when a request with this id was faster."""
        if held:
            until = max(job.lease_until for job in held)
            named = {"token": held[0].token, "job_ids": [job.id for job in held]}
            for sql, values in self._keeping(named, held[0].held_at, until):
                execute(sql, values)

    def keeping(self, made: Sequence[Submitted]) -> list[Statement]:
        """The statements that remember the answer to a submission for REPEATABLE; one fails as
        `keep` does."""
        now = clock.now()
        return self._keeping({"token": "", "job_ids": [], "answer": made}, now, now + REPEATABLE)

    def keep_answer(self, made: Sequence[Submitted]) -> None:
        """Remember the answer within the caller's transaction."""
        for sql, values in self.keeping(made):
            execute(sql, values)

    def _keeping(
        self, values: Mapping[str, Any], now: datetime, until: datetime
    ) -> list[Statement]:
        if not self.is_repeatable:
            return []
        statements: list[Statement] = []
        if self._is_over:
            sql = (
                f"DELETE FROM {table(Hold)} "
                "WHERE client = %s AND request_id = %s AND expires_at <= %s"
            )
            statements.append((sql, [self._client, self._request_id, now]))
        row = {
            "client": self._client,
            "request_id": self._request_id,
            "body_key": self._body_key,
            "expires_at": until,
        }
        return [*statements, insertion(Hold, {**row, **values})]


def forget_requests(now: datetime) -> int:
    """Remove what is remembered of requests whose time is over; returns how many."""
    return remove(Hold.objects.filter(expires_at__lte=now).order_by("expires_at"))
