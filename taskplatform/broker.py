"""The broker of a machine without Redis: a folder of messages that appear atomically.

Kombu opens the file of a message under its final name and writes it afterwards. A worker that read
the file in between found it empty and ended.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from queue import Empty
from time import monotonic_ns
from typing import Any

from kombu.exceptions import ChannelError
from kombu.transport import filesystem
from kombu.utils.json import dumps


class Channel(filesystem.Channel):
    """Kombu's channel, with files that get their names once they are complete."""

    # The files of the folder, while it is polled.
    _listed: list[str] | None = None

    def _put(self, queue: str, message: Any, **_: Any) -> None:  # type: ignore[override]
        folder = Path(self.data_folder_out)
        with _written(folder, dumps(message)) as draft:
            # Draft names are unique, and the oldest message is read first.
            draft.rename(folder / f"{monotonic_ns():020}_{draft.name}.{queue}.msg")

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
        listed = self._listed
        if listed is not None and f"{queue}.msg" not in {n.partition(".")[2] for n in listed}:
            raise Empty
        return super()._get(queue)

    def _queue_bind(self, exchange: str, *binding: Any) -> None:
        file: Path = self._exchange_file(exchange)  # type: ignore[attr-defined]
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
def _written(folder: Path, text: str) -> Iterator[Path]:
    """A file with the text under a name that readers ignore; deleted afterwards unless renamed."""
    try:
        number, name = tempfile.mkstemp(dir=folder)
        draft = Path(name)
        try:
            with open(number, "w", encoding="utf-8") as file:
                file.write(text)
            yield draft
        finally:
            draft.unlink(missing_ok=True)
    except OSError as error:
        raise ChannelError(f"A message cannot be written to {folder}: {error.strerror}") from error
