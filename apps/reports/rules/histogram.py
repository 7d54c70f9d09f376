"""Distributions of milliseconds that can be added up: counts in buckets that grow by 2 %.

A histogram is a dict of bucket → count. Two of them are merged by adding, in any order, so the sum
of the minutes of an hour is the histogram of the hour. What is read from it is off by 2 % at most.
"""

from __future__ import annotations

import math
import struct
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from functools import cache, lru_cache
from itertools import accumulate
from typing import TypeAlias

Histogram: TypeAlias = dict[int, int]

# The middle of a bucket is 1 % off its ends, and rounding it to whole milliseconds stays within
# another: below 50 ms that gives the value itself.
GROWTH = 1.02
_SCALE = 1 / math.log(GROWTH)
# 285 years.
_MOST_MS = 2**53
_WIDTHS = ((1, "B"), (2, "H"), (4, "I"), (8, "Q"))


@lru_cache(maxsize=1 << 17)
def bucket_of(ms: int) -> int:
    """The bucket that counts so many milliseconds: 0 for 0 and less, which clocks may give."""
    return 0 if ms <= 0 else 1 + math.ceil(math.log(min(ms, _MOST_MS)) * _SCALE)


@cache
def value_of(bucket: int) -> int:
    """The milliseconds that a bucket stands for."""
    if bucket == 0:
        return 0
    return round(2 * GROWTH ** (bucket - 1) / (1 + GROWTH))


def percentiles(packed: Sequence[bytes], shares: Sequence[float]) -> tuple[int | None, ...]:
    """Of all these packed histograms together, for each share (0 < share ≤ 1) the least value that
    so much of all values does not exceed; None of none.

    So 0.5 of four values is the second one.
    """
    counted = _together(packed)
    if not counted:
        return (None,) * len(shares)
    sums = list(accumulate(count for _bucket, count in counted))
    return tuple(
        value_of(counted[bisect_left(sums, math.ceil(share * sums[-1]))][0]) for share in shares
    )


def _together(packed: Sequence[bytes]) -> list[tuple[int, int]]:
    """Buckets and their counts, ascending."""
    filled = [each for each in packed if each]
    if len(filled) == 1:
        # Most hours of a report are one row, which is in order already.
        return _unpacked(filled[0])
    merged: Histogram = {}
    for each in filled:
        _merge(merged, each)
    return sorted(merged.items())


def _merge(into: Histogram, packed: bytes) -> None:
    counted = _unpacked(packed)
    if not into:
        into.update(counted)
        return
    get = into.get
    for bucket, count in counted:
        into[bucket] = get(bucket, 0) + count


def unpack(packed: bytes) -> Histogram:
    """The histogram that `pack` made the bytes of."""
    return dict(_unpacked(packed)) if packed else {}


def pack(histogram: Mapping[int, int]) -> bytes:
    """The same histogram always gives the same bytes; none at all for an empty one.

    One byte tells the width of the counts; then the buckets, two bytes each, then the counts.
    """
    if not histogram:
        return b""
    buckets = sorted(histogram)
    counts = [histogram[bucket] for bucket in buckets]
    most = max(counts)
    width, code = next(each for each in _WIDTHS if most < 1 << 8 * each[0])
    size = len(buckets)
    return struct.pack(f"<B{size}H{size}{code}", width, *buckets, *counts)


def _unpacked(packed: bytes) -> list[tuple[int, int]]:
    width = packed[0]
    size = (len(packed) - 1) // (2 + width)
    _, *numbers = struct.unpack(f"<B{size}H{size}{dict(_WIDTHS)[width]}", packed)
    return list(zip(numbers[:size], numbers[size:], strict=True))
