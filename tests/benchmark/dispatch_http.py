"""Dispatch over HTTP: pulls and callbacks beside bare views, and a stock against many pulls."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from django.core.management.base import CommandError

from apps.access import services as access
from apps.common import clock
from apps.dispatch.models import Dispatch, OnceTask, Stock
from apps.dispatch.services import pull
from apps.journal.models import JournalEntry
from tests.benchmark import at_work, people
from tests.benchmark.figures import Figure, figure, median
from tests.benchmark.load import Clients, Volley, fire, post
from tests.benchmark.people import User, settle
from tests.benchmark.processes import server
from tests.benchmark.statements import record

DISPATCH, CALLBACK = "/api/v1/dispatch/", "/api/v1/callback/"


def over_http(folder: Path, *, quick: bool) -> Iterator[Figure]:
    """Ours and the baselines in turn, on servers of the same kind, by workers who call back over
    the connection by which they have pulled, as the SDK does."""
    rounds, crew_size = (4, 100) if quick else (12, 300)
    _, key = access.create_client(name="Benchmark", scopes=["pull"], actor="benchmark")
    idle = at_work.users(crew_size, tasks_each=0)
    asking = [post(DISPATCH, {"uid": user.name}, key=key) for user in idle]
    trivial = [post("/trivial/", {"uid": "x"})] * crew_size
    traffic = _Traffic(key, crew_size, rounds + 1)
    statements = folder / "statements.json"
    statements.write_text(json.dumps(_recorded(), default=str))
    with (
        server("taskplatform.wsgi:application", folder) as web,
        server(
            "tests.benchmark.bare:application", folder, BENCHMARK_STATEMENTS=str(statements)
        ) as baseline,
    ):
        for turn in range(rounds + 1):
            if turn == 1:
                # The first one filled caches and connections.
                traffic.spent.clear()
            with Clients(web, 8) as eight, Clients(web, 1) as one, Clients(baseline, 8) as others:
                traffic.ours(eight)
                traffic.bare(others, turn)
                traffic.pairs(eight, "8", traffic.crew)
                # In portions, which end sooner than the machine changes its speed.
                for begun in range(0, crew_size // 5, 10):
                    traffic.pairs(one, "1", traffic.crew[begun : begun + 10])
        # The database does not write any more what the others have changed.
        settle()
        for _ in range(2 * rounds):
            traffic.note("empty", fire(web, asking), status=204)
            traffic.note("trivial", fire(baseline, trivial))
    for title, name, other, least in (
        ("pull over HTTP", "pull", "bare pull", 0.85),
        ("callback over HTTP", "callback", "bare callback", 0.8),
        ("empty answer", "empty", "trivial", 0.5),
        ("pairs by callback?next=1, 8 workers", "one call, 8", "two calls, 8", 1.6),
        ("pairs by callback?next=1, one worker", "one call, 1", "two calls, 1", 1.6),
    ):
        yield _beside(title, traffic.spent[name], traffic.spent[other], at_least=least)
    yield exactness(web_folder=folder, key=key, quick=quick)


class _Traffic:
    """The calls of users at work; `spent` has the seconds of a call or a pair, turn by turn."""

    def __init__(self, key: str, crew_size: int, turns: int) -> None:
        self._key = key
        self.crew = at_work.users(crew_size, tasks_each=7 * turns)
        self._bare = at_work.users(crew_size, tasks_each=turns)
        self.spent: dict[str, list[float]] = {}

    def ours(self, clients: Clients) -> None:
        """A pull and a callback of each user."""
        taken = self.note("pull", clients.fire(self._pulls(self.crew)))
        ending = self._ending(self.crew, _numbers(taken))
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
        pulls = self._pulls(users)
        taken = self.note("", clients.fire(pulls))
        ended = self.note("", clients.fire(self._ending(users, _numbers(taken)), after=taken))
        both = taken._replace(seconds=taken.seconds + ended.seconds)
        self.note(f"two calls, {name}", both)
        taken = self.note("", clients.fire(pulls))
        chained = self._ending(users, _numbers(taken), path=f"{CALLBACK}?next=1")
        chain = self.note(f"one call, {name}", clients.fire(chained, after=taken))
        following = [each.json["next"]["number"] for each in chain.answers]
        self.note("", clients.fire(self._ending(users, following), after=taken))

    def note(self, name: str, volley: Volley, *, status: int = 200) -> Volley:
        """CommandError when an answer has another status."""
        odd = [each for each in volley.answers if each.status != status]
        if odd:
            raise CommandError(f"{name}: {odd[0].status} {odd[0].body[:300]!r}")
        self.spent.setdefault(name, []).append(volley.seconds / len(volley.answers))
        return volley

    def _pulls(self, users: Sequence[User]) -> list[bytes]:
        return [post(DISPATCH, {"uid": user.name}, key=self._key) for user in users]

    def _ending(
        self, users: Sequence[User], numbers: list[str], *, path: str = CALLBACK
    ) -> list[bytes]:
        return [
            post(path, {"uid": user.name, "number": number, "outcome": "succeeded"}, key=self._key)
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
    """The statements of a pull and of a callback of a user that is at work already."""
    [user] = at_work.users(1, tasks_each=12)
    for _ in range(2):
        at_work.finish(user)
    taken: list[Dispatch] = []
    pulled = record(lambda: taken.append(at_work.pull(user)))
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
    pull.call_back(user.name, dispatch.pk, "succeeded")


def exactness(*, web_folder: Path, key: str, quick: bool) -> Figure:
    """A stock of 1,000 against 6,000 pulls: so many get it, all others get an answer."""
    stock, pulls = (100, 600) if quick else (1000, 6000)
    group = at_work.group()
    number = at_work.number()
    crew = people.users(at_work.number(), pulls, tasks_each=0, group=group)
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
