"""The acting person: that of a request, or whoever uses the shell."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

_actor: ContextVar[str] = ContextVar("actor", default="")


def actor() -> str:
    """The name of the acting person in the journal; "" if no acts are noted."""
    return _actor.get()


@contextmanager
def acting(name: str) -> Iterator[None]:
    """Note changes inside as acts of the person or process of this name."""
    token = _actor.set(name)
    try:
        yield
    finally:
        _actor.reset(token)
