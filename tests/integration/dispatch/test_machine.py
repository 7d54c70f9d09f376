"""Dispatch against a plain model of it: whatever is done in whatever order, both answer the same.

Kept queues stay from step to step, time leaps, edits come between, housekeeping removes what is
over, and steps break off between two statements.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

import hypothesis
import pytest
from hypothesis import strategies as st
from hypothesis.stateful import initialize, precondition, rule, run_state_machine_as_test

from apps.common import ids
from apps.dispatch.models import TASK_MODELS, Dispatch
from apps.dispatch.services import executors, retention, tasks
from apps.dispatch.services.expiry import expire_due
from tests import factories
from tests.frozen import FrozenClock, id_maker
from tests.integration.dispatch.drawn import (
    EDITS,
    HORIZON,
    MEMBERS,
    MINUTE,
    USERS,
    Plan,
    a_number,
    lengths,
    misfires,
    modes,
    plans,
    policies,
    rhythms,
    some_executor,
    some_group,
    some_state,
    some_user,
    starts,
)
from tests.integration.dispatch.executor_steps import ExecutorSteps
from tests.integration.dispatch.model import LOOKBACK, Model, Task
from tests.integration.dispatch.pair import answered

pytestmark = pytest.mark.both


class DispatchMachine(ExecutorSteps):
    """All steps, drawn in any order."""

    # --- processes and housekeeping ----------------------------------------------------------
    @rule(what=st.sampled_from(["process", "expiry", "purge"]))
    def meddle(self, what: str) -> None:
        """Another process answers next, or a sweep is at work."""
        meddling = {
            "process": self.processes.swap,
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
        """What goes is over for longer than the horizon; no later answer may show that it went."""
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

    # --- operators ---------------------------------------------------------------------------
    @rule(plan=plans, states=st.lists(some_state, min_size=1, max_size=3), at_once=st.booleans())
    def plan_and_work_off(self, plan: Plan, states: list[str], at_once: bool) -> None:
        self.plan(plan)
        self.work_off(states, at_once)

    @initialize(plans=st.lists(plans, min_size=1, max_size=4))
    def begin(self, plans: list[Plan]) -> None:
        for plan in plans:
            self.plan(plan)

    @rule(plan=plans)
    def plan(self, plan: Plan) -> None:
        fields = self.times(plan.start, plan.length) | plan.fields
        task: Any = Task(plan.source, 0, plan.executor, **fields)
        task.effective_from = task.start_at

        def real() -> int:
            made: Any = tasks.create_task(
                TASK_MODELS[plan.source],
                title="A task",
                executor=self.people[plan.executor],
                actor=factories.OPERATOR,
                **fields,
            )
            return int(made.pk)

        if not task.is_ever_due(task.start_at):
            assert answered(lambda: str(real())) == "invalid"
            return
        task.number, _ = self.both(real, lambda model: model.tasks.append(task))

    def times(self, start: timedelta, length: timedelta | None) -> dict[str, datetime | None]:
        start_at = (self.now + start).replace(microsecond=0)
        return {"start_at": start_at, "end_at": None if length is None else start_at + length}

    @precondition(lambda self: self.model.tasks)
    @rule(data=st.data(), number=a_number, what=st.sampled_from(EDITS), pulls=st.booleans())
    def edit(self, data: st.DataObject, number: int, what: str, pulls: bool) -> None:
        task = self.task(number)
        start_at = task.start_at
        changes: dict[str, Any] = {}
        if what == "delete":
            self.delete(task)
        elif what == "mode":
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
    settings.DISPATCH_ARCHIVE_AFTER = settings.TASK_ARCHIVE_AFTER = timedelta(seconds=1)
    settings.DISPATCH_RETENTION = settings.TASK_RETENTION = timedelta(seconds=2)
    monkeypatch.setattr(ids, "_maker", id_maker(node=1))
    monkeypatch.setattr(DispatchMachine, "clock", frozen_clock, raising=False)
    for user in USERS:
        factories.user(user)
    for group, members in MEMBERS.items():
        factories.group(group, sorted(members))


def test_dispatch_answers_as_its_model(world: None) -> None:
    """S0.10, S0.12, S0.13, S0.14, S0.15, S0.17, S0.19, S0.21, S0.22, S0.25, S0.28, S0.29, S0.32,
    I1, I2, I4, I6, I7, I8, I9, I10, I11, I12, I13, I16, I20, I22, I23: every answer, and every row
    after it.
    """
    steps = hypothesis.settings(stateful_step_count=40)
    run_state_machine_as_test(DispatchMachine, settings=steps)
