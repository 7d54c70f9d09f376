"""Password hashing that leaves the processors to other requests.

A hash takes a processor for a good part of a second, on purpose. Eight sign-ins at once would keep
all processors busy, and every other request waiting.
"""

from __future__ import annotations

import threading
from typing import Any

from django.contrib.auth.hashers import PBKDF2PasswordHasher

from apps.common.errors import Unavailable
from apps.common.messages import Message as _

# At once in this process, and waiting for their turn: each keeps a thread of the server.
MAX_HASHING = 1
MAX_WAITING = 3
MAX_WAIT_SECONDS = 10.0

_places = threading.BoundedSemaphore(MAX_HASHING + MAX_WAITING)
_turn = threading.BoundedSemaphore(MAX_HASHING)


class PasswordHasher(PBKDF2PasswordHasher):
    """Django's usual hasher, one password at a time; Unavailable when too many wait already."""

    def encode(self, password: str, salt: str, iterations: int | None = None) -> Any:
        if not _places.acquire(blocking=False):
            raise _busy()
        try:
            if not _turn.acquire(timeout=MAX_WAIT_SECONDS):
                raise _busy()
            try:
                return super().encode(password, salt, iterations)
            finally:
                _turn.release()
        finally:
            _places.release()


def _busy() -> Unavailable:
    return Unavailable(
        _("Too many people are signing in at this moment; try again in a few seconds."),
        retry_after=3,
    )
