"""The one line that tells how far the executors are."""

from __future__ import annotations

from collections.abc import Callable

from taskplatform.demo.crew import Tally
from taskplatform.demo.outcome import Progress
from taskplatform.demo.table import fit

LINE_CELLS = 99
BAR_CELLS = 20
# Where lines cannot be overwritten, one in so many seconds is enough.
PLAIN_EVERY_SECONDS = 5.0


class ProgressLine:
    """Overwrites itself on a terminal; elsewhere a new line is written now and then."""

    def __init__(self, write: Callable[[str], None], *, in_place: bool) -> None:
        self._write = write
        self._in_place = in_place
        self._next_at = 0.0
        self._unseen = ""

    def show(self, seconds: float, progress: Progress, tally: Tally) -> None:
        line = fit(_text(seconds, progress, tally), LINE_CELLS)
        if self._in_place:
            self._write(f"\r{line}")
        elif seconds < self._next_at:
            self._unseen = line
        else:
            self._write(f"{line.rstrip()}\n")
            self._next_at = seconds + PLAIN_EVERY_SECONDS
            self._unseen = ""

    def close(self) -> None:
        """Show the last state, and leave the line so that what follows stands below it."""
        if self._in_place or self._unseen:
            self._write(f"{self._unseen.rstrip()}\n")


def _text(seconds: float, progress: Progress, tally: Tally) -> str:
    full = BAR_CELLS * progress.counted // max(progress.quota, 1)
    bar = "█" * full + "░" * (BAR_CELLS - full)
    return (
        f"{seconds:4.0f} s {bar} {progress.counted} of {progress.quota} · {progress.open} open · "
        f"{tally['failed']} failed · {tally['released']} released · {tally['repeated']} repeated"
    )
