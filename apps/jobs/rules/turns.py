"""How the slots of one hold are shared between the types that have work."""

from __future__ import annotations

from collections.abc import Mapping


def shares(slots: int, weights: Mapping[str, int], *, turn: int = 0) -> dict[str, int]:
    """So many slots for each type, in proportion to its weight, summing up to `slots`.

    What does not divide goes one by one to the types in order, beginning with the one whose `turn`
    it is, so that over the turns even single slots are shared by weight's order and no type with
    work waits for ever. A type without a place in this turn is left out.
    """
    names = sorted(weights)
    if not names or slots <= 0:
        return {}
    total = sum(max(1, weights[name]) for name in names)
    given = {name: slots * max(1, weights[name]) // total for name in names}
    left = slots - sum(given.values())
    first = _whose_turn(names, weights, turn % total)
    for step in range(left):
        given[names[(first + step) % len(names)]] += 1
    return {name: count for name, count in given.items() if count}


def _whose_turn(names: list[str], weights: Mapping[str, int], point: int) -> int:
    """The type on whose stretch of the weights laid end to end the point lies."""
    for position, name in enumerate(names):
        point -= max(1, weights[name])
        if point < 0:
            return position
    return 0
