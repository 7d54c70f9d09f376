"""S4.10-S4.12, I46: who prefers which shards, and when that changes."""

from __future__ import annotations

import json
from collections import Counter
from datetime import UTC, datetime, timedelta
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apps.jobs.rules.slices import (
    CHANGE_EVERY,
    MAX_OWNERS,
    Living,
    SliceMap,
    Slices,
    client_and_name,
    member_key,
    next_map,
    slices_among,
)
from apps.jobs.rules.submission import SHARDS
from tests.steps import assert_linear

NOW = datetime(2026, 3, 2, 9, tzinfo=UTC)
MAIL = frozenset({"mail"})
ALL = list(range(SHARDS))

members = st.frozensets(
    st.text("abcdefghijklmnop0123456789.:@-", min_size=1, max_size=20).map(
        lambda name: member_key("", name)
    ),
    max_size=80,
)


def workers(count: int) -> frozenset[str]:
    return frozenset(f"/worker@host-{n}:{1000 + n}:ab12cd34" for n in range(count))


def owner_by_shard(slices: Slices) -> list[str]:
    return [slices.owner_of(shard) for shard in ALL]


def living(*names: str, steady: bool = True, types: frozenset[str] = MAIL) -> dict[str, Living]:
    return {name: Living(types=types, is_steady=steady) for name in names}


def after(seconds: float) -> datetime:
    return NOW + timedelta(seconds=seconds)


# --- who owns what --------------------------------------------------------------------------------
@given(members)
def test_slices_of_any_members_are_all_shards_and_share_none(names: frozenset[str]) -> None:
    """I46"""
    slices = slices_among(names)

    owned = [shard for name in names for shard in slices.shards_of(name)]

    assert sorted(owned) == (ALL if names else [])
    assert {*slices.owners, *slices.spares} == names
    assert len(slices.owners) == min(len(names), MAX_OWNERS)
    assert all(slices.shards_of(name) == [] for name in slices.spares)


@given(members.filter(bool), st.text("qrstuvw", min_size=1, max_size=20))
def test_joining_worker_takes_shards_from_others_and_moves_no_other(
    names: frozenset[str], new: str
) -> None:
    """S4.11: a shard stays where it is or goes to the new one; read backwards, that is a leave."""
    before, joined = slices_among(names), slices_among(names | {f"/{new}"})
    gone = set(before.owners) - set(joined.owners)

    moved = [
        shard
        for shard in ALL
        if before.owner_of(shard) != joined.owner_of(shard)
        and before.owner_of(shard) not in gone
        and joined.owner_of(shard) != f"/{new}"
    ]

    assert moved == []
    assert len(gone) <= 1


def test_join_moves_about_its_part_of_the_shards(subtests: pytest.Subtests) -> None:
    """S4.11: 1/n and little more."""
    for count in (1, 2, 3, 8, 20, 50, 63):
        with subtests.test(count=count):
            before = owner_by_shard(slices_among(workers(count)))
            joined = owner_by_shard(slices_among(workers(count + 1)))
            moved = sum(old != new for old, new in zip(before, joined, strict=True))
            share = SHARDS / (count + 1)
            assert 0 < moved <= share + 4 * share**0.5


def test_shards_are_spread_evenly() -> None:
    counts = Counter(owner_by_shard(slices_among(workers(50))))

    assert len(counts) == 50
    assert min(counts.values()) >= 5
    assert max(counts.values()) <= 40


def test_more_workers_than_owners_are_spares_that_move_up() -> None:
    """S4.12: the place of a dead owner goes to a spare, and nobody else's changes hands."""
    names = workers(70)
    before = slices_among(names)
    assert (len(before.owners), len(before.spares)) == (64, 6)

    dead = before.owners[10]
    after_death = slices_among(names - {dead})

    [risen] = set(after_death.owners) - set(before.owners)
    assert risen in before.spares
    assert len(after_death.spares) == 5
    assert after_death.shards_of(risen)
    kept = [
        shard
        for shard in ALL
        if before.owner_of(shard) != dead and after_death.owner_of(shard) != risen
    ]
    assert all(before.owner_of(s) == after_death.owner_of(s) for s in kept)


