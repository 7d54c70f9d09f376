"""Limits by key: how many jobs of one customer, host or device may be ready or running at once, and
how many may get a place in a minute.

    place = a job of the key that is ready or running

The rate is a virtual clock per key (GCRA): each place moves it one interval on, and it never lies
further back than the burst.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import cached_property
from hashlib import blake2b
from typing import Any

from apps.common.json import path as json_path
from apps.common.messages import Message as _

KEY, USER = "key", "user_id"
MAX_PATH = 200
_MINUTE = timedelta(minutes=1)


class NoValue(ValueError):
    """A list or an object stands where a value is limited by; the argument is a Message."""


def parse(limit_by: str) -> tuple[str | int, ...]:
    """The path within contexts that `context.customer.id` means, () for `key` and `user_id`;
    ValueError(Message) for anything else."""
    if limit_by in (KEY, USER):
        return ()
    if len(limit_by) <= MAX_PATH:
        with suppress(ValueError):
            found = json_path.read(f"{limit_by}:", ("context",))
            if not found.value:
                return found.path
    raise ValueError(
        _(
            "{text} is no value of a job; write key, user_id, or a path into the context, for "
            "example context.customer.",
            text=limit_by[:80],
        )
    )


@dataclass(frozen=True)
class KeyLimit:
    """The limit of a type by key: by what, and how; `running` and `per_minute` None: any number."""

    by: str
    running: int | None = None
    per_minute: int | None = None
    burst: int | None = None

    @property
    def is_column(self) -> bool:
        """Whether everybody who sees a job sees the value."""
        return self.by in (KEY, USER)

    @cached_property
    def _path(self) -> tuple[str | int, ...]:
        return parse(self.by)

    def value(self, *, key: str, user_id: str, context: Mapping[str, Any]) -> str:
        """The value of a job as text: 7 and "7" are one. Jobs without it share the value "".

        NoValue for a list or an object.
        """
        if self.is_column:
            return key if self.by == KEY else user_id
        found: Any = context
        for part in self._path:
            if isinstance(found, dict) and isinstance(part, str):
                found = found.get(part)
            elif isinstance(found, list) and isinstance(part, int) and part < len(found):
                found = found[part]
            else:
                return ""
        if isinstance(found, list | dict):
            kinds = {list: _("a list"), dict: _("an object")}
            raise NoValue(
                _(
                    "The type limits its jobs by {path}, and that is {kind} here; send text or a "
                    "number.",
                    path=self.by,
                    kind=kinds[type(found)],
                )
            )
        if found is None:
            return ""
        return found if isinstance(found, str) else json.dumps(found)

    def places(self, taken: int) -> int | None:
        """How many more jobs of a key may be ready or running; None for any number."""
        return None if self.running is None else max(0, self.running - taken)

    @property
    def interval(self) -> timedelta:
        return _MINUTE / (self.per_minute or 1)

    def _begin(self, clock: datetime | None, now: datetime) -> datetime:
        burst = self.burst or max(1, (self.per_minute or 0) // 60)
        earliest = now - burst * self.interval
        return earliest if clock is None else max(clock, earliest)

    def starts(self, clock: datetime | None, now: datetime) -> int | None:
        """How many places the rate allows at this moment; None for any number."""
        if self.per_minute is None:
            return None
        return max(0, (now - self._begin(clock, now)) // self.interval)

    def clock_after(self, clock: datetime | None, now: datetime, starts: int) -> datetime:
        """The clock of the key after so many places."""
        return self._begin(clock, now) + starts * self.interval


def limit_id(type_name: str, value: str) -> int:
    """The number of a key of a type, 63 bits. Two keys in ten million billion share one, and then
    their limit."""
    digest = blake2b(f"{type_name}\0{value}".encode(errors="surrogatepass"), digest_size=8).digest()
    return int.from_bytes(digest, "big") >> 1
