"""The bounds within which a caller or a person may reach jobs."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from django.db.models import Q

from apps.access.directory import Users
from apps.access.rules.clients import Client


@dataclass(frozen=True, slots=True)
class Bounds:
    """Jobs of these types and for these users; None stands for all.

    With `takes_nobodys` jobs without a user are within the bounds of `users`, too.
    """

    types: Collection[str] | None = None
    users: Users | None = None
    takes_nobodys: bool = False

    @classmethod
    def of_key(cls, key: Client) -> Bounds:
        """The jobs that an API key may reach."""
        return cls(
            types=key.job_types or None, users=Users(key.executors) if key.executors else None
        )

    @property
    def are_open(self) -> bool:
        """Whether every job is within them."""
        return self.types is None and self.users is None

    @property
    def executors(self) -> Collection[str] | None:
        """The people and groups within them, whose tasks and dispatches are, too; None for all.
        Who is bound to job types alone reaches nobody."""
        if self.users is not None:
            return self.users.names
        return None if self.types is None else ()

    def condition(self) -> Q:
        """The condition for jobs within the bounds."""
        condition = Q()
        if self.types is not None:
            condition &= Q(type__in=self.types)
        if self.users is not None:
            of_users = self.users.condition("user_id")
            condition &= (of_users | Q(user_id="")) if self.takes_nobodys else of_users
        return condition
