"""Once tasks whose quota is used up for good burden no queue; what can come back stays in it."""

from __future__ import annotations

from typing import Any

import pytest

from apps.common import clock
from apps.dispatch.models import Executor
from apps.dispatch.services import queue
from apps.dispatch.services.state import state_of
from tests import factories
from tests.caches import clear_caches
from tests.callback import take_next
from tests.integration.dispatch.taken import finish, title_of

pytestmark = [pytest.mark.django_db, pytest.mark.both]


@pytest.fixture
def ann() -> Executor:
    """In a group with bob."""
    factories.group("gid_a", ["uid_ann", "uid_bob"])
    return factories.member("uid_ann")


@pytest.fixture
def bob(ann: Executor) -> Executor:
    return factories.member("uid_bob")


def plan(title: str, **fields: Any) -> Any:
    return factories.once_task(factories.member("gid_a"), title, **fields)


def queued(executor: Executor) -> int:
    """The tasks in the queue of the user, built anew."""
    clear_caches()
    return queue.entry_of(state_of(executor.pk), now=clock.now()).queue.size


def test_what_others_have_finished_is_not_queued_again(ann: Executor, bob: Executor) -> None:
    """S0.20: so that a week of finished work costs a pull nothing."""
    plan("one")
    plan("two", mode="multi", dispatch_times=2)
    assert queued(ann) == 2
    finish(take_next(bob))
    assert queued(ann) == 1
    finish(take_next(bob))
    assert queued(ann) == 1
    assert title_of(take_next(ann)) == "two"


def test_blocking_task_is_queued_until_its_quota_is_used_up(ann: Executor) -> None:
    """S0.13."""
    plan("one", mode="blocking", dispatch_times=2)
    finish(take_next(ann))
    assert queued(ann) == 1
    finish(take_next(ann))
    assert queued(ann) == 0
