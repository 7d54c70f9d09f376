"""A benchmark as the parts it consists of: all of them, or those that were asked for."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from django.core.management.base import CommandError
from django.db import connection

from taskplatform.benchmark.figures import Figure
from taskplatform.benchmark.scratch import on_sqlite, scratch_database


class Run(NamedTuple):
    """How a part is to measure: with files in `folder`, few rows when `quick`, saying what it
    is at."""

    folder: Path
    quick: bool
    say: Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Part:
    """Some figures that are measured together, on SQLite when `embedded`, else on the servers;
    `everywhere` on whichever is configured."""

    name: str
    measure: Callable[[Run], Iterator[Figure]]
    embedded: bool = False
    everywhere: bool = False


@dataclass(frozen=True, slots=True)
class Benchmark:
    """Parts in their order; `prepare` fills their empty database."""

    name: str
    parts: Sequence[Part]
    prepare: Callable[[], None] = lambda: None

    def run(
        self, only: Collection[str], *, quick: bool, say: Callable[[str], None]
    ) -> Iterator[Figure]:
        """The figures of the parts with these names, of all when there are none.

        On SQLite only the embedded ones; on servers those, too, by a process on SQLite.
        """
        names = [part.name for part in self.parts]
        if unknown := sorted(set(only) - set(names)):
            raise CommandError(
                f"{self.name} has no part {', '.join(unknown)}; its parts: {', '.join(names)}."
            )
        wanted = [part for part in self.parts if not only or part.name in only]
        embedded = [part for part in wanted if part.embedded]
        if connection.vendor == "sqlite":
            here = [part for part in wanted if part.embedded or part.everywhere]
            yield from self._measured(here, quick=quick, say=say)
            return
        if not os.environ.get("DATABASE_URL") or not os.environ.get("REDIS_URL"):
            raise CommandError("Set DATABASE_URL and REDIS_URL; both must be of test machines.")
        yield from self._measured([p for p in wanted if not p.embedded], quick=quick, say=say)
        if embedded:
            say("SQLite")
            yield from on_sqlite(self.name, [part.name for part in embedded], quick=quick)

    def _measured(
        self, parts: Sequence[Part], *, quick: bool, say: Callable[[str], None]
    ) -> Iterator[Figure]:
        if not parts:
            return
        with tempfile.TemporaryDirectory() as name, scratch_database(Path(name)):
            self.prepare()
            for part in parts:
                say(part.name)
                yield from part.measure(Run(Path(name), quick, say))
