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
_MAX_MS = 2**53
_WIDTHS = ((1, "B"), (2, "H"), (4, "I"), (8, "Q"))
_CODES = dict(_WIDTHS)
# Of the first byte of packed ones, the rest of which is the width of a count: they count every
# bucket from their first to their last, not only those with anything in them.
_DENSE = 0x80
# No count of dense ones takes more, so that many of them fit into eight bytes together; those of
# two bytes, if there are not too many, into four.
_MAX_BYTES = 4
_MAX_IN_FOUR = 1 << 16


@lru_cache(maxsize=1 << 17)
def bucket_of(ms: int) -> int:
    """The bucket that counts so many milliseconds: 0 for 0 and less, which clocks may give."""
    return 0 if ms <= 0 else 1 + math.ceil(math.log(min(ms, _MAX_MS)) * _SCALE)


@cache
def value_of(bucket: int) -> int:
    """The milliseconds that a bucket stands for."""
    if bucket == 0:
        return 0
    return round(2 * GROWTH ** (bucket - 1) / (1 + GROWTH))


@cache
def least_of(value: int) -> int:
    """The fewest milliseconds that are told as this value, which is one of `value_of`."""
    bucket = bucket_of(value)
    return value if bucket < 2 else math.floor(GROWTH ** (bucket - 2)) + 1


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
    counts = _together(filled)
    return tuple([value_of(bucket) for bucket in _places(list(accumulate(counts)), shares)])


def _of_one(packed: bytes, shares: Sequence[float]) -> tuple[int | None, ...]:
    """Most hours of a report are one row, which is in order already."""
    if not packed:
        return (None,) * len(shares)
    buckets, counts = _unpacked(packed)
    return tuple([value_of(buckets[at]) for at in _places(list(accumulate(counts)), shares)])


def _places(sums: Sequence[int], shares: Sequence[float]) -> list[int]:
    """Which of the buckets, counted up, the shares end in."""
    total = sums[-1]
    return [bisect_left(sums, math.ceil(share * total)) for share in shares]


def _together(filled: Sequence[bytes]) -> list[int]:
    """The sums of all counts, from bucket 0 on.

    A loop over the buckets would take most of the time of a report. Instead, the counts of a dense
    histogram are the digits of one long number, so that one addition adds them all.
    """
    is_short = len(filled) <= _MAX_IN_FOUR and not any(each[0] == _DENSE | 4 for each in filled)
    digit = 4 if is_short else 8
    total = size = 0
    sparse: list[bytes] = []
    for packed in filled:
        width = packed[0] ^ _DENSE
        if width > _MAX_BYTES:
            sparse.append(packed)
            continue
        first = packed[1] | packed[2] << 8
        end = first + (len(packed) - 3) // width
        digits = bytearray(end * digit)
        for each in range(width):
            digits[first * digit + each :: digit] = packed[3 + each :: width]
        total += int.from_bytes(digits, "little")
        size = max(size, end)
    digits_of = total.to_bytes(size * digit, "little")
    sums = list(struct.unpack(f"<{size}{_CODES[digit]}", digits_of))
    for packed in sparse:
        buckets, counts = _unpacked(packed)
        sums += [0] * (buckets[-1] + 1 - len(sums))
        for bucket, count in zip(buckets, counts, strict=True):
            sums[bucket] += count
    return sums


def unpack(packed: bytes) -> Histogram:
    """The histogram that `pack` made the bytes of."""
    if not packed:
        return {}
    return {bucket: count for bucket, count in zip(*_unpacked(packed), strict=True) if count}


def pack(histogram: Mapping[int, int]) -> bytes:
    """The same histogram always gives the same bytes; none at all for an empty one.

    One byte tells the width of the counts and how they follow, which is the shorter way of two: all
    buckets, two bytes each, then their counts; or the first bucket, then the counts of every one up
    to the last. What was packed by an older version may be the longer one.
    """
    if not histogram:
        return b""
    buckets = sorted(histogram)
    counts = [histogram[bucket] for bucket in buckets]
    most = max(counts)
    width, code = next(each for each in _WIDTHS if most < 1 << 8 * each[0])
    size, first = len(buckets), buckets[0]
    span = buckets[-1] + 1 - first
    if width > _MAX_BYTES or 2 + width * span > (2 + width) * size:
        return struct.pack(f"<B{size}H{size}{code}", width, *buckets, *counts)
    every = [0] * span
    for bucket, count in histogram.items():
        every[bucket - first] = count
    return struct.pack(f"<BH{span}{code}", _DENSE | width, first, *every)


def _unpacked(packed: bytes) -> tuple[Sequence[int], Sequence[int]]:
    """The buckets and their counts, of which some may be 0."""
    width = packed[0] & ~_DENSE
    if packed[0] & _DENSE:
        size = (len(packed) - 3) // width
        first = packed[1] | packed[2] << 8
        counts = (
            packed[3:] if width == 1 else struct.unpack_from(f"<{size}{_CODES[width]}", packed, 3)
        )
        return range(first, first + size), counts
    size = (len(packed) - 1) // (2 + width)
    numbers = struct.unpack_from(f"<{size}H{size}{_CODES[width]}", packed, 1)
    return numbers[:size], numbers[size:]
