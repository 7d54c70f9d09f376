"""Sketches: mergeable distributions of milliseconds in log-sized bins, as in DDSketch.

A sketch is a dict of bin → count. The widths of bins grow by 2 %, so a percentile is off by 2 % at
most. Two sketches are merged by adding their counts, in any order: the sum of the minutes of an
hour is the sketch of the hour.
"""

from __future__ import annotations

import math
import struct
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from functools import cache, lru_cache
from itertools import accumulate
from typing import TypeAlias

Sketch: TypeAlias = dict[int, int]

# The middle of a bin is 1 % off its edges, and rounding to whole milliseconds adds at most another
# 1 %. Below 50 ms the result is exact.
GROWTH = 1.02
_SCALE = 1 / math.log(GROWTH)
# 285 years.
_MAX_MS = 2**53
_WIDTHS = ((1, "B"), (2, "H"), (4, "I"), (8, "Q"))
_CODES = dict(_WIDTHS)
# The first byte of a packed sketch is the width of its counts. This bit marks a dense one, which
# has a count for every bin from the first to the last.
_DENSE = 0x80
# Counts of dense sketches are at most this wide, so sums of very many fit into eight bytes.
_MAX_BYTES = 4
# Sums of this many two-byte counts fit into four bytes.
_MAX_IN_FOUR = 1 << 16


@lru_cache(maxsize=1 << 17)
def bin_of(ms: int) -> int:
    """The bin that counts this duration: 0 for 0 and less, which clocks may report."""
    return 0 if ms <= 0 else 1 + math.ceil(math.log(min(ms, _MAX_MS)) * _SCALE)


@cache
def value_of(number: int) -> int:
    """The milliseconds that a bin stands for."""
    if number == 0:
        return 0
    return round(2 * GROWTH ** (number - 1) / (1 + GROWTH))


@cache
def lower_bound(value: int) -> int:
    """The shortest duration in the bin of this value, which is a result of `value_of`."""
    number = bin_of(value)
    return value if number < 2 else math.floor(GROWTH ** (number - 2)) + 1


def percentiles(packed: Sequence[bytes], shares: Sequence[float]) -> tuple[int | None, ...]:
    """The nearest-rank percentiles of all the packed sketches together; None without values.

    Each share is 0 < share ≤ 1. So 0.5 of four values is the second one.
    """
    if len(packed) == 1:
        return _of_one(packed[0], shares)
    filled = [each for each in packed if each]
    if len(filled) < 2:
        return _of_one(filled[0] if filled else b"", shares)
    counts = _merged(filled)
    return tuple([value_of(number) for number in _ranks(list(accumulate(counts)), shares)])


def distribution(packed: Sequence[bytes]) -> Sketch:
    """All the packed sketches together: their counts by the milliseconds of the bin, ascending."""
    counts = _merged([each for each in packed if each])
    return {value_of(number): count for number, count in enumerate(counts) if count}


def _of_one(packed: bytes, shares: Sequence[float]) -> tuple[int | None, ...]:
    """The percentiles of one packed sketch, without merging: most hours of a report are one."""
    if not packed:
        return (None,) * len(shares)
    bins, counts = _unpacked(packed)
    return tuple([value_of(bins[at]) for at in _ranks(list(accumulate(counts)), shares)])


def _ranks(sums: Sequence[int], shares: Sequence[float]) -> list[int]:
    """The positions in the running sums at which the shares are reached."""
    total = sums[-1]
    return [bisect_left(sums, math.ceil(share * total)) for share in shares]


def _merged(filled: Sequence[bytes]) -> list[int]:
    """The sums of all counts, from bin 0 on.

    A loop over all bins would take most of the time of a report. Instead, the counts of a dense
    sketch are the digits of one long integer, and one addition adds them all.
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
        bins, counts = _unpacked(packed)
        sums += [0] * (bins[-1] + 1 - len(sums))
        for number, count in zip(bins, counts, strict=True):
            sums[number] += count
    return sums


def unpack(packed: bytes) -> Sketch:
    """The sketch from its packed bytes."""
    if not packed:
        return {}
    return {number: count for number, count in zip(*_unpacked(packed), strict=True) if count}


def pack(sketch: Mapping[int, int]) -> bytes:
    """Pack the sketch; equal sketches give equal bytes, an empty one gives none.

    One byte names the width of the counts and the format, the shorter of two. Sparse: all bins, two
    bytes each, then their counts. Dense: the first bin, then the counts of every bin to the last.
    """
    if not sketch:
        return b""
    bins = sorted(sketch)
    counts = [sketch[number] for number in bins]
    highest = max(counts)
    width, code = next(each for each in _WIDTHS if highest < 1 << 8 * each[0])
    size, first = len(bins), bins[0]
    span = bins[-1] + 1 - first
    if width > _MAX_BYTES or 2 + width * span > (2 + width) * size:
        return struct.pack(f"<B{size}H{size}{code}", width, *bins, *counts)
    dense = [0] * span
    for number, count in sketch.items():
        dense[number - first] = count
    return struct.pack(f"<BH{span}{code}", _DENSE | width, first, *dense)


def _unpacked(packed: bytes) -> tuple[Sequence[int], Sequence[int]]:
    """The bins and their counts, some of which may be 0."""
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
