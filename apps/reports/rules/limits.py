"""Limits, beyond which a figure is wrong: pure."""

from __future__ import annotations

from typing import NamedTuple

# A wrong figure is well again when it is this far on the good side of the threshold, so that a
# figure that wavers around the threshold does not call people again and again.
SLACK = 0.9


class Limit(NamedTuple):
    """A figure at or above the threshold is wrong, or one below it unless it `rises`, once it has
    been for `for_seconds`. Without a threshold every figure that is read is wrong.
    No threshold lies above `highest`."""

    threshold: float | None = None
    for_seconds: int = 0
    rises: bool = True
    highest: float = 365 * 86_400.0

    def is_passed(self, value: float, *, was_passed: bool = False) -> bool:
        """Whether the value is on the wrong side; or, if it was, not yet far enough on the good."""
        if self.threshold is None:
            return True
        slack = SLACK if was_passed else 1
        if self.rises:
            return value >= self.threshold * slack
        return value < min(self.threshold / slack, self.highest)


NO_LIMIT = Limit()
