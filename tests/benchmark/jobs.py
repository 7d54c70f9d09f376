"""The figures of jobs: submitting, holding and settling, scans, the runner beside plain Celery."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from typing import Any

from django.core.management.base import CommandError
from django.db import connection

from apps.common import clock, ids
from apps.common.db import execute, fetch, table
from apps.jobs.models import InboxRow, Job
from apps.jobs.services import inbox
from apps.jobs.services.hold import hold
from apps.jobs.services.promote import promote_due
from apps.jobs.services.rescue import rescue_due
from apps.jobs.services.submit import Submission, submit, submit_many
from tests.benchmark import backlog, bulk, recurring, runner
from tests.benchmark.backlog import BATCH, WORKER, seconds_of
from tests.benchmark.figures import Figure, Part, RunOptions, figure, median
from tests.benchmark.people import settle as let_settle
from tests.benchmark.statements import Copy, Statement, in_place, record, replay

LARGE = 2**50


# --- Submitting and settling beside their own statements ------------------------------------------
def submit_one(run: RunOptions) -> Iterator[Figure]:
    """One job a call, a commit each, beside the same INSERT by a raw cursor."""
    context = {"to": "somebody@example.org", "order": 7}
    submit("noop", context)
    [insert] = _changing(record(lambda: submit("noop", context)))
    at = _position_of_id(insert)

    def ours_each() -> None:
        for _ in range(200):
            submit("noop", context)

    def raw_each(numbers: list[int]) -> None:
        for pk in numbers:
            parameters = list(insert.parameters)
            parameters[at] = pk
            with connection.cursor() as cursor:
                cursor.execute(insert.sql, parameters)

    ours, bare = [], []
    for _ in range(5 if run.quick else 20):
        ours.append(seconds_of(ours_each))
        bare.append(seconds_of(partial(raw_each, ids.next_ids(200))))
    yield _beside("submit, one by one", 200, ours, bare, at_least=0.85)


def submit_bulk(run: RunOptions) -> Iterator[Figure]:
    """A thousand jobs a call beside the same INSERT, with its parameters, by a raw cursor."""
    jobs = [Submission(type="noop", context={"to": "somebody", "order": n}) for n in range(1000)]
    submit_many(jobs)
    [insert] = _changing(record(lambda: submit_many(jobs)))
    positions = [at for at, value in enumerate(insert.parameters) if _is_id(value)]

    def raw(numbers: list[int]) -> None:
        parameters = list(insert.parameters)
        for at, pk in zip(positions, numbers, strict=True):
            parameters[at] = pk
        with connection.cursor() as cursor:
            cursor.execute(insert.sql, parameters)

    ours, bare = [], []
    for _ in range(5 if run.quick else 20):
        ours.append(seconds_of(lambda: submit_many(jobs)))
        bare.append(seconds_of(partial(raw, ids.next_ids(1000))))
    yield _beside("submit_many(1,000)", 1000, ours, bare, at_least=0.6)


def inbox_rows(run: RunOptions) -> Iterator[Figure]:
    """Rows that programs wrote, made jobs of; the writing itself is theirs."""
    rows = 5_000 if run.quick else 20_000
    for _ in range(rows // BATCH):
        with connection.cursor() as cursor:
            cursor.executemany(
                f"INSERT INTO {table(InboxRow)} (type, job_key, context) VALUES (%s, %s, %s)",
                [("noop", f"order-{n}", '{"to": "somebody", "order": 7}') for n in range(BATCH)],
            )
    before = Job.objects.count()
    took = seconds_of(lambda: inbox.move(seconds=600))
    made = Job.objects.count() - before
    yield figure("inbox: rows to jobs", made / took, "rows/s", at_least=5_000)


def hold_and_settle(run: RunOptions) -> Iterator[Figure]:
    """Batches of a hundred beside the same statements, the journal's too, by a raw cursor."""
    _empty()
    backlog.waiting(3 * BATCH, "noop")
    backlog.cycle(["noop"], limit=2 * BATCH)
    # So the recorded batch is the only one there, and its ids are known.
    numbers = [row[0] for row in fetch(f"SELECT id FROM {table(Job)} WHERE status = 'ready'")]
    statements = record(lambda: backlog.cycle(["noop"], limit=BATCH))
    names: dict[Any, str] = {pk: f"job{n}" for n, pk in enumerate(sorted(numbers))}
    for statement in statements:
        for value in statement.parameters:
            if _is_id(value) and value not in names:
                names[value] = f"entry{len(names)}"
            elif _is_token(value):
                names[value] = "token"
    named = [statement.naming(names) for statement in statements]
    entries = [name for name in names.values() if name.startswith("entry")]
    ours, bare = [], []
    for _ in range(10 if run.quick else 50):
        backlog.waiting(BATCH, "noop")
        ours.append(seconds_of(lambda: backlog.cycle(["noop"], limit=BATCH)))
        values: dict[str, Any] = {
            f"job{n}": pk for n, pk in enumerate(backlog.waiting(BATCH, "noop"))
        }
        values |= dict(zip(entries, ids.next_ids(len(entries)), strict=True))
        values["token"] = f"{time.monotonic_ns():032x}"
        bare.append(seconds_of(partial(replay, named, values)))
    _empty()
    yield _beside("hold + settle, batches of 100", BATCH, ours, bare, at_least=0.8)


