"""S4.10-S4.12: the map of slices follows the register of workers."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from apps.common.leases import load_position, sweep_lease
from apps.jobs.models import Worker
from apps.jobs.rules import reasons
from apps.jobs.rules.slices import SliceMap
from apps.jobs.services import register
from apps.jobs.services.slices import SWEEP, follow, slice_map
from apps.jobs.sweeps import follow_workers
from tests.frozen import FrozenClock
from tests.jobs import job_type
from tests.statements import sent_by

pytestmark = [pytest.mark.django_db, pytest.mark.both]


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
