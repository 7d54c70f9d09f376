"""The slow slots of a node: one is left to the platform's own types, such as deliveries of alerts.

Otherwise a few long jobs, which any key with `submit` brings in, would keep all of them waiting.
"""

from __future__ import annotations

import fcntl
import logging
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from django.conf import settings

from apps.jobs.handlers import registry
from apps.jobs.rules.type_snapshot import SLOW, TypeSnapshot

logger = logging.getLogger(__name__)

Types = Mapping[str, TypeSnapshot]


class Places:
    """The places of a node for slow jobs of others. A place is a locked file, so that threads and
    forks share them and a process that is killed leaves its own."""

    def __init__(self, node: str) -> None:
        self._name = node.replace("/", "_")
        # Whether the last call found no place.
        self.are_taken = False

    @contextmanager
    def allowed_types(self, types: Types, most: int | None) -> Iterator[Types]:
        """The types whose jobs may be held now. If a slow type that is not the platform's is among
        them, one of `most` places is kept until the end; None stands for as many places as there
        are drains."""
        self.are_taken = False
        if most is None or len(of_platform(types)) == len(types):
            yield types
            return
        try:
            place = self._take(most)
        except OSError as error:
            logger.warning("drain: no slot is left to the platform's own jobs: %s", error)
            yield types
            return
        self.are_taken = place is None
        if place is None:
            yield of_platform(types)
            return
        try:
            yield types
        finally:
            os.close(place)

    def _take(self, most: int) -> int | None:
        """The descriptor of a locked file; None when all are locked. OSError when there can be
        none."""
        folder = Path(settings.VAR_DIR) / "places"
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        for number in range(most):
            place = os.open(folder / f"{self._name}-{number}", os.O_RDWR | os.O_CREAT, 0o600)
            try:
                fcntl.flock(place, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                os.close(place)
            else:
                return place
        return None


def of_platform(types: Types) -> Types:
    """The types without the slow ones of others."""
    return {n: each for n, each in types.items() if each.lane != SLOW or registry.is_system(n)}
