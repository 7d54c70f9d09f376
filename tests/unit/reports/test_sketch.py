from __future__ import annotations

import math
from collections import Counter
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apps.reports.rules.sketch import bin_of, lower_bound, pack, percentiles, unpack, value_of

durations = st.one_of(st.integers(0, 200), st.integers(0, 10**7), st.integers(0, 2**45))


def sketch_of(values: list[int]) -> dict[int, int]:
    return dict(Counter(map(bin_of, values)))


@given(durations)
def test_bin_stands_for_its_values_within_two_percent(ms: int) -> None:
    assert abs(value_of(bin_of(ms)) - ms) <= 0.02 * ms


@given(durations)
def test_bin_of_a_value_begins_at_most_two_percent_below_it(ms: int) -> None:
    value = value_of(bin_of(ms))
    assert 0.98 * value <= lower_bound(value) <= min(ms, value)


@pytest.mark.parametrize("ms", [-1, -86_400_000])
def test_negative_times_count_as_none_at_all(ms: int) -> None:
    assert value_of(bin_of(ms)) == 0


def test_no_time_is_too_long_for_its_bin() -> None:
    longest = {bin_of(2**63 - 1): 1}
    assert unpack(pack(longest)) == longest


shares = st.lists(st.sampled_from([0.01, 0.5, 0.95, 0.99, 1.0]), min_size=1)


@given(st.lists(st.lists(durations), min_size=1), shares)
def test_percentiles_of_parts_are_those_of_all_their_values_within_two_percent(
    parts: list[list[int]], shares: list[float]
) -> None:
    exact = sorted(each for part in parts for each in part)
    found = percentiles([pack(sketch_of(part)) for part in parts], shares)
    if not exact:
        assert found == (None,) * len(shares)
        return
    for share, value in zip(shares, found, strict=True):
        expected = exact[math.ceil(share * len(exact)) - 1]
        assert value is not None
        assert abs(value - expected) <= 0.02 * expected


many = st.dictionaries(
    st.integers(0, 700),
    st.sampled_from([1, 7, 255, 256, 65_535, 65_536, 2**32 - 1, 2**32]),
    max_size=90,
)


@given(st.lists(st.builds(lambda *each: each[0] | each[1], many, many), min_size=2, max_size=4))
def test_parts_of_many_bins_and_any_counts_add_up(parts: list[dict[int, int]]) -> None:
    whole: Counter[int] = Counter()
    for part in parts:
        whole.update(part)
    found = percentiles([pack(part) for part in parts], (0.1, 0.5, 0.9))
    assert found == percentiles([pack(whole)], (0.1, 0.5, 0.9))


def test_each_bin_of_a_sum_counts_what_its_parts_do(subtests: pytest.Subtests) -> None:
    for size, count in product(
        (1, 63, 64, 255, 256, 257, 600), (1, 255, 256, 65_536, 2**32 - 1000, 2**33)
    ):
        with subtests.test(size=size, count=count):
            part = {number: count + number for number in range(size)}
            whole = {number: 3 * each for number, each in part.items()}
            shares = [(number + 0.5) / size for number in range(size)]
            assert percentiles([pack(part)] * 3, shares) == percentiles([pack(whole)], shares)


def test_percentiles_of_nothing_are_none() -> None:
    assert percentiles([], (0.5, 0.95)) == (None, None)
    assert percentiles([b"", b""], (0.5,)) == (None,)


@given(st.dictionaries(st.integers(0, 3000), st.integers(1, 2**63), max_size=40))
def test_packing_loses_nothing(sketch: dict[int, int]) -> None:
    assert unpack(pack(sketch)) == sketch


def test_packing_is_the_same_in_whatever_order_it_was_counted() -> None:
    assert pack({3: 1, 1: 2}) == pack({1: 2, 3: 1})


def test_packing_takes_as_few_bytes_as_it_can() -> None:
    assert len(pack(dict.fromkeys(range(100, 200), 200))) == 103
    assert len(pack(dict.fromkeys(range(100, 400, 3), 200))) == 301
    assert len(pack(dict.fromkeys(range(100, 400, 3), 300))) == 401
    assert len(pack({7: 1, 900: 1})) == 7
    assert pack({}) == b""
