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
# Histograms are added up in pages of so many buckets; those of fewer than _FEW buckets, or with
# counts of more than _MOST_BYTES, bucket by bucket.
_PAGE = 256
_FEW, _MOST_BYTES = 64, 4
# So many counts of two bytes fit into four together.
_MOST_IN_FOUR = 1 << 16
_EVERY, _NONE = bytes(range(_PAGE)), bytes(_PAGE)
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
    counts = _together(filled)
    return tuple([value_of(bucket) for bucket in _places(list(accumulate(counts)), shares)])


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


def _together(filled: Sequence[bytes]) -> list[int]:
    """The sums of all counts, from bucket 0 on.

    A loop over the buckets would take most of the time of a report. Instead, the counts of a page
    of buckets are the digits of one long number, so that one addition adds them all; a table of
    `bytes.translate` takes each count to its place.
    """
    pages: dict[int, int] = {}
    is_short = len(filled) <= _MOST_IN_FOUR and max(each[0] for each in filled) <= 2
    digit = 4 if is_short else 8
    one_by_one: list[bytes] = []
    for packed in filled:
        width = packed[0]
        size = (len(packed) - 1) // (2 + width)
        if size < _FEW or width > _MOST_BYTES:
            one_by_one.append(packed)
            continue
        first = 1 + 2 * size
        high = packed[2:first:2]
        begin = 0
        while begin < size:
            # Buckets are in order, and so are their pages.
            end = high.rindex(high[begin]) + 1
            places = _EVERY + packed[1 + 2 * begin : 1 + 2 * end : 2]
            digits = bytearray(_PAGE * digit)
            for each in range(width):
                part = packed[first + begin * width + each : first + end * width : width]
                digits[each::digit] = bytes.maketrans(places, _NONE + part)
            page = high[begin]
            pages[page] = pages.get(page, 0) + int.from_bytes(digits, "little")
            begin = end
    sums: list[int] = []
    for page in range(max(pages, default=-1) + 1):
        digits_of = pages.get(page, 0).to_bytes(_PAGE * digit, "little")
        sums += struct.unpack(f"<{_PAGE}{_CODES[digit]}", digits_of)
    for packed in one_by_one:
        buckets, counts = _unpacked(packed)
        sums += [0] * (buckets[-1] + 1 - len(sums))
        for bucket, count in zip(buckets, counts, strict=True):
            sums[bucket] += count
    return sums


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
