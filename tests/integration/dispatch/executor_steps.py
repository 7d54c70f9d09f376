"""The steps of executors in the machine: pull, call back, extend, lose it, fall silent."""

from __future__ import annotations

import math
from datetime import timedelta
from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import precondition, rule

from apps.common.errors import PlatformError
from apps.dispatch.models import Dispatch
from apps.dispatch.services import ending
from apps.dispatch.services.find import existing_dispatch
from apps.dispatch.services.pull import Nothing
from tests import callback, factories
from tests.callback import take_next
from tests.integration.dispatch.drawn import (
    BY_HAND,
    USERS,
    a_number,
    leaps,
    some_result,
    some_state,
    some_user,
)
from tests.integration.dispatch.model import DONE, Handed, Model
from tests.integration.dispatch.pair import Fuse, Pair, answered


class ExecutorSteps(Pair):
    """What executors do as time goes on, and what is done to their dispatches."""

    # --- time and crashes ----------------------------------------------------------------------
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

    @rule()
    def be_another_process(self) -> None:
        """It remembers what it has seen itself, and nothing of what was done since."""
        self.processes.swap()

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
            self.report_end(user, handed, state, result)

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
            self.report_end(user, handed, state, None)

    @rule(user=some_user, state=st.sampled_from(BY_HAND), edge=st.integers(0, 3))
    def pull_and_lose_it(self, user: str, state: str, edge: int) -> None:
        """A person ends it; the user asks again at once, and when something changes."""
        handed = self.pulled(user)
        if handed is not None:
            self.ended_by_hand(handed, state)
            self.pulled(user)
            self.wait_for_an_edge(edge, 0)
            self.pulled(user)

    @rule(states=st.lists(some_state, min_size=1, max_size=5), at_once=st.booleans())
    def work_off(self, states: list[str], at_once: bool) -> None:
        """Everybody works as long as there is something, so far as the outcomes go."""
        for user in USERS:
            handed = self.pulled(user)
            for state in states:
                if handed is None:
                    break
                if at_once:
                    handed = self.report_end_and_pull(user, handed, state)
                else:
                    self.report_end(user, handed, state, None)
                    handed = self.pulled(user)

    @rule(by=leaps, states=st.lists(some_state, min_size=1, max_size=2), at_once=st.booleans())
    def wait_and_work_off(self, by: timedelta, states: list[str], at_once: bool) -> None:
        self.wait(by)
        self.work_off(states, at_once)

    @rule(user=some_user, edge=st.integers(0, 3), early=st.sampled_from([0, 1]))
    def pull_and_fall_silent(self, user: str, edge: int, early: int) -> None:
        self.pulled(user)
        self.wait_for_an_edge(edge, early)
        self.pulled(user)

    def pulled(self, user: str) -> Handed | None:
        real, wanted = self.both(
            lambda: take_next(self.people[user]), lambda model: model.pull(user, self.now)
        )
        self.compare(user, real, wanted)
        return wanted

    def compare(self, user: str, real: Dispatch | Nothing, wanted: Handed | None) -> None:
        """The answers to a pull."""
        if wanted is None:
            assert isinstance(real, Nothing), (real.source, real.task, real.occurrence_at)
            self.check_wait(user, real.retry_after)
            return
        assert isinstance(real, Dispatch), wanted
        wanted.number = wanted.number or real.pk
        assert (real.pk, real.source, real.task, real.occurrence_at, real.redo) == (
            wanted.number,
            wanted.task.source,
            wanted.task.number,
            wanted.due_at,
            wanted.redo,
        )

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
        self.report_end(user, self.nth(number) if self.model.handed else None, state, result)

    @precondition(lambda self: self.model.handed)
    @rule(number=a_number, state=some_state, result=some_result)
    def call_back_own(self, number: int, state: str, result: Any) -> None:
        handed = self.nth(number)
        self.report_end(handed.user, handed, state, result)

    def report_end(self, user: str, handed: Handed | None, state: str, result: Any) -> None:
        def real() -> str:
            number = 12345 if handed is None else handed.number
            return callback.call_back(
                executor=self.people[user], number=number, outcome=state, result=result
            ).state

        answer, wanted = self.both(
            lambda: answered(real),
            lambda model: model.call_back(user, handed, state, result, self.now),
        )
        assert answer == wanted

    @precondition(lambda self: self.model.handed)
    @rule(user=some_user, number=a_number, state=some_state, statements=st.integers(1, 12))
    def call_back_and_pull(self, user: str, number: int, state: str, statements: int) -> None:
        """Late, repeated or of another, and broken off."""
        handed = self.nth(number)
        self.fuse = Fuse(statements)
        self.report_end_and_pull(user, handed, state)

    def report_end_and_pull(self, user: str, handed: Handed, state: str) -> Handed | None:
        def real() -> tuple[str, Dispatch | Nothing | None]:
            try:
                ended, following = callback.call_back_and_pull(
                    executor=self.people[user], number=handed.number, outcome=state
                )
            except PlatformError as error:
                return error.code, None
            return ended.state, following

        def ideal(model: Model) -> tuple[str, bool, Handed | None]:
            answer = model.call_back(user, handed, state, None, self.now)
            asks = answer in DONE
            return answer, asks, model.pull(user, self.now) if asks else None

        def settle() -> None:
            """The first half may have come about alone."""
            if Dispatch.objects.filter(pk=handed.number, state=state).exists() and handed.is_open:
                self.model.end(handed, state, self.now)

        (answer, following), (wanted, asks, next_wanted) = self.both(real, ideal, settle)
        assert answer == wanted
        if asks:
            assert following is not None
            self.compare(user, following, next_wanted)
        return next_wanted

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
            found = existing_dispatch(handed.number)
            return end(dispatch=found, actor=factories.OPERATOR, reason="A test").state

        answer, wanted = self.both(
            lambda: answered(real), lambda model: model.end_by_hand(handed, state, self.now)
        )
        assert answer == wanted

    def nth(self, number: int) -> Handed:
        """The newest ones by small numbers, which also serve to shrink."""
        return self.model.handed[-1 - number % len(self.model.handed)]
