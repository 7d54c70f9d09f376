"""The broker of a machine without Redis: a folder of messages that appear atomically.

Kombu opens the file of a message under its final name and writes it afterwards. A worker that read
the file in between found it empty and ended.
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from queue import Empty
from time import monotonic_ns
from typing import Any

from kombu.exceptions import ChannelError
from kombu.transport import filesystem
from kombu.utils.json import dumps, loads


class Channel(filesystem.Channel):
    """Kombu's channel, with files that get their names once they are complete."""

    # The files of the folder, while it is polled.
    _listed: list[str] | None = None

    def _put(self, queue: str, message: Any, **_: Any) -> None:  # type: ignore[override]
        with _written(self.data_folder_out, dumps(message)) as draft:
            os.rename(draft, f"{draft}.{queue}.msg")

    def _poll(self, cycle: Any, callback: Any, timeout: float | None = None) -> Any:
        # Kombu lists the folder once for each queue, many times a second and mostly for nothing.
        self._listed = os.listdir(self.data_folder_in)
        try:
            if not self._listed:
                raise Empty
            return super()._poll(cycle, callback, timeout)
        finally:
            self._listed = None

    def _get(self, queue: str, timeout: float | None = None) -> Any:
        """The oldest message of the queue. Kombu's own lists the folder again and moves the file to
        another: half of what it costs to receive one."""
        folder = self.data_folder_in
        listed = os.listdir(folder) if self._listed is None else self._listed
        for name in sorted(each for each in listed if each.partition(".")[2] == f"{queue}.msg"):
            path = os.path.join(folder, name)
            try:
                with open(path, encoding="utf-8") as file:
                    text = file.read()
                # Of two that read it, one takes it away.
                os.unlink(path)
            except FileNotFoundError:
                continue
            except OSError as error:
                raise ChannelError(f"Message {path} cannot be read: {error.strerror}") from error
            return loads(text)
        raise Empty

    def _queue_bind(self, exchange: str, *binding: Any) -> None:
        file = self._exchange_file(exchange)  # type: ignore[attr-defined]
        if not file.exists():
            self.control_folder.mkdir(exist_ok=True)
            with _written(self.control_folder, "[]") as draft:
                # Unlike a rename, a link does not replace the file of another process.
                with suppress(FileExistsError):
                    os.link(draft, file)
        super()._queue_bind(exchange, *binding)


class Transport(filesystem.Transport):
    """Set as Celery's `broker_transport`."""

    Channel = Channel


@contextmanager
def _written(folder: str | Path, text: str) -> Iterator[str]:
    """A file with the text under a name that readers ignore, in the order of such names; deleted
    afterwards unless renamed."""
    draft = os.path.join(folder, f"{monotonic_ns():020}_{secrets.token_hex(8)}")
    try:
        try:
            with open(draft, "x", encoding="utf-8", opener=_private) as file:
                file.write(text)
            yield draft
        finally:
            with suppress(FileNotFoundError):
                os.unlink(draft)
    except OSError as error:
        raise ChannelError(f"A message cannot be written to {folder}: {error.strerror}") from error


def _private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)
