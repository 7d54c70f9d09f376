"""Services and model side by side: the same steps, the same answers, the same rows."""

from __future__ import annotations

import copy
from collections import Counter
from collections.abc import Callable
from datetime import datetime
from typing import Any, ClassVar

from django.db import connection, transaction
from hypothesis import note
from hypothesis.stateful import RuleBasedStateMachine, invariant

from apps.common import ids
from apps.common.errors import PlatformError
from apps.dispatch.models import Dispatch, Executor, Stock
from apps.journal.models import JournalEntry
from tests.caches import TwoProcesses, clear_caches
from tests.frozen import FrozenClock, id_maker
from tests.integration.dispatch.drawn import MEMBERS, START
from tests.integration.dispatch.model import Model
from tests.statements import asked


class Crash(Exception):
    """The process ended here."""


class Fuse:
    """Burns down with each statement and then breaks it off; savepoints stand for BEGIN/COMMIT."""

    def __init__(self, statements: int) -> None:
        self.left = statements

    def __call__(self, execute: Any, sql: str, params: Any, many: bool, context: Any) -> Any:
        if not sql.startswith(("SAVEPOINT", "RELEASE", "ROLLBACK")):
            self.left -= 1
            if self.left == 0:
                raise Crash(sql)
        return execute(sql, params, many, context)


class Pair(RuleBasedStateMachine):
    """The services with their database and cache, and the model; each step is asked of both."""

    clock: ClassVar[FrozenClock]

    def __init__(self) -> None:
        super().__init__()
        # Not transaction.savepoint(), which has another name from Django 6.1 on.
        self.savepoint = connection.savepoint()
        self.clock.move_to(START)
        # Made anew, because ids never go back.
        ids._maker = id_maker(node=2)
        clear_caches()
        self.processes = TwoProcesses()
        self.model = Model(copy.deepcopy(MEMBERS))
        self.people = {each.name: each for each in Executor.objects.all()}
        self.fuse: Fuse | None = None

    def teardown(self) -> None:
        self.processes.end()
        transaction.set_rollback(False)
        transaction.savepoint_rollback(self.savepoint)

    @property
    def now(self) -> datetime:
        return self.clock()

    # --- how both are asked ----------------------------------------------------------------
    def both(
        self,
        real: Callable[[], Any],
        ideal: Callable[[Model], Any],
        settle: Callable[[], None] = lambda: None,
    ) -> tuple[Any, Any]:
        """What both answer; a step that breaks off has changed nothing and is then repeated.

        `settle` applies to the model the part that a step of two transactions may leave behind.
        """
        if self.fuse is not None:
            fuse, self.fuse = self.fuse, None
            try:
                with connection.execute_wrapper(fuse):
                    answer = real()
            except Crash as crash:
                # The statement never ran, and what was written before it is committed.
                transaction.set_rollback(False)
                note(f"broken off at {str(crash)[:60]}")
                settle()
                self.settle_expired()
                self.agree()
            else:
                return answer, ideal(self.model)
        return real(), ideal(self.model)

    def settle_expired(self) -> None:
        """Those that the broken step has closed for their silence; each is a step of its own."""
        expired = set(Dispatch.objects.filter(state="expired").values_list("pk", flat=True))
        for handed in self.model.overdue(self.now):
            if handed.number in expired:
                self.model.end(handed, "expired", self.now)

    def agree(self) -> None:
        """I1, I5, I17: rows and model say the same."""
        wanted, held = dict[int, dict[str, Any]](), Counter[tuple[str, int, int]]()
        for each in (each for each in self.model.handed if not each.gone):
            occurrence = 0 if each.task.source == "once" else int(each.due_at.timestamp())
            wanted[each.number] = {
                "pk": each.number,
                "executor__name": each.user,
                "open_for": self.people[each.user].pk if each.is_open else None,
                "source": each.task.source,
                "task": each.task.number,
                "occurrence": occurrence,
                "occurrence_at": each.due_at,
                "state": each.state,
                "holds_stock": each.holds,
                "round": each.round,
                "redo": each.redo,
                "deadline_at": each.deadline,
                "finished_at": each.finished_at,
                "result": each.result,
            }
            held[each.task.source, each.task.number, occurrence] += each.holds
        names = next(iter(wanted.values()), {"pk": 0}).keys()
        assert {row["pk"]: row for row in Dispatch.objects.values(*names)} == wanted
        stocks = {
            (source, task, occurrence): handed
            for source, task, occurrence, handed in asked(
                f"SELECT source, task, occurrence, handed FROM {Stock._meta.db_table}"
            )
        }
        assert {key: handed for key, handed in stocks.items() if handed} == dict(+held)

    @invariant()
    def rows_and_model_agree(self) -> None:
        self.agree()

    @invariant()
    def journal_reports_it(self) -> None:
        """I2, I17: one entry for each hand-out, and one for each end; notes beside them."""
        events: dict[int, list[str]] = {}
        for number, event in asked(
            f"SELECT subject_id, event FROM {JournalEntry._meta.db_table} "
            "WHERE source = 'dispatch' AND event NOT IN ('late_result', 'extended') ORDER BY id"
        ):
            events.setdefault(number, []).append(event)
        assert events == {
            each.number: ["handed_out", *([] if each.is_open else [each.state])]
            for each in self.model.handed
        }


def answered(call: Callable[[], str]) -> str:
    """What the call answers, or the code of its refusal."""
    try:
        return call()
    except PlatformError as error:
        return error.code
