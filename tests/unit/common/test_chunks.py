"""Many values in chunks, for statements that take a limited number of them."""

from __future__ import annotations

from apps.common.chunks import chunks


def test_chunks_have_all_values_in_order_and_none_is_too_long() -> None:
    for count in (0, 1, 3, 4, 7):
        found = [*chunks(iter(range(count)), 3)]
        assert [each for chunk in found for each in chunk] == [*range(count)]
        assert [len(chunk) for chunk in found[:-1]] == [3] * (len(found) - 1)
        assert all(0 < len(chunk) <= 3 for chunk in found)
