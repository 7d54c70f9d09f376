"""How the database finds what a pull asks for, how many rows a page of dispatches reads, and what
pulls and callbacks send: a fixed number of statements. S0.6, S0.31."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable
from datetime import timedelta
from functools import partial
from typing import Any

import pytest
from django.db import connection
from django.db.models import F
from django.test import Client

from apps.common import clock, ids
from apps.common.admin.list_head import MAX_COUNTED
from apps.dispatch.admin.dispatches import DispatchAdmin
from apps.dispatch.api import dispatches as view
from apps.dispatch.models import Dispatch, Executor, OnceTask, RotateTask, Stock
from apps.dispatch.rules.window import Window
from apps.dispatch.services.executor_state import state_of
from apps.dispatch.services.queue import plan_of
from apps.journal import services as journal
from apps.journal.models import JournalEntry
from tests import factories
from tests.benchmark import people
from tests.callback import call_back, call_back_and_pull, finish, take_next, taken
from tests.statements import analyze, asked, explained, index_reads, other_reads, sent_by, steps_of

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.both]

# ANALYZE TABLE commits on MariaDB.

STRANGERS = 300
TASKS_EACH = 10
OWNERS = 4


@pytest.fixture
def owners(transactional_db: None) -> list[int]:
    """A user and three groups, whose tasks lie scattered among the same times of 300 others."""
    now = clock.now()
    everybody = range(1_000_000, 1_000_000 + STRANGERS + OWNERS)
    people.insert(Executor, (people.executor(pk, f"uid_{pk}") for pk in everybody))
    for model, offset in ((OnceTask, 0), (RotateTask, 30_000_000)):
        people.insert(model, (_task(model, pk, n, offset, now) for pk in everybody for n in _few()))
    analyze(OnceTask, RotateTask)
    return [*everybody][:: STRANGERS // OWNERS][:OWNERS]


def _few() -> range:
    return range(TASKS_EACH)


def _task(model: Any, owner: int, n: int, offset: int, now: Any) -> dict[str, Any]:
    at = now - timedelta(minutes=30 * n)
    extra = {}
    if model is RotateTask:
        extra = {"rule": {"every_minutes": 30}, "time_zone": "UTC", "effective_from": at}
    return people.task(offset + owner * 10 + n, owner, at, **extra)


def selects(owners: list[int]) -> list[str]:
    """The statements by which the plan of these executors is read, as they were sent."""
    now = clock.now()
    frame = Window(now - timedelta(hours=2), now + timedelta(hours=6))
    found: list[Any] = []
    sent = sent_by(lambda: found.extend(plan_of(owners, frame, now=now)))
    # Of the once tasks those of two hours, of the rotations all.
    assert len(found) == len(owners) * (4 + TASKS_EACH)
    return sent


INDEXES = ("oncetask_candidates", "rotatetask_candidates")


def test_candidates_are_found_by_their_index_alone(owners: list[int]) -> None:
    """S0.6: by executor before time, for one executor and for several, and no row in vain."""
    check = _check_mariadb if connection.vendor == "mysql" else _check_sqlite
    for count in (1, OWNERS):
        for sql, index in zip(selects(owners[:count]), INDEXES, strict=True):
            check(sql, index, count)


def _check_mariadb(sql: str, index: str, owners: int) -> None:
    step, *looked_up = steps_of(sql)
    assert (step["key"], step["type"] in ("range", "ref")) == (index, True), step
    assert int(step["rows"]) <= 2 * owners * TASKS_EACH
    assert "filesort" not in (step["Extra"] or "") and "temporary" not in (step["Extra"] or "")
    # Whether a once task is used up.
    keys = ["stock_once_per_occurrence", "dispatch_task"] if "oncetask" in index else []
    assert sorted(each["key"] for each in looked_up) == sorted(keys)
    before = index_reads()
    found = asked(sql)
    # To begin and to end the range of an executor takes one more each.
    assert index_reads() - before <= len(found) * (1 + len(keys)) + 2 * owners


def _check_sqlite(sql: str, index: str, owners: int) -> None:
    plan = explained(sql)
    assert f"USING INDEX {index} (executor_id=? AND status=?" in plan
    assert "SCAN" not in plan and "TEMP B-TREE" not in plan
    if "oncetask" in index:
        assert "dispatch_task (source=? AND task=?" in plan
        assert "(source=? AND task=? AND occurrence=?" in plan


def test_state_of_a_user_is_read_without_its_past() -> None:
    """S0.6: whatever it and others have done, a pull begins with a few steps into indexes."""
    now = clock.now()
    long_idle, *others = range(1_000_000, 1_000_000 + 50)
    people.insert(Executor, (people.executor(pk, f"uid_{pk}") for pk in (long_idle, *others)))
    workers = [long_idle] * 30 + others * 30
    since = now - timedelta(days=2)
    made = [_done(pk, n, since + timedelta(minutes=n)) for n, pk in enumerate(workers)]
    people.insert(Dispatch, made)
    analyze(Dispatch)

    found: list[Any] = []
    # Asking for the time of the database may come before.
    *_, sql = sent_by(lambda: found.append(state_of(long_idle)))

    assert found[0].open_dispatch is None
    if connection.vendor == "mysql":
        before = index_reads()
        asked(sql)
        assert index_reads() - before <= 5
    else:
        assert "dispatch_of_executor" not in explained(sql)
        assert "TEMP B-TREE" not in explained(sql)
        # Nor is the table read through for an open one, though none was open when it was analyzed.
        assert "SCAN d" not in explained(sql)


def _done(executor: int, n: int, at: Any) -> dict[str, Any]:
    return {
        **{"id": ids.lowest_id_at(at), "executor_id": executor, "open_for": None},
        **{"source": "once", "task": n, "occurrence": 0, "title": "Done", "params": {}},
        **{"state": "succeeded", "occurrence_at": at, "dispatched_at": at},
        **{"deadline_at": at + timedelta(hours=1), "finished_at": at},
    }


EXAMINED = 300
# By an index: the rows that are counted, and those of the page. Else twice EXAMINED to find where
# to stop, and once to filter. Beside them, what belongs to the request itself.
MAX_READ = MAX_COUNTED + 300
LIST = "/admin/dispatch/dispatch/"
TASK = 7


@pytest.fixture
def crowd(monkeypatch: pytest.MonkeyPatch) -> None:
    """8,000 ended dispatches: half to one user, half to 20 others; and before all, one to a user
    that was never seen again. One task has a thousand of the older half."""
    monkeypatch.setattr(view, "MAX_EXAMINED", EXAMINED)
    monkeypatch.setattr(DispatchAdmin, "max_examined", EXAMINED)
    monkeypatch.setattr(DispatchAdmin, "max_indexed", EXAMINED)
    busy, rare, *others = (
        people.User(factories.user(f"uid_{name}").pk, f"uid_{name}", 0)
        for name in ("busy", "rare", *range(20))
    )
    people.history([busy if n % 2 else others[n // 2 % 20] for n in range(8000)], 8000, task_pk=100)
    pks = list(Dispatch.objects.order_by("pk").values_list("pk", flat=True))
    Dispatch.objects.filter(pk=pks[0]).update(executor=rare.pk)
    # Of an occurrence each: nobody has one twice.
    Dispatch.objects.filter(pk__in=pks[:4000:4]).update(task=TASK, occurrence=F("pk"))
    analyze(Dispatch, Executor)


def rows_read(ask: Callable[[], Any]) -> int:
    """By the second of two equal requests: the first one pays for what others then find."""
    ask()
    before = index_reads() + other_reads()
    answer = ask()
    assert answer.status_code == 200, answer.content
    return index_reads() + other_reads() - before


QUERIES: list[dict[str, str]] = [
    {},
    {"state": "succeeded"},
    {"state": "cancelled"},
    {"state": "open"},
    {"source": "rotate"},
    {"executor": "uid_busy"},
    {"executor": "uid_rare"},
    {"source": "once", "task": str(TASK)},
    {"source": "once", "task": str(TASK), "state": "succeeded"},
    {"source": "once", "task": "1"},
    {"task": "1"},
    {"where": "params.order.city:x"},
    {"where": "params.order.city:x", "executor": "uid_busy"},
    {"where": "params.order.city:x", "source": "once", "task": str(TASK)},
]


@pytest.mark.mariadb
def test_page_reads_a_bounded_number_of_rows(
    crowd: None, admin_client: Client, api: Any, subtests: pytest.Subtests
) -> None:
    for query in QUERIES:
        with subtests.test(query=query):
            by_people = rows_read(partial(admin_client.get, LIST, query))
            by_programs = rows_read(partial(api.get, "/api/v1/dispatches/", limit=10, **query))

            limit = MAX_READ
            if {"executor", "where"} <= query.keys() and not connection.mysql_is_mariadb:  # type: ignore[attr-defined]
                # MySQL may find where to stop by another index, of which it reads all that the
                # executor has, without the rows.
                limit += Dispatch.objects.filter(executor__name=query["executor"]).count()
            assert max(by_people, by_programs) <= limit, (by_people, by_programs)


@pytest.mark.mariadb
def test_page_of_who_sees_some_executors_reads_no_more(
    crowd: None, limited: Any, api_with: Any, make_key: Any
) -> None:
    rare = Executor.objects.get(name="uid_rare")
    operator, program = limited(rare), api_with(make_key(executors=["uid_rare"]))

    by_people = rows_read(lambda: operator.get(LIST))
    by_programs = rows_read(lambda: program.get("/api/v1/dispatches/", limit=10))

    # With the executor of each row that is read.
    limit = MAX_READ + 2 * EXAMINED
    assert max(by_people, by_programs) <= limit, (by_people, by_programs)


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
