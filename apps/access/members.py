"""Users behind the names of executors that a key or a person is bound to.

Groups and their members belong to dispatch, which registers here how they are found; so jobs, too,
can be narrowed to the users of a group.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Any

from django.db.models import Q, QuerySet

# From names of users and groups to a query of the names of users.
FindUsers = Callable[[Collection[str]], QuerySet[Any, str]]
# From a person to the names of executors that the person is limited to.
FindLimits = Callable[[Any], Collection[str] | None]
_find: list[tuple[FindUsers, FindLimits]] = []


def register(find_users: FindUsers, find_limits: FindLimits) -> None:
    """Use these to find users and limits; the last ones count."""
    _find[:] = [(find_users, find_limits)]


def users_seen_by(person: Any) -> Users | None:
    """The users that a person is limited to; None for all."""
    names = _find[-1][1](person)
    return None if names is None else Users(frozenset(names))


@dataclass(frozen=True, slots=True)
class Users:
    """The users with these names, and the members of the groups among them."""

    names: frozenset[str]

    def condition(self, field: str) -> Q:
        """That the field names one of them."""
        return Q(**{f"{field}__in": sorted(self.names)}) | Q(**{f"{field}__in": self._members()})

    def among(self, names: Collection[str]) -> set[str]:
        """Those of the names that are one of them."""
        own = set(names) & self.names
        return own | set(self._members().filter(name__in=set(names) - own))

    def _members(self) -> QuerySet[Any, str]:
        return _find[-1][0](self.names)
