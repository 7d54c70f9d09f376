"""How many jobs of each type a drain holds at once."""

from __future__ import annotations

from collections.abc import Iterable

# What is held waits for its turn and can be nobody else's meanwhile.
BATCH_SECONDS = 0.5
MAX_BATCH = 1000
FIRST_BATCH = 8
# A batch grows step by step: a first run may have been quick by chance.
GROWTH = 4
_WEIGHT = 0.2


class BatchSizes:
    """Batches that take about half a second, from the run times seen so far."""

    def __init__(self) -> None:
        self._seconds: dict[str, float] = {}
        self._sizes: dict[str, int] = {}

    def note(self, type_: str, count: int, seconds: float) -> None:
        """`count` jobs of the type took so long together."""
        if count <= 0:
            return
        seen = seconds / count
        before = self._seconds.get(type_)
        if before is None:
            mean = seen
        else:
            # As if the mean had moved a fifth of the way with each of them.
            mean = seen + (before - seen) * (1 - _WEIGHT) ** min(count, 50)
        self._seconds[type_] = mean
        wanted = int(BATCH_SECONDS / mean) if mean > BATCH_SECONDS / MAX_BATCH else MAX_BATCH
        size = self._sizes.get(type_, FIRST_BATCH)
        # Only a batch that was filled says that a larger one would be.
        grown = size * GROWTH if count >= size // 2 else size
        self._sizes[type_] = max(1, min(wanted, grown))

    def sizes(self, types: Iterable[str]) -> dict[str, int]:
        """The batch of each type now."""
        return {name: self._sizes.get(name, FIRST_BATCH) for name in types}
