"""The record of starts: which held jobs have started, in a file that outlives its process.

When a process is killed, the rescue on its machine reads what it was doing. Only what ran is
counted as lost; a crash does not use up the attempts of the jobs that waited behind it.

A file belongs to one drain: VAR_DIR/running/<process id>-<random>. It is mapped into memory, so a
line costs less than a microsecond and stays when the process is killed, but not when the machine
is. It has two banks of lines, so that a batch can begin before the last one is settled:

    <token of the hold>
    S <job>             before its handler is called
    E <job> <outcome>   after that; without the outcome if that is too large
"""

from __future__ import annotations

import fcntl
import json
import logging
import mmap
import os
import secrets
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import fields
from datetime import datetime, timedelta
from functools import lru_cache
from operator import attrgetter
from pathlib import Path
from typing import Any, BinaryIO

from django.conf import settings

from apps.jobs.rules.outcome import Outcome, Records, StartedJob
from apps.jobs.rules.submission import from_json, to_json

logger = logging.getLogger(__name__)

_BANK = 512 * 1024
# Kept free for lines without outcomes: more than the jobs of one hold need.
_RESERVED = 64 * 1024
MAX_OUTCOME = 4096
# The fields of an outcome that are kept; the job's row knows the others, and a log may be long.
_ASIDE = ("id", "token", "type", "log")
_KEPT = tuple(field.name for field in fields(Outcome) if field.name not in _ASIDE)
_kept = attrgetter(*_KEPT)
_BLANK: tuple[Any, ...] = _kept(Outcome(id=0, token="", end=""))
# How values that are no JSON are written and read.
_SECONDS = (timedelta.total_seconds, lambda seconds: timedelta(seconds=seconds))
_AS_TEXT: Mapping[str, tuple[Callable[[Any], Any], Callable[[Any], Any]]] = {
    "retry_after": _SECONDS,
    "delay": _SECONDS,
    "run_at": (datetime.isoformat, datetime.fromisoformat),
    "submit": (lambda jobs: [*map(to_json, jobs)], lambda said: [*map(from_json, said)]),
}


def folder() -> Path:
    """Where the records of all processes with this VAR_DIR are."""
    return Path(settings.VAR_DIR) / "running"


class Record:
    """The record of one drain, which alone writes to it. OSError when it cannot be made.

    Its file is locked as long as the process lives.
    """

    def __init__(self) -> None:
        folder().mkdir(mode=0o700, parents=True, exist_ok=True)
        self.path = folder() / f"{os.getpid()}-{secrets.token_hex(8)}"
        self._file = _create(self.path)
        try:
            # Written, not only reserved: a full disk shows here and not in the middle of a batch.
            self._file.write(bytes(2 * _BANK))
            self._file.flush()
            self._memory = mmap.mmap(self._file.fileno(), 2 * _BANK)
        except OSError:
            self.path.unlink()
            self._file.close()
            raise
        self._start = self._end = 0
        self._has_jobs = False

    def begin(self, token: str) -> None:
        """Begin the lines of a hold, before it is made, in place of the latest hold if that took
        nothing: jobs that ran before may not be settled yet.

        Jobs of holds before the latest one that took jobs must be settled.
        """
        if self._has_jobs:
            self._start = _BANK - self._start
        self._has_jobs = False
        used = self._memory.find(b"\0", self._start, self._start + _BANK)
        self._memory[self._start : used] = bytes(used - self._start)
        self._end = self._start
        self._append(token.encode())

    def took(self) -> None:
        """Note that the hold has taken jobs, and that with it all jobs that ran before are
        settled."""
        self._has_jobs = True

    def started(self, job: int) -> None:
        self._append(b"S %d" % job)

    def ended(self, outcome: Outcome) -> bool:
        """Keep the outcome; False when it is too large or no JSON, and should be settled at
        once."""
        text = _written(outcome)
        left = self._start + _BANK - _RESERVED - self._end
        fits = 0 < len(text) <= min(MAX_OUTCOME, left)
        self._append(b"E %d %s" % (outcome.id, text if fits else b""))
        return fits

    def _append(self, line: bytes) -> None:
        end = self._end + len(line)
        self._memory[self._end : end] = line
        # A line counts from here on, even if the process is killed in between.
        self._memory[end] = 10
        self._end = end + 1

    def close(self, *, keep: bool = False) -> None:
        """Remove the file; `keep` leaves it to the rescue."""
        if not keep:
            self.path.unlink(missing_ok=True)
        self._memory.close()
        self._file.close()


