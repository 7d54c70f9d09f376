"""The caller of a service: a program behind an API key, or the platform's own worker."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Caller:
    """The `client` of the key, "" for the platform itself, and the job types it is bound to, None
    for all.

    Jobs that a caller may not reach are answered like jobs that do not exist.
    """

    client: str = ""
    types: Collection[str] | None = None

    def may_use(self, type_: str) -> bool:
        return self.types is None or type_ in self.types

    def holds(self, client: str, type_: str) -> bool:
        """Whether a job of the type that is or was held by this client is the caller's."""
        return client == self.client and self.may_use(type_)


IN_HOUSE = Caller()
