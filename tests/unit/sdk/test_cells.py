"""Routes over several platforms: by a table that its user writes."""

from __future__ import annotations

import pytest

from apps.jobs.rules.submission import SHARDS, shard_of
from taskplatform.sdk import Cells

ROUTES = [f"user-{number}" for number in range(5000)] + ["用户-7", " ", "0"]


def test_routes_go_to_the_cell_that_has_their_shard_on_the_server() -> None:
    """S1.18, S1.19."""
    cells = Cells({number: range(number, SHARDS, 3) for number in range(3)})

    assert {route: cells.of(route) for route in ROUTES} == {
        route: shard_of(route) % 3 for route in ROUTES
    }


def test_route_stays_in_its_cell_for_ever() -> None:
    """A change of the hash would look for the jobs of a route where they are not."""
    each = Cells({number: [number] for number in range(SHARDS)})

    assert [each.of(route) for route in ("user-7", "order-1", "用户-7")] == [801, 1007, 355]


def test_new_cell_takes_only_the_shards_that_it_is_given() -> None:
    """S1.19: with the number of cells as divisor, most routes would move."""
    two = Cells({"a": range(512), "b": range(512, SHARDS)})
    three = Cells({"a": range(512), "b": range(512, 960), "c": range(960, SHARDS)})

    moved = {route for route in ROUTES if two.of(route) != three.of(route)}

    assert moved == {route for route in ROUTES if shard_of(route) >= 960}
    assert {three.of(route) for route in moved} == {"c"}


def test_table_that_is_not_whole_is_refused(subtests: pytest.Subtests) -> None:
    for shards, message in (
        ({}, "1024 shards have no cell; the first is 0"),
        ({"a": range(512), "b": range(513, SHARDS)}, "1 shards have no cell; the first is 512"),
        ({"a": range(513), "b": range(512, SHARDS)}, "shard 512 belongs to two cells"),
        ({"a": [*range(SHARDS), 0]}, "shard 0 belongs to two cells"),
        ({"a": range(SHARDS + 1)}, "shard 1024 does not exist; there are 0 to 1023"),
        ({"a": range(-1, SHARDS)}, "shard -1 does not exist"),
    ):
        with subtests.test(shards=shards), pytest.raises(ValueError, match=message):
            Cells(shards)


def test_empty_route_is_refused() -> None:
    with pytest.raises(ValueError, match="route_key is empty"):
        Cells({"a": range(SHARDS)}).of("")
