"""The buffer of outcomes: settled in batches, after 50 ms at the latest."""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import MutableMapping, Sequence
from typing import Any

from django.db import DatabaseError, InterfaceError, OperationalError

from apps.common.errors import Invalid, PlatformError
from apps.jobs.rules.outcome import HeldJob, Outcome
from apps.jobs.rules.report import refused
from apps.jobs.services.exchange import exchange
from apps.jobs.services.hold import hold
from apps.jobs.services.settle import settle

logger = logging.getLogger(__name__)

MAX_WAIT_SECONDS = 0.05
_MAX_BATCH = 1000


class Outbox:
    """The outcomes of one drain that are not settled yet; settling removes the job from `held`.

    The drain adds and flushes. While a handler runs, the caretaker thread flushes.
    """

    def __init__(self, held: MutableMapping[int, HeldJob]) -> None:
        self._held = held
        self._waiting: deque[Outcome] = deque()
        self._since = 0.0
        self._limit = _MAX_BATCH
        self._lock = threading.Lock()

    def add(self, outcome: Outcome, now: float) -> None:
        if not self._waiting:
            self._since = now
        self._waiting.append(outcome)

    def is_due(self, now: float) -> bool:
        """Whether its oldest outcome has waited long enough."""
        return bool(self._waiting) and now - self._since >= MAX_WAIT_SECONDS

    def flush(self) -> bool:
        """Settle the waiting outcomes; returns whether there were any.

        After a database error it waits for the next flush. Afterwards nothing is being settled by
        another thread, either.
        """
        with self._lock:
            has_waited = bool(self._waiting)
            while self._waiting:
                self._settle_some()
        return has_waited

    def exchange(self, **holding: Any) -> list[HeldJob]:
        """Settle the waiting outcomes and `hold`, together if that succeeds."""
        with self._lock:
            while len(self._waiting) > self._limit:
                self._settle_some()
            batch = self._next_batch()
            if not batch:
                return hold(**holding)
            try:
                answers, jobs = exchange(outcomes=batch, **holding)
            except (OperationalError, InterfaceError):
                self._put_back(batch)
                raise
            except Exception:
                logger.exception("settling %d jobs with the next hold failed", len(batch))
                self._put_back(batch)
                while self._waiting:
                    self._settle_some()
                return hold(**holding)
            self._note_settled(batch, answers)
        return jobs

    def _next_batch(self) -> list[Outcome]:
        batch = list[Outcome]()
        while self._waiting and len(batch) < self._limit:
            batch.append(self._waiting.popleft())
        self._since = time.monotonic()
        return batch

    def _put_back(self, batch: Sequence[Outcome]) -> None:
        self._waiting.extendleft(reversed(batch))
        # The batch may have been too much for one statement.
        self._limit = max(1, len(batch) // 2)

    def _settle_some(self) -> None:
        batch = self._next_batch()
        try:
            answers = _settle_each(batch)
        except (DatabaseError, InterfaceError):
            self._put_back(batch)
            raise
        self._limit = min(_MAX_BATCH, 2 * self._limit)
        self._note_settled(batch, answers)

    def _note_settled(
        self, batch: Sequence[Outcome], answers: Sequence[str | PlatformError]
    ) -> None:
        for outcome in batch:
            self._held.pop(outcome.id, None)
        refused = [
            _failure_instead(outcome, answer)
            for outcome, answer in zip(batch, answers, strict=True)
            if isinstance(answer, Invalid)
        ]
        if refused:
            _settle_each(refused)


def _settle_each(batch: Sequence[Outcome]) -> Sequence[str | PlatformError]:
    try:
        return settle(outcomes=batch)
    except (OperationalError, InterfaceError):
        # The database is away; the outcomes are not at fault.
        raise
    except Exception as error:
        # One row that cannot be written must not block the others.
        logger.exception("settling %d jobs failed", len(batch))
        if len(batch) > 1:
            return [_settle_each([each])[0] for each in batch]
        return [Invalid(f"It cannot be kept: {error!r}")]


def _failure_instead(outcome: Outcome, error: Invalid) -> Outcome:
    logger.error("job %d ended as %s, which is refused: %s", outcome.id, outcome.end, error.detail)
    return refused(outcome, error)
