"""Pull and quotas: as many hand-outs as a task has, to whom its mode allows."""

from __future__ import annotations

from typing import Any

import pytest

from apps.dispatch.models import Dispatch
from apps.dispatch.services import executors, pull, tasks
from apps.dispatch.services.claim import claim
from apps.dispatch.services.pull import Nothing
from tests import callback, factories
from tests.callback import finish, take_next, taken
from tests.integration.dispatch.taken import handed

pytestmark = [pytest.mark.django_db, pytest.mark.both]


def test_six_of_twenty_get_it() -> None:
    """S0.9, S0.12, I1, I6: first come, first served, until it is used up."""
    names = [f"uid_{i:02}" for i in range(20)]
    task = factories.once_task(factories.group("gid_all", names), mode="multi", dispatch_times=6)
    winners = [n for n in names if isinstance(take_next(factories.member(n)), Dispatch)]
    assert winners == names[:6]
    assert handed(task) == 6


def test_winner_never_gets_it_again_in_multi_mode() -> None:
    """S0.10, S0.12: not even while quota is left."""
    task = factories.once_task(
        factories.group("gid_all", ["uid_a", "uid_b"]), mode="multi", dispatch_times=5
    )
    alice = factories.member("uid_a")
    assert finish(alice).task == task.pk
    assert isinstance(take_next(alice), Nothing)


@pytest.mark.parametrize("times", [1, 2])
def test_stock_that_another_begins_meanwhile_counts_on(
    times: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """S0.9, I1: who finds it begun takes one more, if there is one."""
    group = factories.group("gid_sales", ["uid_a", "uid_b"])
    task = factories.once_task(group, mode="multi", dispatch_times=times)
    meanwhile = iter([factories.member("uid_a")])

    def overtaken(*args: Any) -> Dispatch | None:
        for rival in meanwhile:
            taken(rival)
        return claim(*args)

    monkeypatch.setattr(pull, "claim", overtaken)
    answer = take_next(factories.member("uid_b"))
    assert isinstance(answer, Dispatch) == (times == 2)
    assert handed(task) == times
    assert Dispatch.objects.count() == times


def test_every_member_once() -> None:
    """dispatch_times empty: each member gets it, whoever joins later as well."""
    group = factories.group("gid_all", ["uid_a", "uid_b"])
    task = factories.once_task(group, mode="multi", dispatch_times=None)
    for name in ("uid_a", "uid_b"):
        finish(factories.member(name))
        assert isinstance(take_next(factories.member(name)), Nothing)
    executors.change_members(group=group, add=["uid_c"], actor="admin:olga")
    finish(factories.member("uid_c"))
    assert handed(task) == 3


def test_winner_in_blocking_mode_does_not_win_again_after_it(frozen_clock: Any) -> None:
    """I6: what counts goes on counting when the mode is edited, whatever was returned since."""
    alice = factories.user()
    task = factories.once_task(alice, mode="blocking", dispatch_times=3, lease_seconds=60)
    callback.finish(alice)
    second = callback.taken(alice)
    callback.release(executor=alice, number=second.pk)
    tasks.update_task(task=task, changes={"mode": "multi"}, actor=factories.OPERATOR)
    frozen_clock.advance(seconds=60)
    assert isinstance(take_next(alice), Nothing)


def test_blocking_winner_goes_on_while_stock_lasts() -> None:
    """S0.13, I6: repeats are allowed, the total is not exceeded."""
    task = factories.once_task(factories.user(), mode="blocking", dispatch_times=3)
    alice = factories.member("uid_alice")
    rounds = [finish(alice).round for _ in range(3)]
    assert rounds == [0, 1, 2]
    assert isinstance(take_next(alice), Nothing)
    assert handed(task) == 3


def test_quota_lowered_below_what_is_out_means_used_up() -> None:
    """I1: handed may exceed a lowered limit, but nothing more goes out."""
    group = factories.group("gid_all", ["uid_a", "uid_b", "uid_c"])
    task = factories.once_task(group, mode="multi", dispatch_times=3)
    for name in ("uid_a", "uid_b"):
        taken(factories.member(name))
    tasks.update_task(task=task, changes={"dispatch_times": 1}, actor="admin:olga")
    assert isinstance(take_next(factories.member("uid_c")), Nothing)
    assert handed(task) == 2