def test_slices_are_the_same_in_every_process_for_ever() -> None:
    """Two versions of the platform beside each other agree."""
    owner = owner_by_shard(slices_among(frozenset({"/a", "/b", "shop/a"})))

    assert owner[:8] == ["/a", "shop/a", "/b", "/a", "shop/a", "shop/a", "/b", "shop/a"]


def test_slices_cost_in_proportion_to_their_members() -> None:
    assert_linear(lambda count: slices_among.__wrapped__(workers(count)), 25)


def test_workers_of_two_keys_may_have_one_name() -> None:
    both = slices_among(frozenset({member_key("shop", "pi-1"), member_key("bank", "pi-1")}))

    assert both.owners == ("bank/pi-1", "shop/pi-1")
    assert [client_and_name(each) for each in both.owners] == [("bank", "pi-1"), ("shop", "pi-1")]


# --- the map --------------------------------------------------------------------------------------
def test_each_type_has_slices_of_those_who_serve_it() -> None:
    both = frozenset({"mail", "web"})
    known = SliceMap(3, NOW, {"/a": both, "/b": MAIL, "/c": frozenset({"web"})})

    assert known.slices_of("mail").owners == ("/a", "/b")
    assert known.slices_of("web").owners == ("/a", "/c")
    mail, web = (known.slices_of(name).shards_of("/a") for name in ("mail", "web"))
    assert known.shards_of("/a") == sorted({*mail, *web})
    assert known.shards_of("/nobody") == []


@given(
    st.dictionaries(members.flatmap(lambda m: st.sampled_from(sorted(m) or ["/a"])), members),
    st.integers(1, 10**6),
)
def test_saved_map_is_read_back(types: dict[str, frozenset[str]], epoch: int) -> None:
    known = SliceMap(epoch, NOW, types)

    assert SliceMap.from_json(json.loads(json.dumps(known.to_json()))) == known


# --- when it changes ------------------------------------------------------------------------------
def test_worker_comes_in_when_it_is_steady_and_stays_when_it_begins_anew() -> None:
    """S4.11: one that has just begun may be gone in a moment; one that is known is believed."""
    first = next_map(SliceMap(), living("/a"), NOW)
    assert (first.epoch, first.since, dict(first.members)) == (1, NOW, {"/a": MAIL})

    new = living("/a") | living("/b", steady=False)
    assert next_map(first, new, after(10)) is first
    assert next_map(first, living("/a", steady=False), after(10)) is first
    second = next_map(first, living("/a", "/b"), after(10))
    assert (second.epoch, set(second.members)) == (2, {"/a", "/b"})


def test_worker_without_types_is_no_member() -> None:
    assert next_map(SliceMap(), living("/a", types=frozenset()), NOW) == SliceMap()


def test_changed_types_are_a_change() -> None:
    known = SliceMap(1, NOW, {"/a": MAIL})
    both = frozenset({"mail", "web"})

    following = next_map(known, living("/a", types=both), after(10))

    assert (following.epoch, dict(following.members)) == (2, {"/a": both})


def test_map_stays_for_ten_seconds() -> None:
    known = SliceMap(1, NOW, {"/a": MAIL})

    assert next_map(known, living("/b"), after(9.999)) is known
    assert known.may_change_at(after(9.999)) == after(10)
    assert next_map(known, living("/b"), after(10)).epoch == 2
    assert known.may_change_at(after(10)) is None


def test_clock_that_went_back_holds_up_no_change() -> None:
    known = SliceMap(1, NOW, {"/a": MAIL})

    assert next_map(known, living("/b"), after(-3600)).epoch == 2


@given(st.lists(st.booleans(), min_size=30, max_size=120))
def test_flapping_worker_makes_at_most_one_epoch_in_ten_seconds(there: list[bool]) -> None:
    """S4.11: whatever it does at each sweep."""
    known, changes = SliceMap(), [after(-3600)]
    for step, is_there in enumerate(there):
        now = after(2 * step)
        following = next_map(known, living("/a", *(["/b"] if is_there else [])), now)
        if following is not known:
            changes.append(now)
        known = following

    gaps = [later - earlier for earlier, later in pairwise(changes)]
    assert min(gaps) >= CHANGE_EVERY
    assert known.epoch == len(changes) - 1
