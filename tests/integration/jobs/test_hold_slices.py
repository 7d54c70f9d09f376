"""S4.10-S4.12: the map of slices follows the register of workers, and each takes its
own jobs first."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import Any

import pytest

from apps.common.leases import load_position, sweep_lease
from apps.jobs.models import Job, Worker
from apps.jobs.rules import reasons
from apps.jobs.rules.slices import SliceMap
from apps.jobs.services import register
from apps.jobs.services.explain import explain
from apps.jobs.services.hold import RecentWork
from apps.jobs.services.preference import PLAIN_EVERY, looks
from apps.jobs.services.slices import SWEEP, follow, slice_map
from apps.jobs.sweeps import follow_workers
from tests.frozen import FrozenClock
from tests.jobs import HERE, THERE, Holder, hold, job_type, jobs, row, share, take
from tests.statements import is_read, sent_by

pytestmark = [pytest.mark.django_db, pytest.mark.both]

FOURTH = Holder("host-d:4", "host-d")


def jobs_of(owners: str, **columns: Any) -> list[int]:
    """A job of a shard of each of these workers, `h` for HERE and `t` for THERE, in this order."""
    known = share(HERE, THERE).slices_of("mail")
    shards = {"h": known.shards_of(f"/{HERE.name}"), "t": known.shards_of(f"/{THERE.name}")}
    return [
        jobs(1, shard=shards[owner][position], **columns)[0]
        for position, owner in enumerate(owners)
    ]


def ids(held: list[Any]) -> list[int]:
    return [job.id for job in held]


def peeks(statements: list[str]) -> list[str]:
    """The statements that look for ready jobs in the order of the index."""
    return [sql for sql in statements if is_read(Job, sql) and "order_key" in sql]


def limits_of(sql: str) -> list[int]:
    return [int(each) for each in re.findall(r"LIMIT (\d+)", sql)]


def test_each_worker_takes_its_own_first_and_the_rest_in_order() -> None:
    """Nobody waits for the one that is preferred."""
    job_type()
    first, second, third, fourth = jobs_of("thth")
    assert ids(take(2)) == [second, fourth]
    assert ids(take(2, by=THERE)) == [first, third]

    a, b, c, d = jobs_of("ttht")
    assert ids(take(3)) == [c, a, b]
    assert ids(take(3)) == [d]


@pytest.mark.parametrize("limit", [1, 2])
def test_no_job_at_the_head_is_passed_over_in_more_than_three_looks(limit: int) -> None:
    """Though the worker that prefers it never comes, and own ones are always there."""
    job_type()
    [head] = jobs_of("t")
    jobs_of("h" * 50)

    recents = [ids(take(limit)) for _ in range(PLAIN_EVERY)]

    assert [head in each for each in recents] == [False, False, False, True]


def test_with_one_slot_no_type_waits_longer_than_another() -> None:
    """Four types take turns; each is looked at plainly at every fourth of its own turns."""
    names = ("mail", "web", "crm", "bill")
    known = share(HERE, THERE, types=names).slices_of("mail")
    own, other = (known.shards_of(f"/{each.name}") for each in (HERE, THERE))
    heads = set()
    for name in names:
        job_type(name)
        heads |= set(jobs(1, name, shard=other[0]))
        jobs(20, name, shard=own[0])

    held = [
        hold(holder=HERE, types=names, limit=1, rotation=turn, recent=RecentWork())[0].id
        for turn in range(4 * len(names))
    ]

    assert heads <= set(held)


@pytest.mark.parametrize("alone", ["bill", "web"])
def test_types_that_are_shared_and_those_that_are_not_are_looked_at_together(alone: str) -> None:
    """Of one look, whichever of them comes first."""
    for name in ("bill", "mail", "web"):
        job_type(name)
    share(HERE, THERE, types={"bill", "mail", "web"} - {alone})
    shards = range(0, 64, 8)
    numbers = [jobs(1, name, shard=n)[0] for name in ("bill", "mail", "web") for n in shards]

    held = [
        number
        for holder in (HERE, THERE) * 6
        for number in ids(
            hold(holder=holder, types=("bill", "mail", "web"), limit=6, recent=RecentWork())
        )
    ]

    assert sorted(held) == sorted(numbers)


def test_stale_map_leaves_nothing_undone() -> None:
    """S4.12: the worker that it still names is dead; others take all."""
    job_type()
    numbers = jobs_of("thtthtt")

    held = [job for _ in numbers for job in take(2)]

    assert sorted(ids(held)) == numbers


def test_two_views_of_the_map_share_no_job() -> None:
    """S4.11: a change of slices under way makes nobody hold twice."""
    job_type()
    numbers = jobs_of("hthththt")
    first = ids(take(4))
    share(HERE, THERE, FOURTH)
    second = ids(take(4, by=FOURTH))
    share(THERE)

    third = ids(take(4, by=THERE))

    assert sorted(first + second + third) == numbers


def test_worker_that_is_no_member_or_a_spare_takes_in_order_and_reads_no_more() -> None:
    """S4.12"""
    job_type()
    for who in (FOURTH, Holder(HERE.name, HERE.host, client="shop")):
        numbers = jobs_of("thth")
        assert ids(take(3, by=who)) == numbers[:3]
        take()
    crowd = [Holder(f"host-{n}:{n}", f"host-{n}") for n in range(70)]
    known = share(*crowd).slices_of("mail")
    spare = next(each for each in crowd if f"/{each.name}" in known.spares)
    numbers = [jobs(1, shard=shard)[0] for shard in range(8)]

    assert ids(take(3, by=spare)) == numbers[:3]
    [peek] = peeks(sent_by(lambda: take(3, by=spare)))
    assert limits_of(peek) == [3, 3]


# --- what it costs --------------------------------------------------------------------------------
def test_without_workers_to_share_with_no_job_more_is_read() -> None:
    job_type()
    jobs(20)
    for holders in ((), (HERE,), (THERE, FOURTH)):
        share(*holders)
        take(1)

        [peek] = peeks(sent_by(lambda: take(2)))

        assert limits_of(peek) == [2, 2], holders


def test_wider_look_reads_at_most_a_thousand() -> None:
    job_type(batch_limit=1000)
    jobs_of("ht")

    widths = [limits_of(peeks(sent_by(lambda n=n: take(n)))[0]) for n in (200, 700, 1000)]

    assert widths == [[400, 400], [1000, 1000], [1000, 1000]]


def test_beside_many_workers_enough_is_read_to_find_own_jobs() -> None:
    """Else all would try the same few, and all but one in vain."""
    crowd = [HERE, *(Holder(f"host-{n}:{n}", f"host-{n}") for n in range(1, 64))]
    job_type()
    jobs(300)
    widths = []
    for workers, wanted in ((2, 1), (16, 1), (64, 1), (64, 10)):
        share(*crowd[:workers])
        # Every fourth look is a plain one.
        looks.clear()
        take(1)
        widths.append(limits_of(peeks(sent_by(lambda n=wanted: take(n)))[0])[0])

    assert widths == [4, 32, 128, 256]


def fewest() -> int:
    """The statements of a hold that reads nothing of what is read once a second."""
    return min(len(sent_by(lambda: take(1))) for _ in range(4))


def test_preference_costs_no_statement() -> None:
    """Once a second the map is read, whatever is held meanwhile."""
    job_type()
    jobs(40)
    share(HERE)
    alone = fewest()
    share(HERE, THERE)
    assert fewest() == alone


# --- why not --------------------------------------------------------------------------------------
def test_why_not_names_who_prefers_a_ready_job() -> None:
    """Any worker may take it, so that is no reason to wait."""
    job_type()
    [job] = jobs_of("t")
    assert [reason.code for reason in explain(row(job))] == ["no_worker"]
    register.register(name=THERE.name, host=THERE.host, types=["mail"])

    found = {reason.code: reason.detail for reason in explain(row(job))}
    assert list(found) == ["next", "preferred"]
    assert found["preferred"].startswith(f"Worker {THERE.name} prefers")


@pytest.fixture(autouse=True)
def types() -> None:
    job_type("mail", lane="fast")
    job_type("film", lane="slow")
    job_type("bound", lane="fast", allowed_hosts=["host-b"])


def enter(name: str, **facts: Any) -> None:
    """A worker registers; in-house it serves the fast lane only."""
    facts = {"host": "host-a", "types": ["mail", "film", "bound"], "lanes": ["fast"], **facts}
    register.register(name=name, **facts)


def beat(*names: str, **facts: Any) -> None:
    for name in names:
        assert register.beat(name=name, drains={}, running=0, **facts) is not None


def sweep() -> SliceMap:
    """The map after a run of the sweep."""
    follow_workers()
    return slice_map()


def members() -> list[str]:
    return sorted(sweep().members)


@pytest.fixture
def pair(frozen_clock: FrozenClock) -> FrozenClock:
    """Workers a and b, both in the map since a moment ago."""
    enter("a")
    enter("b")
    frozen_clock.advance(seconds=5)
    beat("a", "b")
    assert sweep().epoch == 1
    return frozen_clock


def test_one_process_sweeps_at_a_time() -> None:
    with sweep_lease(SWEEP, at_most=timedelta(seconds=30)):
        assert follow_workers() == 0
    assert load_position(SWEEP) == {}


def test_worker_comes_in_after_its_second_heartbeat(frozen_clock: FrozenClock) -> None:
    enter("a")
    beat("a")
    assert sweep() == SliceMap()

    frozen_clock.advance(seconds=5)
    assert sweep() == SliceMap()
    beat("a")

    known = sweep()
    assert (known.epoch, known.since, sorted(known.members)) == (1, frozen_clock.instant, ["/a"])


def test_workers_over_http_are_members_like_those_in_house(frozen_clock: FrozenClock) -> None:
    """They have no lanes: they serve every type they list."""
    enter("a")
    enter("a", client="shop", kind=Worker.Kind.HTTP, lanes=[], types=["mail", "film", "gone"])
    frozen_clock.advance(seconds=5)
    beat("a")
    beat("a", client="shop")

    assert dict(sweep().members) == {"/a": {"mail"}, "shop/a": {"mail", "film"}}


def test_worker_is_member_of_a_type_only_on_its_hosts(frozen_clock: FrozenClock) -> None:
    enter("a")
    enter("b", host="host-b")
    frozen_clock.advance(seconds=5)
    beat("a", "b")

    assert sweep().slices_of("bound").owners == ("/b",)
    assert sweep().slices_of("mail").owners == ("/a", "/b")


@pytest.mark.parametrize("way", ["leave", "lose", "silence", "stopping", "quiet"])
def test_worker_that_takes_nothing_goes_out(pair: FrozenClock, way: str) -> None:
    """Its shards go to the others, which took its jobs before, too."""
    pair.advance(seconds=10)
    beat("a", "b")
    if way == "leave":
        register.leave(name="b")
    elif way == "lose":
        register.lose(workers=[register.WorkerKey("", "b")], reason=reasons.PROCESS_GONE)
    elif way == "silence":
        pair.advance(seconds=15)
        beat("a")
        pair.advance(seconds=10)
    elif way == "stopping":
        beat("b", stopping=True)
    else:
        Worker.objects.filter(name="b").update(is_quiet=True)

    known = sweep()

    assert (known.epoch, list(known.members)) == (2, ["/a"])
    assert len(known.shards_of("/a")) == 1024


def test_unchanged_map_is_not_written(pair: FrozenClock) -> None:
    pair.advance(seconds=60)
    beat("a", "b")

    statements = sent_by(lambda: follow(now=pair.instant))

    assert not [sql for sql in statements if not sql.startswith("SELECT")]


def test_moved_type_moves_its_workers(pair: FrozenClock) -> None:
    pair.advance(seconds=10)
    beat("a", "b")
    job_type("film", lane="fast")

    assert sweep().slices_of("film").owners == ("/a", "/b")
