"""The settings of types, as they are now or were up to a second ago."""

from __future__ import annotations

import functools
import json
import time
from collections.abc import Collection
from typing import Any, NamedTuple

from django.db import connection

from apps.common.db import fetch, instant, placeholders, table
from apps.jobs.models import JobType
from apps.jobs.rules.policy import TypePolicy

_JSON = ("stages", "allowed_hosts")
_NEEDLESS = ("params_schema", "title", "pause_reason")


def policies_of(types: Collection[str] | None = None) -> dict[str, TypePolicy]:
    """The policies of these types by name, unknown ones left out; of all when None."""
    columns = ", ".join(map(connection.ops.quote_name, _columns()))
    sql = f"SELECT {columns} FROM {table(JobType)}"
    if types is None:
        rows = fetch(sql)
    else:
        names = sorted(types)
        rows = fetch(f"{sql} WHERE name IN ({placeholders(len(names))})", names) if names else []
    return {policy.name: policy for policy in map(_policy, rows)}


class KnownType(NamedTuple):
    """What pages tell of a type besides its name: its row, and why it is paused."""

    pk: int
    pause_reason: str
    policy: TypePolicy

    @property
    def name(self) -> str:
        return self.policy.name


def all_types() -> list[KnownType]:
    """By name."""
    columns = ", ".join(map(connection.ops.quote_name, _columns()))
    rows = fetch(f"SELECT id, pause_reason, {columns} FROM {table(JobType)} ORDER BY name")
    return [KnownType(row[0], row[1], _policy(row[2:])) for row in rows]


NEAR_SECONDS = 1.0
_near: tuple[float, dict[str, TypePolicy]] | None = None


def near_policies_of(
    types: Collection[str] | None = None, *, within: float = NEAR_SECONDS
) -> dict[str, TypePolicy]:
    """The policies as this process read them within the last second, or that many seconds.

    A hold says by which versions it goes when it claims, and forgets them when refused: so an edit
    applies at the next hold. One made by SQL without a new version applies in a second.
    """
    global _near
    near, now = _near, time.monotonic()
    if near is None or now - near[0] >= within or not near[1].keys() >= set(types or ()):
        _near = near = (now, policies_of())
    known = near[1]
    return known if types is None else {name: known[name] for name in types if name in known}


def forget_policies() -> None:
    """Read them anew at the next call."""
    global _near
    _near = None


@functools.cache
def _columns() -> tuple[str, ...]:
    return tuple(
        str(field.column) for field in JobType._meta.concrete_fields if field.name not in _NEEDLESS
    )


@functools.lru_cache(maxsize=1024)
def _policy(row: tuple[Any, ...]) -> TypePolicy:
    """Equal rows make equal policies, so most reads make none."""
    values = dict(zip(_columns(), row, strict=True))
    for name in _JSON:
        values[name] = json.loads(values[name])
    values["paused_until"] = instant(values["paused_until"])
    return JobType(**values).policy
