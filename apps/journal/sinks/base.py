"""The contract of a sink."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple, Protocol

# A sink that hangs keeps a thread of the sweeps for so long.
TIMEOUT_SECONDS = 10.0


class Line(NamedTuple):
    """One journal entry as it is sent: JSON in ASCII on one line. `id` also orders and names it."""

    id: int
    subject_id: int
    text: str


class Refused(Exception):
    """The sink will never take some of the lines; it has taken all others.

    `errors` are theirs by id. Without any it is not known which, and none was taken.
    """

    def __init__(self, message: str, errors: Mapping[int, str] | None = None) -> None:
        super().__init__(message)
        self.errors = errors or {}


class Unavailable(Exception):
    """The sink took nothing, or it is not known what: the same lines are to be sent again."""


class Sink(Protocol):
    """One place that takes lines; an open connection, perhaps."""

    def deliver(self, lines: Sequence[Line]) -> None:
        """Return when all lines are acknowledged; raises Refused or Unavailable."""

    def close(self) -> None: ...
