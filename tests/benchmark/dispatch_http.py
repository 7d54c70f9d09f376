"""Dispatch over HTTP: pulls and callbacks beside bare views, a stock, and crowded queues."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from django.core.management.base import CommandError
from django.db import connection

from apps.access import services as access
from apps.common import clock
from apps.dispatch.models import Dispatch, OnceTask, Stock
from apps.dispatch.services.tasks import update_task
from apps.journal.models import JournalEntry
from taskplatform.web import APPLICATION
from tests.benchmark import people
from tests.benchmark.figures import Figure, RunOptions, figure, median
from tests.benchmark.load import Clients, Volley, fire, post
from tests.benchmark.people import User
from tests.benchmark.processes import server
from tests.benchmark.statements import record

DISPATCH, CALLBACK = "/api/v1/dispatch/", "/api/v1/callback/"


def over_http(run: RunOptions) -> Iterator[Figure]:
    """Ours and the baselines in turn, on servers of the same kind.

    Clients call back over the connection by which they have pulled, as the SDK does.
    """
    rounds, number = (4, 100) if run.quick else (12, 300)
    key = _key()
    idle = people.users(number, tasks_each=0, group=people.group())
    pulls = [post(DISPATCH, {"uid": user.name}, key=key) for user in idle]
    trivial = [post("/trivial/", {"uid": "x"})] * number
    traffic = _Traffic(key, number, rounds + 1)
    statements = run.folder / "statements.json"
    statements.write_text(json.dumps(_recorded(), default=str))
    with (
        server(APPLICATION, run.folder) as web,
        server(
            "tests.benchmark.bare:application", run.folder, BENCHMARK_STATEMENTS=str(statements)
        ) as baseline,
    ):
        for turn in range(rounds + 1):
            if turn == 1:
                # The first one filled caches and connections.
                traffic.spent.clear()
            with Clients(web, 8) as eight, Clients(web, 1) as one, Clients(baseline, 8) as others:
                traffic.ours(eight)
                traffic.bare(others, turn)
                traffic.pairs(eight, "8", traffic.users)
                # In portions, which end sooner than the machine changes its speed.
                for begun in range(0, number // 5, 10):
                    traffic.pairs(one, "1", traffic.users[begun : begun + 10])
        # Wait until the database has written what the others have changed.
        people.settle()
        for _ in range(2 * rounds):
            traffic.note("empty", fire(web, pulls), status=204)
            traffic.note("trivial", fire(baseline, trivial))
    for title, name, other, least in (
        ("pull over HTTP", "pull", "bare pull", 0.65),
        ("callback over HTTP", "callback", "bare callback", 0.65),
        ("empty answer", "empty", "trivial", 0.3),
        ("pairs by callback?next=1, 8 clients", "one call, 8", "two calls, 8", 1.3),
        ("pairs by callback?next=1, one client", "one call, 1", "two calls, 1", 1.3),
    ):
        yield _beside(title, traffic.spent[name], traffic.spent[other], at_least=least)
    yield exactness(run, key)


class _Traffic:
    """The calls of users; `spent` has the seconds of a call or a pair, turn by turn."""

    def __init__(self, key: str, users: int, turns: int) -> None:
        self._key = key
        self.users = people.users(users, tasks_each=7 * turns, group=people.group())
        self._bare = people.users(users, tasks_each=turns, group=people.group())
        self.spent: dict[str, list[float]] = {}

    def ours(self, clients: Clients) -> None:
        """A pull and a callback of each user."""
        taken = self.note("pull", clients.fire(_pulls(self._key, self.users)))
        ending = _ending(self._key, self.users, _numbers(taken))
        self.note("callback", clients.fire(ending, after=taken))

    def bare(self, clients: Clients, turn: int) -> None:
        """The same statements, of tasks that nobody has had."""
        values: list[dict[str, Any]] = [
            {"pk": u.pk, "name": u.name, "base": u.base, "task": u.base + turn} for u in self._bare
        ]
        taken = self.note("bare pull", clients.fire([post("/pull/", v) for v in values]))
        for each, number in zip(values, _numbers(taken), strict=True):
            each["number"] = int(number)
        ending = [post("/callback/", v) for v in values]
        self.note("bare callback", clients.fire(ending, after=taken))

    def pairs(self, clients: Clients, name: str, users: Sequence[User]) -> None:
        """A pair of each user by two calls, and one by one."""
        pulls = _pulls(self._key, users)
        taken = self.note("", clients.fire(pulls))
        ended = self.note("", clients.fire(_ending(self._key, users, _numbers(taken)), after=taken))
        both = taken._replace(seconds=taken.seconds + ended.seconds)
        self.note(f"two calls, {name}", both)
        taken = self.note("", clients.fire(pulls))
        chained = _ending(self._key, users, _numbers(taken), path=f"{CALLBACK}?next=1")
        chain = self.note(f"one call, {name}", clients.fire(chained, after=taken))
        following = [each.json["next"]["number"] for each in chain.answers]
        self.note("", clients.fire(_ending(self._key, users, following), after=taken))

    def note(self, name: str, volley: Volley, *, status: int = 200) -> Volley:
        """CommandError when an answer has another status."""
        odd = [each for each in volley.answers if each.status != status]
        if odd:
            raise CommandError(f"{name}: {odd[0].status} {odd[0].body[:300]!r}")
        self.spent.setdefault(name, []).append(volley.seconds / len(volley.answers))
        return volley


def _key() -> str:
    return access.create_client(name="Benchmark", scopes=["pull"], actor="benchmark")[1]


def _pulls(key: str, users: Sequence[User]) -> list[bytes]:
    return [post(DISPATCH, {"uid": user.name}, key=key) for user in users]


def _ending(
    key: str, users: Sequence[User], numbers: list[str], *, path: str = CALLBACK
) -> list[bytes]:
    return [
        post(path, {"uid": user.name, "number": number, "outcome": "succeeded"}, key=key)
        for user, number in zip(users, numbers, strict=True)
    ]


def _numbers(volley: Volley) -> list[str]:
    return [answer.json["number"] for answer in volley.answers]


def _beside(name: str, spent: list[float], baseline: list[float], *, at_least: float) -> Figure:
    """The rate beside the baseline's, each turn with its own: what slows the machine for some
    seconds slows both."""
    rate = 1 / median(spent)
    ratio = median([theirs / ours for ours, theirs in zip(spent, baseline, strict=True)])
    return figure(name, rate, "/s", baseline=rate / ratio, at_least=at_least)


def _recorded() -> dict[str, Any]:
    """The statements of a pull and of a callback of a user that has pulled before."""
    [user] = people.users(1, tasks_each=12, group=people.group())
    for _ in range(2):
        people.finish(user)
    taken: list[Dispatch] = []
    pulled = record(lambda: taken.append(people.pull(user)))
    dispatch = taken[0]
    called = record(lambda: people.end(user, dispatch))
    lines = JournalEntry.objects.filter(source="dispatch", subject_id=dispatch.pk)
    known: dict[Any, str] = dict.fromkeys(lines.values_list("pk", flat=True), "journal")
    known |= {user.pk: "pk", user.name: "name", dispatch.pk: "number", dispatch.task: "task"}
    return {
        name: [each.naming(known) for each in statements]
        for name, statements in (("pull", pulled), ("callback", called))
    }


def exactness(run: RunOptions, key: str) -> Figure:
    """A quota against six times its number of pulls: it is handed out exactly, without errors."""
    stock = 100 if run.quick else 1000
    group, number = people.group(), people.number()
    users = people.users(6 * stock, tasks_each=0, group=group)
    shared = people.task(number, group, clock.now(), mode="multi", dispatch_times=stock)
    people.insert(OnceTask, [shared])
    with server(APPLICATION, run.folder) as web:
        volley = fire(web, _pulls(key, users), connections=64)
    statuses = [each.status for each in volley.answers]
    errors = [status for status in statuses if status not in (200, 204)]
    handed = Stock.objects.get(source="once", task=number).handed
    dispatched = Dispatch.objects.filter(source="once", task=number).count()
    exact = statuses.count(200) == handed == dispatched == stock and not errors
    return figure(
        f"a quota of {stock:,}, {6 * stock:,} pulls on 64 connections: handed out",
        handed if exact else -1,
        "",
        baseline=stock,
        at_least=1,
    )


# --- Users with much to choose from ---------------------------------------------------------------
USERS = 64
PAIRS = 3


class Scenario(NamedTuple):
    """What 64 users have besides tasks of their own; `beside` runs while they work."""

    name: str
    prepare: Callable[[list[User], int], None] = lambda users, group: None
    beside: Callable[[int], AbstractContextManager[None]] = lambda group: nullcontext()


def _in_50_groups(users: list[User], _group: int) -> None:
    for _ in range(50):
        group = people.group()
        people.join(group, (user.pk for user in users))
        people.insert(OnceTask, [people.task(people.number(), group, _tomorrow(), mode="multi")])


def _in_a_group_of_3000(users: list[User], group: int) -> None:
    """The tasks to pull are the group's: each member gets each of them."""
    people.users(3000 - len(users), tasks_each=0, group=group)
    OnceTask.objects.filter(executor__in=[user.pk for user in users]).delete()
    first, since = people.number(), clock.now() - timedelta(hours=1)
    shared = {"mode": "multi", "dispatch_times": None}
    people.insert(OnceTask, (people.task(first + n, group, since, **shared) for n in range(100)))


