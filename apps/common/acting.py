"""Who acts: the person of a request, or whoever uses the shell."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

_actor: ContextVar[str] = ContextVar("actor", default="")


def actor() -> str:
    """The name of whoever acts in the journal; "" for nobody whose doing is noted."""
    return _actor.get()


@contextmanager
def acting(name: str) -> Iterator[None]:
    """Note what is changed inside as done by that one."""
    token = _actor.set(name)
    try:
        yield
    finally:
        _actor.reset(token)
