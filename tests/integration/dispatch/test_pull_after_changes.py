"""What has changed since a user's last pull, here or in another process, counts at the next one."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from apps.common import clock, ids
from apps.common.rows import insert_rows
from apps.dispatch.models import Dispatch, Executor, OnceTask, Stock
from apps.dispatch.services import candidates, executors
from tests import callback, factories
from tests.caches import TwoProcesses
from tests.callback import take_next
from tests.frozen import FrozenClock
from tests.integration.dispatch.pair import id_maker
from tests.integration.dispatch.taken import finish, title_of
from tests.statements import sent_by

pytestmark = [pytest.mark.django_db, pytest.mark.both]


def row_by_row(executor: Executor, count: int, **fields: Any) -> list[OnceTask]:
    """Once tasks of these titles, in this order: 1, 2, …"""
    start = clock.now() - timedelta(hours=1)
    return [
        factories.once_task(executor, str(n), start_at=start + timedelta(minutes=n), **fields)
        for n in range(1, count + 1)
    ]


class TestAfterChanges:
    def test_what_another_process_did_after_the_quiet_counts(
        self, processes: TwoProcesses, frozen_clock: FrozenClock
    ) -> None:
        """S0.19: what is finished there is not handed out here."""
        alice = factories.user()
        later = factories.once_task(alice, start_at=clock.now() + timedelta(minutes=5))
        assert title_of(take_next(alice)) == "nothing"
        processes.swap()
        frozen_clock.move_to(later.start_at)
        finish(take_next(alice))
        processes.swap()
        assert title_of(take_next(alice)) == "nothing"

    def test_quiet_ends_when_something_is_due(self, frozen_clock: FrozenClock) -> None:
        """S0.25: at the very instant."""
        alice = factories.user()
        start = clock.now() + timedelta(minutes=5)
        factories.once_task(alice, "later", start_at=start)
        assert title_of(take_next(alice)) == "nothing"
        frozen_clock.move_to(start - timedelta(milliseconds=1))
        assert title_of(take_next(alice)) == "nothing"
        frozen_clock.move_to(start)
        assert title_of(take_next(alice)) == "later"

    def test_an_open_task_is_found_whatever_is_remembered(self) -> None:
        """I4: as a row that a person has put there."""
        alice = factories.user()
        task = factories.once_task(alice, "by hand", start_at=clock.now() + timedelta(hours=1))
        assert title_of(take_next(alice)) == "nothing"
        _handed_out_elsewhere(alice, task, at=clock.now(), open_for=alice.pk, state="open")
        assert title_of(take_next(alice)) == "by hand"

    def test_a_task_that_took_long_is_known_to_be_over(self, frozen_clock: FrozenClock) -> None:
        """S0.19: its end is accepted, however long ago it was handed out."""
        alice = factories.user()
        row_by_row(alice, 3, lease_seconds=7200)
        taken = take_next(alice)
        frozen_clock.move_to(clock.now() + timedelta(minutes=10))
        assert isinstance(taken, Dispatch)
        finish(taken)
        frozen_clock.move_to(clock.now() + timedelta(minutes=10))
        sent = sent_by(lambda: title_of(take_next(alice)) == "2")
        assert sum(_is_hand_out(sql) for sql in sent) == 1

    def test_an_executor_made_anew_under_the_name_is_another(self) -> None:
        alice = factories.user()
        assert title_of(take_next(alice)) == "nothing"
        executors.remove_executor(executor=alice, actor="admin:olga")
        factories.once_task(factories.user(alice.name), "of the new one")
        assert title_of(take_next(Executor.objects.get(name=alice.name))) == "of the new one"

    def test_what_a_machine_with_a_slow_clock_gave_is_not_given_again(self) -> None:
        """I6: its dispatch has an id that this process takes for one it knows."""
        alice = factories.user()
        one, two, _ = row_by_row(alice, 3)
        finish(take_next(alice))
        _handed_out_elsewhere(alice, two, at=clock.now() - timedelta(hours=1))
        assert title_of(take_next(alice)) == "3"
        assert Dispatch.objects.filter(task=two.pk).count() == 1
        assert Dispatch.objects.filter(task=one.pk).count() == 1

    def test_a_quota_that_others_have_used_up_is_kept(self) -> None:
        """S0.25: the user saw it free, and comes too late."""
        members = [f"uid_{n}" for n in range(3)]
        group = factories.group("gid_all", members)
        a, b, c = map(factories.member, members)
        limited = factories.once_task(group, "limited", mode="multi", dispatch_times=2)
        factories.once_task(a, "first", priority=2)
        factories.once_task(a, "last", priority=-1)
        # It has a stock row, so that it will be tried.
        finish(take_next(c))
        first = take_next(a)
        finish(take_next(b))
        finish(first)
        assert title_of(take_next(a)) == "last"
        assert Stock.objects.get(task=limited.pk).handed == 2

    def test_a_stock_that_somebody_else_has_begun_is_counted_on(self) -> None:
        """S0.25: the user saw no row of it."""
        group = factories.group("gid_all", ["uid_a", "uid_b"])
        a, b = factories.member("uid_a"), factories.member("uid_b")
        shared = factories.once_task(group, "shared", mode="multi", dispatch_times=2)
        factories.once_task(a, "first", priority=2)
        first = take_next(a)
        finish(take_next(b))
        finish(first)
        attempts: list[Any] = []
        sent = sent_by(lambda: attempts.append(take_next(a)))
        assert title_of(attempts[0]) == "shared"
        assert sum(_is_hand_out(sql) for sql in sent) == 1
        assert Stock.objects.get(task=shared.pk).handed == 2

    def test_what_was_seen_open_is_read_again(
        self, processes: TwoProcesses, frozen_clock: FrozenClock, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """S0.28: another pull, which read its clock long ago, was done between two reads."""
        alice = factories.user()
        past_of, now = candidates.past_of, clock.now()
        start = now - timedelta(hours=1)
        factories.once_task(alice, mode="multi", dispatch_times=3, lease_seconds=60, start_at=start)

        def overtaken(*args: Any) -> Any:
            monkeypatch.setattr(candidates, "past_of", past_of)
            with monkeypatch.context() as elsewhere:
                elsewhere.setattr(ids, "_maker", id_maker(node=3))
                frozen_clock.move_to(now - timedelta(seconds=5))
                processes.swap()
                take_next(alice)
                processes.swap()
            frozen_clock.move_to(now)
            return past_of(*args)

        monkeypatch.setattr(candidates, "past_of", overtaken)
        taken = callback.taken(alice)
        assert taken.redo == 1
        callback.release(executor=alice, number=taken.pk)
        frozen_clock.move_to(now + timedelta(seconds=60))
        assert title_of(take_next(alice)) == "Check the shelf"


def _is_hand_out(sql: str) -> bool:
    return 'INTO "dispatch_dispatch"' in sql.replace("`", '"')


def _handed_out_elsewhere(user: Executor, task: OnceTask, *, at: Any, **fields: Any) -> None:
    """By a machine that takes it to be that time."""
    row = {
        "id": ids.lowest_id_at(at),
        "executor_id": user.pk,
        "open_for": None,
        "source": "once",
        "task": task.pk,
        "occurrence": 0,
        "occurrence_at": task.start_at,
        "title": task.title,
        "params": {},
        "template_name": "",
        "template_version": None,
        "state": "succeeded",
        "dispatched_at": at,
        "deadline_at": at + timedelta(hours=1),
        "finished_at": at,
        **fields,
    }
    insert_rows(Dispatch, [row])
    insert_rows(Stock, [{"source": "once", "task": task.pk, "occurrence": 0, "handed": 1}])