def _with_1500_tasks_ahead(users: list[User], _group: int) -> None:
    now = clock.now()
    for user in users:
        first = people.number()
        people.insert(
            OnceTask,
            (
                people.task(first + n, user.pk, now + timedelta(minutes=10, seconds=10 * n))
                for n in range(1500)
            ),
        )


def _with_90_rotations(_users: list[User], group: int) -> None:
    people.rotations(group, 90, mode="multi", dispatch_times=None)


def _behind_600_used_up_tasks(_users: list[User], group: int) -> None:
    first, since = people.number(), clock.now() - timedelta(hours=1)
    once = {"mode": "multi", "dispatch_times": 1, "priority": 50}
    people.insert(OnceTask, (people.task(first + n, group, since, **once) for n in range(600)))
    people.used_up(range(first, first + 600))


@contextmanager
def _editing(group: int) -> Iterator[None]:
    """An operator who changes a task of the group ten times a second."""
    pk, stop = people.number(), threading.Event()
    people.insert(OnceTask, [people.task(pk, group, _tomorrow(), mode="multi")])

    def edit() -> None:
        try:
            while not stop.wait(0.1):
                task = OnceTask.objects.get(pk=pk)
                changes = {"title": f"Version {task.version}"}
                update_task(task=task, changes=changes, version=task.version, actor="benchmark")
        finally:
            connection.close()

    editor = threading.Thread(target=edit)
    editor.start()
    try:
        yield
    finally:
        stop.set()
        editor.join()


