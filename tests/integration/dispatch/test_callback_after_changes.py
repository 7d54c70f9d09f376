"""What has changed since the hand-out, here or in another process, counts at the callback."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from apps.common import clock
from apps.common.errors import NotFound
from apps.dispatch.models import Dispatch, Executor
from tests import callback, factories
from tests.caches import TwoProcesses
from tests.callback import taken
from tests.frozen import FrozenClock

pytestmark = [pytest.mark.django_db, pytest.mark.both]


def following(executor: Executor, dispatch: Any) -> Any:
    done = {"executor": executor, "number": dispatch.pk, "outcome": "succeeded"}
    return callback.call_back_and_pull(**done)[1]


@pytest.mark.parametrize("elsewhere", [False, True], ids=["in one process", "in two"])
def test_when_the_user_was_seen_is_still_written(
    alice: Executor, frozen_clock: FrozenClock, processes: TwoProcesses, elsewhere: bool
) -> None:
    """Once a minute, however long the user goes on in this way."""
    for _ in range(9):
        factories.once_task(alice, lease_seconds=60)
    answer: Any = taken(alice)
    for n in range(6):
        frozen_clock.advance(seconds=40)
        if elsewhere and n == 1:
            processes.swap()
            answer = taken(alice)
            processes.swap()
            frozen_clock.advance(seconds=1)
        answer = following(alice, answer)
        alice.refresh_from_db()
        assert alice.last_seen_at is not None
        assert clock.now() - alice.last_seen_at < timedelta(minutes=1)


def test_what_a_person_has_removed_from_the_table_is_not_there(alice: Executor) -> None:
    factories.once_task(alice)
    first = taken(alice)
    Dispatch.objects.filter(pk=first.pk).delete()
    with pytest.raises(NotFound, match="no dispatch"):
        callback.call_back(executor=alice, number=first.pk, outcome="succeeded")
    with pytest.raises(NotFound, match="no dispatch"):
        following(alice, first)
