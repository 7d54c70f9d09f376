"""Pull and quotas: as many hand-outs as a task has, to whom its mode allows."""

from __future__ import annotations

from typing import Any

import pytest

from apps.dispatch.models import Dispatch
from apps.dispatch.services import pull, tasks
from apps.dispatch.services.claim import claim
from apps.dispatch.services.pull import Nothing
from tests import callback, factories
from tests.callback import take_next, taken
from tests.integration.dispatch.taken import handed

pytestmark = [pytest.mark.django_db, pytest.mark.both]


def test_six_of_twenty_get_it() -> None:
    """S0.9, S0.12, I1, I6: first come, first served, until it is used up."""
    names = [f"uid_{i:02}" for i in range(20)]
    task = factories.once_task(factories.group("gid_all", names), mode="multi", dispatch_times=6)
    winners = [n for n in names if isinstance(take_next(factories.member(n)), Dispatch)]
    assert winners == names[:6]
    assert handed(task) == 6


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
