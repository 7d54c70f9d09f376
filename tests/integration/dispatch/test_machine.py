"""Dispatch against a plain model of it: whatever is done in whatever order, both answer the same.

The cache is kept from step to step, time leaps, edits come between, housekeeping removes what is
over, and steps break off between two statements.
"""

from __future__ import annotations

import math
from datetime import datetime, timedelta
from typing import Any

import hypothesis
import pytest
from django.core.cache import cache
from hypothesis import strategies as st
from hypothesis.stateful import initialize, precondition, rule, run_state_machine_as_test

from apps.common import ids
from apps.dispatch.cache import near
from apps.dispatch.models import TASK_MODELS, Dispatch
from apps.dispatch.services import callback, ending, executors, retention, tasks
from apps.dispatch.services.expire import expire_due
from apps.dispatch.services.pull import Nothing, take_next
from tests import factories
from tests.frozen import FrozenClock
from tests.integration.dispatch.drawn import (
    BY_HAND,
    EDITS,
    HORIZON,
    MEMBERS,
    MINUTE,
    USERS,
    Plan,
    a_number,
    leaps,
    lengths,
    misfires,
    modes,
    plans,
    policies,
    rhythms,
    some_executor,
    some_group,
    some_result,
    some_state,
    some_user,
    starts,
)
from tests.integration.dispatch.model import LOOKBACK, Handed, Model, Task
from tests.integration.dispatch.pair import Fuse, Pair, answered, id_maker


