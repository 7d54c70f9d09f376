"""The names that keys and people are limited to: which exist, and whom they stand for.

Executors belong to dispatch and job types to jobs, which register here how their names are found;
so jobs, too, can be narrowed to the users of a group.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from typing import Any

from django.db.models import Q, QuerySet

from apps.access.rules.clients import Binding

FindUsers = Callable[[Collection[str]], QuerySet[Any, str]]


def _no_users(names: Collection[str]) -> QuerySet[Any, str]:
    """Raise LookupError: only names of executors stand for users."""
    raise LookupError(names)


@dataclass(frozen=True, slots=True)
class Directory:
    """The functions that find the names on one side."""

    # From names to the existing ones among them.
    existing: Callable[[Collection[str]], Iterable[str]]
    # From the key of a person to the names that limit the person, in rows of one column.
    limits: Callable[[Any], QuerySet[Any, Any]]
    # From names of users and groups to a query of the names of users.
    users: FindUsers = _no_users


_directories: dict[str, Directory] = {}


def register(side: Binding, directory: Directory) -> None:
    """Use this directory for the names on that side."""
    _directories[side] = directory


def directory_of(side: str) -> Directory:
    """The directory of that side: `executors` or `job_types`."""
    return _directories[side]


@dataclass(frozen=True, slots=True)
class Users:
    """The users with these names, and the members of the groups among them."""

    names: frozenset[str]

    def condition(self, field: str) -> Q:
        """The condition that the field names one of these users."""
        return Q(**{f"{field}__in": sorted(self.names)}) | Q(**{f"{field}__in": self._members()})

    def among(self, names: Collection[str]) -> set[str]:
        """The names among these that are names of these users."""
        own = set(names) & self.names
        return own | set(self._members().filter(name__in=set(names) - own))

    def _members(self) -> QuerySet[Any, str]:
        return directory_of(Binding.EXECUTORS).users(self.names)
