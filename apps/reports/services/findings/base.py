"""What a detector is: a cheap look, a threshold, a sentence, and at most one fix."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import NamedTuple

from django.db.models import Model

from apps.common import clock, partitions
from apps.common.db import transactional
from apps.common.errors import Conflict
from apps.common.leases import sweep_lease
from apps.common.messages import Message
from apps.common.messages import Message as _
from apps.common.partitions import Partition
from apps.journal import services as journal
from apps.journal.models import Source

FIXED = "finding_fixed"
# Who makes API keys configures the platform, and may run its sweeps.
CONFIGURES = "access.change_apiclient"
# Further findings of a detector are not listed.
MAX_FOUND = 20
# How long a fix works by itself; the sweep goes on.
MAX_WORK = timedelta(seconds=10)
_MAX_TURN = timedelta(minutes=10)


class Finding(NamedTuple):
    """What a detector has found; `subject` names the table, sink or type for its fix."""

    subject: str
    text: Message


class NotKnown(Exception):
    """The detector cannot look here; `why` says what it needs."""

    def __init__(self, why: Message) -> None:
        super().__init__(why)
        self.why = why


class Facts:
    """The instant of a look, and what several detectors read."""

    def __init__(self, now: datetime) -> None:
        self.now = now
        self._partitions: dict[type[Model], list[Partition]] = {}

    def partitions_of(self, model: type[Model]) -> list[Partition]:
        """The partitions of the table, read once."""
        if model not in self._partitions:
            self._partitions[model] = partitions.partitions_of(model)
        return self._partitions[model]


@dataclass(frozen=True, slots=True, kw_only=True)
class Fix:
    """What somebody with the permission may do about a finding.

    `foresee(subject)` says what it would do and changes nothing. `act(subject, actor, reason)` does
    it and says what it has done; it raises PlatformError.
    """

    label: Message
    permission: str
    foresee: Callable[[str], Message]
    act: Callable[[str, str, str], Message]


@dataclass(frozen=True, slots=True, kw_only=True)
class Detector:
    """`look(facts)` takes 50 ms at most, however large the tables are; it raises NotKnown."""

    number: str
    title: Message
    look: Callable[[Facts], list[Finding]]
    fix: Fix | None = None


class Looked(NamedTuple):
    """A detector with what it has found; `unknown` is why it could not look."""

    detector: Detector
    findings: list[Finding]
    unknown: Message | None = None


def look(detector: Detector, facts: Facts) -> Looked:
    """Look once."""
    try:
        return Looked(detector, detector.look(facts)[:MAX_FOUND])
    except NotKnown as error:
        return Looked(detector, [], error.why)


@contextmanager
def alone(sweep: str) -> Iterator[datetime]:
    """Do the work of the sweep in its place, until the instant; Conflict while it runs."""
    with sweep_lease(sweep, at_most=_MAX_TURN) as mine:
        if not mine:
            raise Conflict(
                _("The sweep {sweep} runs just now; look again in a minute.", sweep=sweep)
            )
        yield clock.now() + MAX_WORK


@transactional
def record(number: str, subject: str, actor: str, reason: str) -> None:
    """Write to the journal that somebody has fixed a finding, before it is done."""
    journal.write(
        [
            journal.Entry(
                at=clock.now(),
                source=Source.PLAN,
                subject_id=0,
                event=FIXED,
                actor=actor,
                reason=reason,
                data={"detector": number, "finding": subject},
            )
        ]
    )
