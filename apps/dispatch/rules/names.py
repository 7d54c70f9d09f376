"""Names of executors: `uid_…` is one user, `gid_…` a group of users."""

from __future__ import annotations

import re

from apps.common.errors import Invalid
from apps.common.messages import Message as _

USER = "user"
GROUP = "group"
MAX_CHARACTERS = 128

PATTERN = r"(?:uid|gid)_[A-Za-z0-9_.@-]+"

_NAME = re.compile(PATTERN)


def is_name(name: str) -> bool:
    """Whether an executor can have this name; no other name is worth a query."""
    return len(name) <= MAX_CHARACTERS and _NAME.fullmatch(name) is not None


def is_group(name: str) -> bool:
    """Whether the name is a well-formed group's."""
    return is_name(name) and name.startswith("gid_")


def kind_of(name: str, *, field: str = "name") -> str:
    """`user` or `group`; Invalid names the field when the name is neither."""
    if not is_name(name):
        raise Invalid.field(
            field,
            _(
                "{name!r} is not the name of a person or group; write uid_… for a "
                "person or gid_… for a group, with letters, digits and _ . @ - "
                "after it, at most {limit} characters in all.",
                name=name[:80],
                limit=MAX_CHARACTERS,
            ),
        )
    return GROUP if is_group(name) else USER


def require_user(name: str, *, field: str) -> None:
    """Invalid unless the name is one user's: a group has no groups among its members."""
    if kind_of(name, field=field) != USER:
        raise Invalid.field(field, _("{name} is a group; name a user (uid_…).", name=name))


def require_puller(name: str, *, field: str) -> None:
    """Invalid for a group: those do not work themselves."""
    if is_group(name):
        raise Invalid.field(
            field,
            _(
                "{name} is a group; a task is pulled by one of its users, so name a uid_….",
                name=name[:80],
            ),
        )
