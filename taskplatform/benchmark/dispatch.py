"""The figures of dispatch: pulls and callbacks over HTTP, flatness, exactness, rebuilds."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.management.base import CommandError
from django.db import connection

from apps.access import services as access
from apps.common import clock
from apps.common.rows import insert_rows
from apps.dispatch.models import Dispatch, Executor, OnceTask, Stock
from apps.dispatch.services import callback, queue
from apps.dispatch.services.pull import answer_pull
from apps.dispatch.services.standing import standing_by_name
from apps.journal.models import JournalEntry
from taskplatform.benchmark import people, purge
from taskplatform.benchmark.figures import Figure, figure, median, percentile
from taskplatform.benchmark.load import Volley, fire, post
from taskplatform.benchmark.parts import Benchmark, Part
from taskplatform.benchmark.people import User, settle
from taskplatform.benchmark.replay import record
from taskplatform.benchmark.scratch import renew_cache, server

# Rows of the benchmark have numbers that no other value of a statement has.
_NUMBERS = count(1_000_000_000, 10_000_000)
DISPATCH, CALLBACK = "/api/v1/dispatch/", "/api/v1/callback/"


def _group() -> int:
    pk = next(_NUMBERS)
    insert_rows(Executor, [people.executor(pk, f"gid_bench_{pk}")])
    return pk


def _users(number: int, *, tasks_each: int) -> list[User]:
    return people.users(next(_NUMBERS), number, tasks_each=tasks_each, group=_group())


def _pull(user: User) -> Dispatch:
    taken = answer_pull(user.name)
    if not isinstance(taken, Dispatch):
        raise CommandError(f"{user.name} got nothing, although it has due tasks.")
    return taken


def _finish(user: User) -> None:
    _end(user, _pull(user))


def _end(user: User, taken: Dispatch) -> None:
    callback.call_back(executor=user, number=taken.pk, outcome="succeeded")


def rebuild() -> Figure:
    """The queue of an executor with 100 rotations and 1,000 once tasks, from the tables."""
    [user] = _users(1, tasks_each=1000)
    people.rotations(next(_NUMBERS), user.pk, 100)
    times = []
    for _ in range(30):
        Executor.objects.filter(pk=user.pk).raise_plan_version()
        standing = standing_by_name(user.name)
        begun = time.perf_counter()
        entry = queue.entry_of(standing, now=clock.now())
        times.append((time.perf_counter() - begun) * 1000)
        if len(entry.queue) < 1000:
            raise CommandError(f"The queue has {len(entry.queue)} candidates, not 1,000.")
    return figure(
        "queue rebuild, 100 rotations + 1,000 once tasks", median(times), "ms", at_most=30
    )


def embedded_pairs(*, quick: bool) -> Figure:
    """Pull and callback in one process, one after the other."""
    each = 5 if quick else 20
    crew = _users(20, tasks_each=each + 1)
    for user in crew:
        _finish(user)
    begun = time.perf_counter()
    for _ in range(each):
        for user in crew:
            _finish(user)
    rate = len(crew) * each / (time.perf_counter() - begun)
    return figure(f"pull + callback in process, {connection.vendor}", rate, "pairs/s", at_least=300)


def over_http(folder: Path, *, quick: bool) -> Iterator[Figure]:
    """Ours and the baselines in turn, on servers of the same kind, over 8 connections."""
    rounds, crew_size = (4, 100) if quick else (12, 300)
    ours = _users(crew_size, tasks_each=7 * (rounds + 1))
    bare = _users(crew_size, tasks_each=rounds + 1)
    idle = _users(crew_size, tasks_each=0)
    _, key = access.create_client(name="Benchmark", scopes=["pull"], actor="benchmark")
    statements = folder / "statements.json"
    statements.write_text(json.dumps(_recorded(), default=str))
    with (
        server("taskplatform.wsgi:application", folder) as web,
        server(
            "taskplatform.benchmark.bare:application", folder, BENCHMARK_STATEMENTS=str(statements)
        ) as baseline,
    ):
        pulls = [post(DISPATCH, {"uid": user.name}, key=key) for user in ours]
        asking = [post(DISPATCH, {"uid": user.name}, key=key) for user in idle]
        spent: dict[str, list[float]] = {}

        def note(name: str, volley: Volley, *statuses: int) -> Volley:
            odd = [each for each in volley.answers if each.status not in statuses]
            if odd:
                raise CommandError(f"{name}: {odd[0].status} {odd[0].body[:300]!r}")
            spent.setdefault(name, []).append(volley.seconds / len(volley.answers))
            return volley

        def backs(answers: list[Any], path: str = CALLBACK) -> list[bytes]:
            return [
                post(path, {"uid": u.name, "number": a["number"], "outcome": "succeeded"}, key=key)
                for u, a in zip(ours, answers, strict=False)
            ]

        for turn in range(rounds + 1):
            if turn == 1:
                # The first one filled caches and connections.
                spent.clear()
            taken = note("pull", fire(web, pulls), 200)
            note("callback", fire(web, backs([a.json for a in taken.answers])), 200)
            values = [
                {"pk": u.pk, "name": u.name, "base": u.base, "task": u.base + turn} for u in bare
            ]
            replayed = note("bare pull", fire(baseline, [post("/pull/", v) for v in values]), 200)
            numbered = [
                {**v, "number": int(a.json["number"])}
                for v, a in zip(values, replayed.answers, strict=True)
            ]
            note("bare callback", fire(baseline, [post("/callback/", v) for v in numbered]), 200)
            # Two calls for a pair, and one; of many workers, and of one that awaits each answer.
            for workers, asked in ((8, pulls), (1, pulls[: crew_size // 5])):
                taken = note("", fire(web, asked, connections=workers), 200)
                ending = backs([a.json for a in taken.answers])
                ended = note("", fire(web, ending, connections=workers), 200)
                both = Volley(ended.answers, taken.seconds + ended.seconds)
                note(f"two calls, {workers}", both, 200)
                taken = note("", fire(web, asked), 200)
                chained = backs([a.json for a in taken.answers], f"{CALLBACK}?next=1")
                taken = note(f"one call, {workers}", fire(web, chained, connections=workers), 200)
                note("", fire(web, backs([a.json["next"] for a in taken.answers])), 200)
        # The database does not write any more what the others have changed.
        settle()
        for _ in range(2 * rounds):
            note("empty", fire(web, asking), 204)
            note("trivial", fire(baseline, [post("/trivial/", {"uid": "x"})] * crew_size), 200)
    rate = {name: 1 / median(seconds) for name, seconds in spent.items()}
    yield figure("pull over HTTP", rate["pull"], "/s", baseline=rate["bare pull"], at_least=0.85)
    yield figure(
        "callback over HTTP", rate["callback"], "/s", baseline=rate["bare callback"], at_least=0.8
    )
    yield figure("empty answer", rate["empty"], "/s", baseline=rate["trivial"], at_least=0.5)
    for workers, name in ((8, "8 workers"), (1, "one worker")):
        yield figure(
            f"pairs by callback?next=1, {name}",
            rate[f"one call, {workers}"],
            "/s",
            baseline=rate[f"two calls, {workers}"],
            at_least=1.6,
        )
    yield exactness(web_folder=folder, key=key, quick=quick)


def _recorded() -> dict[str, Any]:
    """The statements of a pull and of a callback of a user that is at work already."""
    [user] = _users(1, tasks_each=12)
    for _ in range(2):
        _finish(user)
    taken: list[Dispatch] = []
    pulled = record(lambda: taken.append(_pull(user)))
    dispatch = taken[0]
    called = record(lambda: _call_back(user, dispatch))
    lines = JournalEntry.objects.filter(source="dispatch", subject_id=dispatch.pk)
    known: dict[Any, str] = dict.fromkeys(lines.values_list("pk", flat=True), "journal")
    known |= {user.pk: "pk", user.name: "name", dispatch.pk: "number", dispatch.task: "task"}
    return {
        name: [each.naming(known) for each in statements]
        for name, statements in (("pull", pulled), ("callback", called))
    }


def _call_back(user: User, dispatch: Dispatch) -> None:
    """As the view does it: whoever calls is looked up first."""
    standing = standing_by_name(user.name)
    callback.call_back(executor=standing, number=dispatch.pk, outcome="succeeded")


def exactness(*, web_folder: Path, key: str, quick: bool) -> Figure:
    """A stock of 1,000 against 6,000 pulls: so many get it, all others get an answer."""
    stock, pulls = (100, 600) if quick else (1000, 6000)
    group = _group()
    number = next(_NUMBERS)
    crew = people.users(next(_NUMBERS), pulls, tasks_each=0, group=group)
    shared = people.task(number, group, clock.now(), mode="multi", dispatch_times=stock)
    people.insert(OnceTask, [shared])
    with server("taskplatform.wsgi:application", web_folder) as web:
        asked = [post(DISPATCH, {"uid": user.name}, key=key) for user in crew]
        volley = fire(web, asked, connections=64)
    statuses = [each.status for each in volley.answers]
    errors = [status for status in statuses if status not in (200, 204)]
    handed = Stock.objects.get(source="once", task=number).handed
    dispatched = Dispatch.objects.filter(source="once", task=number).count()
    exact = statuses.count(200) == handed == dispatched == stock and not errors
    return figure(
        f"a stock of {stock:,}, {pulls:,} pulls on 64 connections: handed out",
        handed if exact else -1,
        "",
        baseline=stock,
        at_least=1,
    )


def redis_away(*, quick: bool) -> Figure:
    """A pull with its callback while nothing listens where Redis was, against one with Redis."""
    # Until queues are saved, the cache is not asked at all.
    each = queue.WORTH_SAVING * (2 if quick else 4)
    crew = _users(20, tasks_each=each * 2 + 4)
    place = settings.CACHES["default"]["LOCATION"]
    with_redis = _pairs(crew, each)
    settings.CACHES["default"]["LOCATION"] = "redis://127.0.0.1:1/0"
    renew_cache()
    try:
        without = _pairs(crew, each)
    finally:
        settings.CACHES["default"]["LOCATION"] = place
        renew_cache()
    return figure(
        "pull + callback without Redis",
        median(without) * 1000,
        "ms",
        baseline=median(with_redis) * 1000,
        at_most=2,
    )


def _pairs(crew: list[User], each: int) -> list[float]:
    for user in crew:
        _finish(user)
    times = []
    for _ in range(each):
        for user in crew:
            begun = time.perf_counter()
            _finish(user)
            times.append(time.perf_counter() - begun)
    return times


def flatness(*, quick: bool) -> Iterator[Figure]:
    """The slowest of a hundred pulls, beside more and more rows of others and of the past."""
    rows, tasks = (100_000, 2_000) if quick else (2_000_000, 10_000)
    crew = _users(50, tasks_each=200)
    strangers = _users(100, tasks_each=0)
    before = _p99(crew)
    number = next(_NUMBERS)
    now = clock.now()
    people.insert(
        OnceTask,
        (people.task(number + n, strangers[n % 100].pk, now) for n in range(tasks)),
    )
    settle()
    beside = _p99(crew)
    yield figure(
        f"pull p99 beside {tasks:,} tasks of others", beside, "ms", baseline=before, at_most=1.2
    )
    people.history(crew, rows, task_pk=next(_NUMBERS))
    settle()
    yield figure(
        f"pull p99 after {rows:,} dispatches", _p99(crew), "ms", baseline=before, at_most=1.2
    )


def beside_a_purge(*, quick: bool) -> Figure:
    """The slowest of a hundred pulls while old rows are removed, against those without."""
    rows = 50_000 if quick else 1_000_000
    told = purge.measure(rows=rows)
    if told.removed < rows:
        raise CommandError(f"Of {rows} old dispatches only {told.removed} were removed.")
    return figure(
        f"pull p99 during a purge of {rows:,} dispatches",
        percentile(told.during, 99),
        "ms",
        baseline=percentile(told.quiet, 99),
        at_most=3,
    )


def _p99(crew: list[User]) -> float:
    """In milliseconds, the middle one of several batches, so that one slow sync does not decide."""
    batches = []
    for _ in range(9):
        times = []
        for _ in range(4):
            for user in crew:
                begun = time.perf_counter()
                taken = _pull(user)
                times.append((time.perf_counter() - begun) * 1000)
                _end(user, taken)
        batches.append(percentile(times, 99))
    return median(batches)


BENCHMARK = Benchmark(
    "dispatch",
    [
        Part("rebuild", lambda run: iter([rebuild()])),
        Part("http", lambda run: over_http(run.folder, quick=run.quick)),
        Part("redis", lambda run: iter([redis_away(quick=run.quick)])),
        Part("flatness", lambda run: flatness(quick=run.quick)),
        Part("purge", lambda run: iter([beside_a_purge(quick=run.quick)])),
        Part("pairs", lambda run: iter([embedded_pairs(quick=run.quick)]), embedded=True),
    ],
)
