"""Distributions of milliseconds that can be added up: counts in buckets that grow by 2 %.

A histogram is a dict of bucket → count. Two of them are merged by adding, in any order, so the sum
of the minutes of an hour is the histogram of the hour. What is read from it is off by 2 % at most.
"""

from __future__ import annotations

import math
import struct
from bisect import bisect_left
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import cache, lru_cache
from itertools import accumulate, compress
from typing import TypeAlias

Histogram: TypeAlias = dict[int, int]

# The middle of a bucket is 1 % off its ends, and rounding it to whole milliseconds stays within
# another: below 50 ms that gives the value itself.
GROWTH = 1.02
_SCALE = 1 / math.log(GROWTH)
# 285 years.
_MOST_MS = 2**53
# Counts up to this are added one by one.
_ONE_BY_ONE = 6
# For `bytes.translate`: 1 for what is more than so many.
_MORE_THAN = [bytes(count > most for count in range(256)) for most in range(_ONE_BY_ONE)]
_WIDTHS = ((1, "B"), (2, "H"), (4, "I"), (8, "Q"))
_CODES = dict(_WIDTHS)


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
    if len(packed) == 1:
        return _of_one(packed[0], shares)
    filled = [each for each in packed if each]
    if len(filled) < 2:
        return _of_one(filled[0] if filled else b"", shares)
    merged = _together(filled)
    buckets = sorted(merged)
    sums = list(accumulate([merged[bucket] for bucket in buckets]))
    return tuple([value_of(buckets[place]) for place in _places(sums, shares)])


def _of_one(packed: bytes, shares: Sequence[float]) -> tuple[int | None, ...]:
    """Most hours of a report are one row, which is in order already: of its buckets only those are
    read that are asked for."""
    if not packed:
        return (None,) * len(shares)
    width = packed[0]
    size = (len(packed) - 1) // (2 + width)
    first = 1 + 2 * size
    counts: Sequence[int] = packed[first:]
    if width > 1:
        counts = struct.unpack_from(f"<{size}{_CODES[width]}", packed, first)
    places = _places(list(accumulate(counts)), shares)
    return tuple([value_of(packed[1 + 2 * place] | packed[2 + 2 * place] << 8) for place in places])


def _places(sums: Sequence[int], shares: Sequence[float]) -> list[int]:
    """Which of the buckets, counted up, the shares end in."""
    total = sums[-1]
    return [bisect_left(sums, math.ceil(share * total)) for share in shares]


def _together(filled: Sequence[bytes]) -> Histogram:
    merged = _of_narrow([each for each in filled if each[0] == 1])
    get = merged.get
    for each in filled:
        if each[0] != 1:
            for bucket, count in zip(*_unpacked(each), strict=True):
                merged[bucket] = get(bucket, 0) + count
    return merged


def _of_narrow(packed: Sequence[bytes]) -> Histogram:
    """The sum of those whose counts take a byte, which most are.

    Most of these counts are 1 or little more, and Counter adds up ones much faster than a loop adds
    numbers: so first one of each bucket, then another one of those that have more, and so on.
    """
    halves = [1 + (len(each) - 1) // 3 * 2 for each in packed]
    joined = b"".join(each[1:half] for each, half in zip(packed, halves, strict=True))
    counts = b"".join(each[half:] for each, half in zip(packed, halves, strict=True))
    buckets: Sequence[int] = struct.unpack(f"<{len(counts)}H", joined)
    merged = Counter(buckets)
    for done in range(1, _ONE_BY_ONE):
        more = counts.translate(_MORE_THAN[done])
        buckets, counts = [*compress(buckets, more)], bytes(compress(counts, more))
        merged.update(buckets)
    for bucket, count in zip(buckets, counts, strict=True):
        merged[bucket] += count - _ONE_BY_ONE
    return merged


def unpack(packed: bytes) -> Histogram:
    """The histogram that `pack` made the bytes of."""
    return dict(zip(*_unpacked(packed), strict=True)) if packed else {}


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


def _unpacked(packed: bytes) -> tuple[Sequence[int], Sequence[int]]:
    """The buckets and their counts."""
    width = packed[0]
    size = (len(packed) - 1) // (2 + width)
    numbers = struct.unpack_from(f"<{size}H{size}{_CODES[width]}", packed, 1)
    return numbers[:size], numbers[size:]
