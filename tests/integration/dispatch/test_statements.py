"""What pulls and callbacks send to the database: a fixed number of statements, each of which an
observer sees, and nothing of a transaction that an error breaks off."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest
from django.db import connection

from apps.dispatch.models import Dispatch, Executor, Stock
from apps.journal import services as journal
from apps.journal.models import JournalEntry
from tests import factories
from tests.callback import call_back, call_back_and_pull, finish, take_next, taken
from tests.statements import asked

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.both]

STATE = "SELECT dispatch_executor"
FACTS = "SELECT dispatch_stock"
LOCKED_TASK = "SELECT dispatch_oncetask"
DISPATCH = "INSERT dispatch_dispatch"
STOCK = "INSERT dispatch_stock"
END = "UPDATE dispatch_dispatch"
JOURNAL = "INSERT journal_journalentry"
CLAIM = [LOCKED_TASK, DISPATCH, STOCK, JOURNAL]


@pytest.fixture
def alice() -> Executor:
    """At work: her queue is built, and that she was seen is stored."""
    alice = factories.user()
    factories.once_task(alice)
    finish(alice)
    return alice


def give_work(executor: Executor) -> None:
    """Four tasks, of which one is done, so that the queue is built."""
    for _ in range(4):
        factories.once_task(executor)
    finish(executor)


def seen_of(work: Callable[[], object]) -> list[str]:
    """The reads and changes that an observer sees, in their order, by verb and table."""
    seen: list[str] = []

    def observe(execute: Any, sql: str, params: Any, many: bool, context: Any) -> Any:
        if found := _verb_and_table(sql):
            seen.append(found)
        return execute(sql, params, many, context)

    with connection.execute_wrapper(observe):
        work()
    return seen


def _verb_and_table(sql: str) -> str | None:
    """None for what begins or ends a transaction or a savepoint."""
    sql = re.sub(r'[`"]', "", sql)
    while "(" in sql:
        sql = re.sub(r"\([^()]*\)", "", sql)
    found = re.match(r"(SELECT|INSERT|UPDATE)\b(?:.*? FROM | INTO | )(\w+)", sql)
    return f"{found[1]} {found[2]}" if found else None


def test_each_call_is_a_fixed_number_of_statements(alice: Executor) -> None:
    take_next(alice)
    assert seen_of(lambda: take_next(alice)) == [STATE]
    give_work(alice)
    assert seen_of(lambda: take_next(alice)) == [STATE, FACTS, *CLAIM]
    assert seen_of(lambda: take_next(alice)) == [STATE, "SELECT dispatch_dispatch", END]
    done: dict[str, Any] = {"executor": alice, "number": taken(alice).pk, "outcome": "succeeded"}
    assert seen_of(lambda: call_back(**done)) == [STATE, END, JOURNAL]
    done["number"] = taken(alice).pk
    sent = seen_of(lambda: call_back_and_pull(**done))
    assert sent == [STATE, END, JOURNAL, FACTS, *CLAIM]


@pytest.mark.mariadb
def test_the_server_carries_out_the_same_whether_or_not_somebody_observes(alice: Executor) -> None:
    give_work(alice)
    before = _carried_out()
    unseen = taken(alice)
    after = _carried_out()
    call_back(executor=alice, number=unseen.pk, outcome="succeeded")
    factories.once_task(alice)
    take_next(alice)
    finish(alice)
    seen = Counter(each.split()[0].lower() for each in seen_of(lambda: take_next(alice)))
    assert after - before == seen


def _carried_out() -> Counter[str]:
    """How many statements of each kind this connection has had the server carry out."""
    rows = asked(
        "SHOW SESSION STATUS WHERE Variable_name IN ('Com_select', 'Com_insert', 'Com_update')"
    )
    return Counter({name.removeprefix("Com_"): int(count) for name, count in rows})


def rows() -> list[Any]:
    """All that a hand-out or an end changes."""
    return [
        list(model.objects.order_by("pk").values()) for model in (Dispatch, Stock, JournalEntry)
    ]


@pytest.mark.parametrize(
    ("act", "entries"),
    [
        ("pull", 1),
        ("callback", 1),
        ("callback of a failure that gives back", 1),
        ("callback with the next task", 1),
        ("callback with the next task", 2),
    ],
)
def test_an_error_behind_a_claim_or_an_end_takes_all_of_it_back(
    alice: Executor, act: str, entries: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """I2, F10: whichever entry of the journal cannot be written."""
    for _ in range(2):
        factories.once_task(alice, on_failure="give_back")
    number = 0 if act == "pull" else taken(alice).pk
    before = rows()
    write, left = journal.write, [entries]

    def fail(some: Any) -> None:
        left[0] -= 1
        if not left[0]:
            raise ZeroDivisionError
        write(some)

    monkeypatch.setattr(journal, "write", fail)
    outcome = "failed" if "failure" in act else "succeeded"
    with pytest.raises(ZeroDivisionError):
        if act == "pull":
            take_next(alice)
        elif "next" in act:
            call_back_and_pull(executor=alice, number=number, outcome=outcome)
        else:
            call_back(executor=alice, number=number, outcome=outcome)
    monkeypatch.undo()
    assert rows() == before
    assert take_next(alice) is not None
