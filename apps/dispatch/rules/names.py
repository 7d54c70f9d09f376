"""Names of executors: `uid_…` is one user, `gid_…` a group of users."""

from __future__ import annotations

import re

from apps.common.errors import Invalid

USER = "user"
GROUP = "group"
MOST_CHARACTERS = 128

_NAME = re.compile(r"(uid|gid)_[A-Za-z0-9_.@-]+")
_KINDS = {"uid": USER, "gid": GROUP}


def kind_of(name: str, *, field: str = "name") -> str:
    """`user` or `group`; Invalid names the field when the name is neither."""
    match = _NAME.fullmatch(name)
    if match is None or len(name) > MOST_CHARACTERS:
        raise Invalid.field(
            field,
            f"{name[:80]!r} is not the name of an executor; write uid_… for a user or gid_… for a "
            f"group, with letters, digits and _ . @ - after it, at most {MOST_CHARACTERS} "
            "characters in all.",
        )
    return _KINDS[match[1]]


def demand_user(name: str, *, field: str = "uid") -> None:
    """Invalid unless the name is one user's: groups neither pull nor call back."""
    if kind_of(name, field=field) != USER:
        raise Invalid.field(
            field, f"{name} is a group; a task is pulled by one of its users, so name a uid_…."
        )