def _tomorrow() -> datetime:
    return clock.now() + timedelta(days=1)


SCENARIOS = (
    Scenario("user in 50 groups", _in_50_groups),
    Scenario("group of 3,000", _in_a_group_of_3000),
    Scenario("1,500 tasks ahead", _with_1500_tasks_ahead),
    Scenario("90 rotations", _with_90_rotations),
    Scenario("600 used-up tasks in front", _behind_600_used_up_tasks),
    Scenario("edits 10 a second", beside=_editing),
)


def scenarios(run: RunOptions) -> Iterator[Figure]:
    """Pairs over HTTP of users with much to choose from, beside users with a few tasks."""
    rounds = 4 if run.quick else 10
    key, tasks_each = _key(), PAIRS * (rounds + 1)
    with server(APPLICATION, run.folder) as web:
        for name, prepare, beside in SCENARIOS:
            run.log(name)
            plain = people.users(USERS, tasks_each=tasks_each, group=people.group())
            group = people.group()
            users = people.users(USERS, tasks_each=tasks_each, group=group)
            prepare(users, group)
            people.settle()
            times, plain_times = [], []
            with Clients(web, 8) as clients:
                for _ in range(rounds + 1):
                    plain_times.append(_pair_seconds(clients, key, plain))
                    with beside(group):
                        times.append(_pair_seconds(clients, key, users))
            # The first round filled caches.
            yield _beside(f"pairs, {name}", times[1:], plain_times[1:], at_least=0.35)


def _pair_seconds(clients: Clients, key: str, users: list[User]) -> float:
    seconds = 0.0
    for _ in range(PAIRS):
        taken = clients.fire(_pulls(key, users))
        ended = clients.fire(_ending(key, users, _numbers(taken)), after=taken)
        if odd := [each for each in (*taken.answers, *ended.answers) if each.status != 200]:
            raise CommandError(f"{odd[0].status} {odd[0].body[:300]!r}")
        seconds += taken.seconds + ended.seconds
    return seconds / PAIRS / len(users)