def read_all() -> Records:
    """The contents of all records of this machine, of processes alive and dead."""
    found: Records = {}
    for file in _files():
        with _open_record(file) as opened:
            if opened:
                found |= _parse(opened.read(), file)
    return found


def remove_left(is_running: Callable[[Collection[str]], object]) -> None:
    """Remove the records of dead processes that no running job needs: none with their tokens."""
    for file in _files():
        with _open_record(file) as opened:
            if opened and _owner_is_dead(opened) and not is_running(_parse(opened.read(), file)):
                file.unlink(missing_ok=True)


def _files() -> list[Path]:
    try:
        return sorted(folder().iterdir())
    except FileNotFoundError:
        return []
    except OSError as error:
        logger.warning("the records of starts cannot be read: %s", error)
        return []


@contextmanager
def _open_record(file: Path) -> Iterator[BinaryIO | None]:
    """The file, None when it has gone or cannot be read: then all that was held counts."""
    try:
        opened = file.open("rb")
    except OSError as error:
        if not isinstance(error, FileNotFoundError):
            logger.warning("record %s cannot be read: %s", file, error)
        yield None
        return
    with opened:
        yield opened


def _create(path: Path) -> BinaryIO:
    """A new file, locked. Until it is, a drain that starts beside this one takes it for that of a
    dead process and removes it; then another is made."""
    while True:
        file = open(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600), "r+b")
        try:
            fcntl.flock(file, fcntl.LOCK_EX)
            if path.exists():
                return file
        except OSError:
            path.unlink(missing_ok=True)
            file.close()
            raise
        file.close()


def _owner_is_dead(opened: BinaryIO) -> bool:
    """The kernel unlocks the file when its process ends, in whatever way."""
    try:
        fcntl.flock(opened, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _parse(content: bytes, file: Path) -> Records:
    found: Records = {}
    try:
        for bank in (content[:_BANK], content[_BANK:]):
            # The text after the last end of a line was being written.
            token, *lines = bank.partition(b"\0")[0].split(b"\n")[:-1] or [b""]
            if token:
                found[token.decode()] = _started_jobs(token.decode(), lines)
    except (TypeError, ValueError) as error:
        # As another version of this program would have written it.
        logger.warning("record %s is not understood: %s", file, error)
        return {}
    return found


def _started_jobs(token: str, lines: Collection[bytes]) -> dict[int, StartedJob]:
    seen: dict[int, StartedJob] = {}
    for line in lines:
        kind, number, outcome = [*line.split(b" ", 2), b""][:3]
        job = int(number)
        ended = _read(job, token, outcome) if outcome else None
        seen[job] = StartedJob(has_ended=kind == b"E", outcome=ended)
    return seen


# --- an outcome as text --------------------------------------------------------------------------
def _written(outcome: Outcome) -> bytes:
    """The outcome as JSON; empty when a part of it is none."""
    values = _kept(outcome)
    return _text_of(values) if outcome.has_json else _known_text_of(values)


def _text_of(values: tuple[Any, ...]) -> bytes:
    kept: dict[str, Any] = {
        name: value
        for name, value, usual in zip(_KEPT, values, _BLANK, strict=True)
        if value is not usual
    }
    try:
        for name in _AS_TEXT.keys() & kept:
            kept[name] = _AS_TEXT[name][0](kept[name])
        return json.dumps(kept).encode()
    except (TypeError, ValueError, RecursionError):
        return b""


# Most jobs of a batch end alike.
_known_text_of = lru_cache(maxsize=256)(_text_of)


def _read(job: int, token: str, text: bytes) -> Outcome:
    kept = json.loads(text)
    for name in _AS_TEXT.keys() & kept:
        kept[name] = _AS_TEXT[name][1](kept[name])
    return Outcome(id=job, token=token, **kept)