def limited_by_key(run: RunOptions) -> Iterator[Figure]:
    """Jobs of a thousand keys, two of each at once, submitted and worked off in turn with plain
    ones; for plain ones it costs the column and the index."""
    count, rounds = (4_000, 3) if run.quick else (20_000, 5)
    customers = [n * 7919 % 1000 for n in range(count)]
    spent: dict[tuple[str, str], list[float]] = {}
    for turn in range(rounds + 1):
        for name in ("noop", "limited"):
            _empty()
            jobs = [Submission(type=name, context={"customer": each}) for each in customers]
            blocks = [jobs[start : start + 1000] for start in range(0, count, 1000)]
            submitted = seconds_of(lambda blocks=blocks: [submit_many(each) for each in blocks])
            worked = seconds_of(lambda name=name: _work_off(name, count))
            # The first round fills caches.
            if turn:
                spent.setdefault(("submit", name), []).append(submitted)
                spent.setdefault(("hold + settle", name), []).append(worked)
    _empty()
    for what in ("submit", "hold + settle"):
        plain, ours = (count / median(spent[what, name]) for name in ("noop", "limited"))
        name = f"limited by 1,000 keys, {what}"
        yield figure(name, ours, "jobs/s", baseline=plain, at_least=0.4)


def _work_off(name: str, count: int) -> None:
    done = 0
    while done < count:
        held = hold(holder=WORKER, types=[name], limit=BATCH)
        if not held:
            raise CommandError(f"Of {count} jobs only {done} became ready.")
        backlog.finish(held)
        done += len(held)


def _beside(
    name: str, count: int, ours: list[float], bare: list[float], *, at_least: float
) -> Figure:
    return figure(
        name, count / median(ours), "jobs/s", baseline=count / median(bare), at_least=at_least
    )


def _changing(statements: list[Statement]) -> list[Statement]:
    return [each for each in statements if each.sql.startswith("INSERT")]


def _is_id(value: Any) -> bool:
    return isinstance(value, int) and value > LARGE


def _is_token(value: Any) -> bool:
    return isinstance(value, str) and len(value) == 32 and value.isalnum()


def _position_of_id(insert: Statement) -> int:
    return next(at for at, value in enumerate(insert.parameters) if _is_id(value))


def _empty() -> None:
    execute(f"DELETE FROM {table(Job)}")


# --- Flatness ---------------------------------------------------------------------------------
def _flatness(run: RunOptions) -> Iterator[Figure]:
    """The same work in an almost empty table, and beside a long history and future."""
    small, large = (20_000, 200_000) if run.quick else (100_000, 2_000_000)
    _empty()
    # They stay beside the large table, so that all are used in the same moments.
    empty = Copy(Job, "none")
    run.log(f"{small:,} rows")
    backlog.fill(small, "noop", status="succeeded")
    _add_overdue()
    few = Copy(Job, "few")
    run.log(f"{large:,} rows")
    backlog.fill(large - small, "noop", status="succeeded")
    let_settle()
    scans: dict[str, Callable[[], object]] = {
        "due scan": promote_due,
        "timeout scan": lambda: rescue_due(until=backlog.later()),
    }
    for name, scan in scans.items():
        among_few, among_many = _search_ms(scan, few)
        yield figure(f"{name}, {large:,} rows", among_many, "ms", baseline=among_few, at_most=1.2)
    backlog.fill(small, "noop", run_at=backlog.later())
    let_settle()
    in_empty, in_full = _hold_rates(empty)
    name = f"hold + settle, {large:,} done, {small:,} not due"
    yield figure(name, in_full, "jobs/s", baseline=in_empty, at_least=0.95)