class DispatchMachine(Pair):
    """The steps, drawn in any order."""

    # --- time, cache, crashes, housekeeping --------------------------------------------------
    @rule(by=leaps)
    def wait(self, by: timedelta) -> None:
        self.clock.move_to(self.now + by)

    @rule(edge=st.integers(0, 5), early=st.sampled_from([0, 0, 1]))
    def wait_for_an_edge(self, edge: int, early: int) -> None:
        """To the very moment at which something begins, ends or may be had again."""
        edges = self.model.edges(self.now)
        if edges:
            self.clock.move_to(edges[edge % len(edges)] - timedelta(milliseconds=early))

    @rule(statements=st.sampled_from(range(1, 15)))
    def break_off_the_next_step(self, statements: int) -> None:
        self.fuse = Fuse(statements)

    @rule(what=st.sampled_from(["cache", "process", "expiry", "purge"]))
    def meddle(self, what: str) -> None:
        """Redis is flushed, another process answers next, or a sweep is at work."""
        meddling = {
            "cache": cache.clear,
            "process": near.clear,
            "expiry": self.expire,
            "purge": self.purge,
        }
        meddling[what]()
        self.everybody_pulls()

    def expire(self) -> None:
        def ideal(model: Model) -> int:
            overdue = model.overdue(self.now)
            for each in overdue:
                model.end(each, "expired", self.now)
            return len(overdue)

        real, wanted = self.both(lambda: expire_due(until=self.now + MINUTE), ideal)
        assert real == wanted

    def purge(self) -> None:
        """What goes is over for longer than the horizon; no later answer may tell that it went."""
        retention.purge(until=self.now + MINUTE)
        statuses = {
            (source, number): status
            for source, model in TASK_MODELS.items()
            for number, status in model._default_manager.values_list("pk", "status")
        }
        for task in self.model.tasks:
            status = statuses.get((task.source, task.number), "deleted")
            if status != task.status:
                end = task.end_at or task.start_at + LOOKBACK
                assert (task.source == "once" or task.end_at) and end < self.now - HORIZON
                task.status = status
        there = set(Dispatch.objects.values_list("pk", flat=True))
        for each in self.model.handed:
            if not each.gone and each.number not in there:
                assert each.finished_at and each.finished_at < self.now - HORIZON
                assert each.task.source == "rotate" or each.task.status == "deleted"
                each.gone = True
        assert all(
            (each.task.source, each.task.number) in statuses
            for each in self.model.handed
            if not each.gone
        )

    # --- executors ---------------------------------------------------------------------------
    @rule(user=some_user)
    def pull(self, user: str) -> None:
        self.pulled(user)

    def everybody_pulls(self) -> None:
        for user in USERS:
            self.pulled(user)

    @rule(user=some_user, state=some_state, result=some_result)
    def pull_and_call_back(self, user: str, state: str, result: Any) -> None:
        handed = self.pulled(user)
        if handed is not None:
            self.told(user, handed, state, result)

    @rule(
        user=some_user,
        first=st.sampled_from(range(1, 15)),
        second=st.sampled_from(range(1, 9)),
        state=some_state,
    )
    def pull_and_call_back_at_the_second_try(
        self, user: str, first: int, second: int, state: str
    ) -> None:
        self.fuse = Fuse(first)
        handed = self.pulled(user)
        if handed is not None:
            self.fuse = Fuse(second)
            self.told(user, handed, state, None)

    @rule(user=some_user, state=st.sampled_from(BY_HAND), edge=st.integers(0, 3))
    def pull_and_lose_it(self, user: str, state: str, edge: int) -> None:
        """A person ends it; the user asks again at once, and when something changes."""
        handed = self.pulled(user)
        if handed is not None:
            self.ended_by_hand(handed, state)
            self.pulled(user)
            self.wait_for_an_edge(edge, 0)
            self.pulled(user)

    @rule(plan=plans, states=st.lists(some_state, min_size=1, max_size=3))
    def plan_and_work_off(self, plan: Plan, states: list[str]) -> None:
        self.plan(plan)
        self.work_off(states)

    @rule(states=st.lists(some_state, min_size=1, max_size=5))
    def work_off(self, states: list[str]) -> None:
        """Everybody works as long as there is something, so far as the outcomes go."""
        for user in USERS:
            for state in states:
                handed = self.pulled(user)
                if handed is None:
                    break
                self.told(user, handed, state, None)

    @rule(by=leaps, states=st.lists(some_state, min_size=1, max_size=2))
    def wait_and_work_off(self, by: timedelta, states: list[str]) -> None:
        self.wait(by)
        self.work_off(states)

    @rule(user=some_user, edge=st.integers(0, 3), early=st.sampled_from([0, 1]))
    def pull_and_fall_silent(self, user: str, edge: int, early: int) -> None:
        self.pulled(user)
        self.wait_for_an_edge(edge, early)
        self.pulled(user)

    def pulled(self, user: str) -> Handed | None:
        real, wanted = self.both(
            lambda: take_next(self.people[user]), lambda model: model.pull(user, self.now)
        )
        if wanted is None:
            assert isinstance(real, Nothing), (real.source, real.task, real.occurrence_at)
            self.check_wait(user, real.retry_after)
            return None
        assert isinstance(real, Dispatch), wanted
        wanted.number = wanted.number or real.pk
        assert (real.pk, real.source, real.task, real.occurrence_at, real.redo) == (
            wanted.number,
            wanted.task.source,
            wanted.task.number,
            wanted.due_at,
            wanted.redo,
        )
        return wanted

    def check_wait(self, user: str, seconds: int) -> None:
        """S0.25: nobody is sent away for longer than until there is something for them."""
        assert 1 <= seconds <= 60
        for later in range(1, 56):
            if self.model.offer(user, self.now + timedelta(seconds=later)):
                # A tenth of it may be added, so that clients do not herd.
                assert seconds <= max(1, math.ceil(later * 1.1)), later
                return

    @rule(user=some_user, number=a_number, state=some_state, result=some_result)
    def call_back(self, user: str, number: int, state: str, result: Any) -> None:
        """Late, repeated, of another, unknown, or of one that housekeeping has removed."""
        self.told(user, self.nth(number) if self.model.handed else None, state, result)

    @precondition(lambda self: self.model.handed)
    @rule(number=a_number, state=some_state, result=some_result)
    def call_back_own(self, number: int, state: str, result: Any) -> None:
        handed = self.nth(number)
        self.told(handed.user, handed, state, result)

    def told(self, user: str, handed: Handed | None, state: str, result: Any) -> None:
        def real() -> str:
            return callback.call_back(
                executor=self.people[user],
                number=12345 if handed is None else handed.number,
                outcome=state,
                result=result,
            ).state

        answer, wanted = self.both(
            lambda: answered(real),
            lambda model: model.call_back(user, handed, state, result, self.now),
        )
        assert answer == wanted

    @precondition(lambda self: self.model.handed)
    @rule(number=a_number, seconds=st.sampled_from([1, 120, 86_400]))
    def extend(self, number: int, seconds: int) -> None:
        handed = self.nth(number)

        def real() -> str:
            person = self.people[handed.user]
            return callback.extend(executor=person, number=handed.number, seconds=seconds).state

        answer, wanted = self.both(
            lambda: answered(real), lambda model: model.extend(handed, seconds, self.now)
        )
        assert answer == wanted

    @precondition(lambda self: self.model.handed)
    @rule(number=a_number, state=st.sampled_from(BY_HAND))
    def end_by_hand(self, number: int, state: str) -> None:
        self.ended_by_hand(self.nth(number), state)

    def ended_by_hand(self, handed: Handed, state: str) -> None:
        end = {
            "released": ending.release,
            "cancelled": ending.cancel,
            "expired": ending.expire_now,
        }[state]

        def real() -> str:
            found = ending.find_dispatch(handed.number)
            return end(dispatch=found, actor=factories.OPERATOR, reason="A test").state

        answer, wanted = self.both(
            lambda: answered(real), lambda model: model.end_by_hand(handed, state, self.now)
        )
        assert answer == wanted

    def nth(self, number: int) -> Handed:
        """The newest ones by small numbers, which also serve to shrink."""
        return self.model.handed[-1 - number % len(self.model.handed)]

    # --- operators ---------------------------------------------------------------------------
    @initialize(plans=st.lists(plans, min_size=1, max_size=4))
    def begin(self, plans: list[Plan]) -> None:
        for plan in plans:
            self.plan(plan)

    @rule(plan=plans)
    def plan(self, plan: Plan) -> None:
        fields = self.times(plan.start, plan.length) | plan.fields

        def real() -> int:
            made: Any = tasks.create_task(
                TASK_MODELS[plan.source],
                title="A task",
                executor=self.people[plan.executor],
                actor=factories.OPERATOR,
                **fields,
            )
            return int(made.pk)

        def ideal(model: Model) -> Task:
            task = Task(plan.source, 0, plan.executor, **fields)
            task.effective_from = task.start_at
            model.tasks.append(task)
            return task

        number, task = self.both(real, ideal)
        task.number = number

    def times(self, start: timedelta, length: timedelta | None) -> dict[str, datetime | None]:
        start_at = (self.now + start).replace(microsecond=0)
        return {"start_at": start_at, "end_at": None if length is None else start_at + length}

    @precondition(lambda self: self.model.tasks)
    @rule(
        data=st.data(),
        number=a_number,
        what=st.sampled_from(EDITS),
        pulls=st.booleans(),
    )
    def edit(self, data: st.DataObject, number: int, what: str, pulls: bool) -> None:
        task = self.task(number)
        start_at = task.start_at
        changes: dict[str, Any] = {}
        if what == "delete":
            self.delete(task)
        elif what == "mode" and task.mode != "blocking":
            mode, times = data.draw(modes)
            changes = {"mode": mode, "dispatch_times": times}
        elif what == "times" and task.mode != "single":
            changes = {"dispatch_times": data.draw(st.integers(1, 3))}
        elif what == "executor":
            changes = {"executor": data.draw(some_executor)}
        elif what == "policy":
            changes = data.draw(policies)
        elif what == "start":
            length = None if task.end_at is None else task.end_at - start_at
            changes = self.times(data.draw(starts), length)
        elif what == "end":
            length = data.draw(lengths)
            changes = {"end_at": None if length is None else start_at + length}
        elif what == "status":
            changes = {"status": "paused" if task.status == "active" else "active"}
        elif what == "rule" and task.source == "rotate":
            changes = {"rule": data.draw(rhythms)}
        elif what == "misfire" and task.source == "rotate":
            misfire, limit = data.draw(misfires)
            changes = {"misfire": misfire, "misfire_limit": limit}
        if changes:
            self.edited(task, changes)
        if pulls:
            self.everybody_pulls()

    def edited(self, task: Task, changes: dict[str, Any]) -> None:
        written = dict(changes)
        if "executor" in changes:
            written["executor"] = self.people[changes["executor"]]

        def real() -> str:
            row = TASK_MODELS[task.source](pk=task.number)
            return str(
                tasks.update_task(task=row, changes=written, actor=factories.OPERATOR).status
            )

        def ideal(model: Model) -> str:
            gone = not TASK_MODELS[task.source]._default_manager.filter(pk=task.number).exists()
            return "not_found" if gone else model.edit(task, changes, self.now)

        answer, wanted = self.both(lambda: answered(real), ideal)
        assert answer == wanted

    def delete(self, task: Task) -> None:

        def real() -> str:
            row = TASK_MODELS[task.source](pk=task.number)
            return str(tasks.delete_task(task=row, actor=factories.OPERATOR))

        def ideal(model: Model) -> None:
            task.status = "deleted"

        self.both(lambda: answered(real), ideal)

    def task(self, number: int) -> Task:
        return self.model.tasks[-1 - number % len(self.model.tasks)]

    @rule(executor=some_executor, user=some_user, group=some_group, switches=st.booleans())
    def reorganise(self, executor: str, user: str, group: str, switches: bool) -> None:
        if switches:
            self.switch(executor)
        else:
            self.join_or_leave(user, group)
        self.everybody_pulls()

    def switch(self, executor: str) -> None:
        """Disable an executor, or enable it again."""

        def real() -> None:
            executors.update_executor(
                executor=self.people[executor],
                changes={"enabled": executor in self.model.disabled},
                actor=factories.OPERATOR,
            )

        self.both(real, lambda model: model.disabled.symmetric_difference_update({executor}))

    def join_or_leave(self, user: str, group: str) -> None:
        def real() -> None:
            side = "remove" if user in self.model.members[group] else "add"
            change: dict[str, Any] = {side: [user]}
            executors.change_members(group=self.people[group], actor=factories.OPERATOR, **change)

        self.both(real, lambda model: model.members[group].symmetric_difference_update({user}))


@pytest.fixture
def world(db: None, frozen_clock: FrozenClock, settings: Any, monkeypatch: Any) -> None:
    """The people of every example; what an example does is rolled back behind it."""
    # As short as the settings allow: all that the lookback does not protect goes.
    settings.DISPATCH_RETENTION = settings.TASK_RETENTION = timedelta(seconds=1)
    monkeypatch.setattr(retention, "LONGEST_REST", 0.0)
    monkeypatch.setattr(ids, "_maker", id_maker(node=1))
    monkeypatch.setattr(DispatchMachine, "clock", frozen_clock, raising=False)
    for user in USERS:
        factories.user(user)
    for group, members in MEMBERS.items():
        factories.group(group, sorted(members))


def test_dispatch_answers_as_its_model(world: None) -> None:
    """S0.10, S0.12, S0.13, S0.14, S0.15, S0.19, S0.22, S0.25, S0.28, S0.29, S0.32, I1, I2, I4, I6,
    I7, I8, I9, I10, I11, I12, I13, I16, I20, I22, I23: every answer, and every row after it.
    """
    examples = 2 * hypothesis.settings().max_examples
    many = hypothesis.settings(max_examples=examples, stateful_step_count=40)
    run_state_machine_as_test(DispatchMachine, settings=many)
