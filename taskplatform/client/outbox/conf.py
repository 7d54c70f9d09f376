"""The setting TASKPLATFORM of the project: where its jobs go."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from django.conf import settings
from django.core.exceptions import ImproperlyConfigured

from ..sdk import Client

EXAMPLE = (
    'TASKPLATFORM = {"URL": "https://tasks.example.com", "KEY": os.environ["TASKPLATFORM_KEY"]}'
)
_NAMES = frozenset({"URL", "KEY", "NUDGE"})


class Options(NamedTuple):
    """`nudge`: whether the process that commits also sends, in a thread of its own."""

    url: str
    key: str
    nudge: bool

    def client(self) -> Client:
        """ImproperlyConfigured, never with the key, when there is no usable address and key."""
        if not (self.url and self.key):
            raise ImproperlyConfigured(f"Name the server in the settings: {EXAMPLE}")
        try:
            # One try for each call: the sender has pauses of its own, and knows what arrived.
            return Client(self.url, self.key, timeout=30, give_up_after=0)
        except ValueError as error:
            raise ImproperlyConfigured(f"TASKPLATFORM in the settings: {error}") from error


def options() -> Options:
    """ImproperlyConfigured for an option that does not exist."""
    said: Mapping[str, Any] = getattr(settings, "TASKPLATFORM", {})
    if unknown := sorted(said.keys() - _NAMES):
        raise ImproperlyConfigured(
            f"TASKPLATFORM has no option {unknown[0]}; there are {', '.join(sorted(_NAMES))}"
        )
    return Options(said.get("URL", ""), said.get("KEY", ""), bool(said.get("NUDGE", False)))