def _crowd(run: RunOptions) -> Iterator[Figure]:
    """One job of a type beside very many that wait of another."""
    crowd = 100_000 if run.quick else 1_000_000
    run.log(f"{crowd:,} waiting jobs of another type")
    backlog.fill(crowd, "noop")
    let_settle()
    yield figure("wait beside a crowd of another type", _wait_beside_crowd(), "s", at_most=2)


def _hold_rates(empty: Copy) -> tuple[float, float]:
    """Jobs a second of a cycle, in the table `empty` and in that of jobs, in turn."""
    rates: tuple[list[float], list[float]] = ([], [])
    for _ in range(15):
        with in_place(empty):
            rates[0].append(backlog.hold_rate())
        rates[1].append(backlog.hold_rate())
    return median(rates[0]), median(rates[1])


def _add_overdue() -> None:
    """What the scans find: jobs just due, and attempts past their lease."""
    now = clock.now()
    backlog.fill(500, "noop", status="scheduled", run_at=now)
    overdue = {"status": "running", "lease_until": now, "hard_end_at": backlog.later()}
    backlog.fill(200, "noop", **overdue, held_at=now)


class _Peek(Exception):
    """Ends the work at its first SELECT of jobs."""


def _search_ms(scan: Callable[[], object], few: Copy) -> tuple[float, float]:
    """Milliseconds of the first SELECT of the scan: in the table `few`, and in that of jobs."""
    sql, parameters = _first_select(scan)
    among_few, among_many = list[float](), list[float]()
    for _ in range(2000):
        for statement, times in ((sql.replace(table(Job), few.name), among_few), (sql, among_many)):
            times.append(1000 * seconds_of(partial(fetch, statement, parameters)))
    return median(among_few), median(among_many)


def _first_select(work: Callable[[], object]) -> tuple[str, Any]:
    """The first SELECT of jobs in the work, which ends there."""
    found: list[tuple[str, Any]] = []

    def stop(execute: Any, sql: str, parameters: Any, many: bool, context: Any) -> Any:
        if sql.startswith("SELECT") and f"FROM {table(Job)}" in sql:
            found.append((sql, parameters))
            raise _Peek
        return execute(sql, parameters, many, context)

    with suppress(_Peek), connection.execute_wrapper(stop):
        work()
    [select] = found
    return select


def _wait_beside_crowd() -> float:
    """Seconds until a worker that serves both types holds the one job of the other type."""
    [number] = backlog.waiting(1, "other")
    begun = time.perf_counter()
    turn = 0
    while True:
        turn += 1
        held = hold(holder=WORKER, types=["noop", "other"], limit=BATCH, rotation=turn)
        if any(job.id == number for job in held):
            return time.perf_counter() - begun
        backlog.finish(held)


PARTS = [
    Part("runner", runner.beside_celery),
    Part("settings", runner.under_one_setting),
    Part("contract", runner.beside_plain),
    Part("request-id", runner.with_request_id),
    Part("submit", submit_one),
    Part("bulk", submit_bulk),
    Part("inbox", inbox_rows, on="both"),
    Part("inbox-pick-up", runner.inbox_pick_up, on="both"),
    Part("settle", hold_and_settle),
    Part("limits", limited_by_key, on="both"),
    Part("flatness", _flatness),
    Part("crowd", _crowd),
    Part("schedules", recurring.due_together),
    Part("bulk-run", bulk.beside_holds, on="both"),
    Part("drain", runner.embedded_drain, on="sqlite"),
    Part("pick-up", runner.embedded_pick_up, on="sqlite"),
]
