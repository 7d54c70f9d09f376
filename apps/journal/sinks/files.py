"""JSON lines in a folder, a file for each day (UTC) on which the entries were made."""

from __future__ import annotations

import os
from collections.abc import Sequence
from itertools import groupby
from pathlib import Path
from urllib.parse import unquote

from apps.common import ids
from apps.journal.conf import SinkAddress
from apps.journal.sinks.base import Line, Unavailable


class FileSink:
    """`journal-2026-11-24.jsonl`; on the disk before it counts as delivered."""

    def __init__(self, address: SinkAddress) -> None:
        self._folder = Path(unquote(address.parts.path))

    def deliver(self, lines: Sequence[Line]) -> None:
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            for name, some in groupby(lines, key=_name_of):
                _append(self._folder / name, "".join(f"{line.text}\n" for line in some))
        except OSError as error:
            raise Unavailable(f"{error.strerror or error}: {error.filename}") from error

    def close(self) -> None:
        """Do nothing: no file is left open between two deliveries."""


def _name_of(line: Line) -> str:
    return f"journal-{ids.made_at(line.id):%Y-%m-%d}.jsonl"


def _append(path: Path, text: str) -> None:
    with path.open("ab+") as file:
        _cut_torn_line(file.fileno())
        file.write(text.encode("ascii"))
        file.flush()
        os.fsync(file.fileno())


def _cut_torn_line(file: int) -> None:
    """Remove the part of a line that a process left behind which died while it wrote."""
    end = size = os.fstat(file).st_size
    while end:
        start = max(0, end - 65_536)
        newline = os.pread(file, end - start, start).rfind(b"\n")
        if newline >= 0:
            end = start + newline + 1
            break
        end = start
    if end < size:
        os.ftruncate(file, end)
