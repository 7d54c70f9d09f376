"""What holds for the archive of jobs as for that of dispatches: rows go whole, and each once."""

from __future__ import annotations

from typing import Any

import pytest
from django.db import IntegrityError, transaction

from apps.common import archive as moving
from apps.common import clock
from apps.jobs.services import archive as job_archive
from apps.journal.models import JournalEntry
from tests.archives import ARCHIVES, Archive
from tests.frozen import FrozenClock
from tests.kills import kills

pytestmark = [pytest.mark.django_db, pytest.mark.both]

ODD = {"größe": 1.10, "zahl": 10**15, "x": [None, True, "ä", {"y": ""}]}
FACTS: dict[str, dict[str, Any]] = {
    "jobs": {
        **{"key": "order-1", "is_unique": True, "context": ODD, "checkpoint": {"second": 40}},
        **{"sequence": 3, "progress": 70, "memo": "Die Tür\nist zu", "error_key": "e" * 32},
        **{"priority": -4, "shard": 17, "stage": "cut", "client": "ac_1", "user_id": "uid_ann"},
        **{"trace_id": "t-1", "submitted_by": "admin:ann"},
    },
    "dispatches": {
        **{"params": ODD, "message": "Die Tür\nist zu", "template_name": "photo-check"},
        **{"template_version": 3, "round": 2, "redo": 4},
    },
}


@pytest.fixture(params=ARCHIVES)
def kept(request: pytest.FixtureRequest, db: None, frozen_clock: FrozenClock) -> Archive:
    archive = ARCHIVES[request.param]
    archive.begin()
    return archive


@pytest.fixture
def small_chunks(monkeypatch: pytest.MonkeyPatch, settings: Any) -> None:
    """Two rows at a time."""
    monkeypatch.setattr(job_archive, "CHUNK", 2)
    settings.PURGE_BATCH = 2


def test_all_that_is_known_of_a_row_goes_along(kept: Archive) -> None:
    """S0.8, S4.16: every column that both tables have, exactly as it was."""
    facts = {"result": [1, {"a": None}], **FACTS[kept.rows]}
    status = "status" if kept.rows == "jobs" else "state"
    [number] = kept.ended(**facts, **{status: "failed"})
    before = kept.live._default_manager.values(*kept.columns).get(pk=number)
    assert kept.move() == 1
    after = kept.there._default_manager.values(*kept.columns, "archived_at").get(pk=number)
    assert after == {**before, "archived_at": clock.now()}


def test_unequal_counts_roll_the_chunk_back(kept: Archive, monkeypatch: pytest.MonkeyPatch) -> None:
    """I1, I61, I63: nothing is removed that was not copied."""
    numbers = kept.ended(3)
    copied = moving.execute

    def one_less(sql: str, parameters: Any = ()) -> int:
        return copied(sql, parameters) - sql.startswith("INSERT")

    monkeypatch.setattr(moving, "execute", one_less)
    said = f"3 rows of {kept.live._meta.db_table} to carry, but 2 made"
    with pytest.raises(RuntimeError, match=said):
        kept.move()
    assert [kept.where(number) for number in numbers] == [["live"]] * 3
    assert not JournalEntry.objects.filter(event="archived").exists()
    kept.audit()


def test_row_that_is_in_both_tables_stays_so(kept: Archive, frozen_clock: FrozenClock) -> None:
    """I61, I63: no move hides what the audit is to find."""
    [number] = kept.archived()
    kept.ended(id=number)
    frozen_clock.advance(days=1)
    with pytest.raises(IntegrityError):
        kept.move()
    assert kept.where(number) == ["live", "archive"]


@pytest.mark.django_db(transaction=True)
def test_mover_killed_at_any_statement_leaves_whole_chunks(
    kept: Archive, small_chunks: None
) -> None:
    """S0.8, S4.16, I1, I61: a row goes with its entry and its part of the stock, or not at all."""
    numbers = kept.ended(3)
    seen = set[int]()
    for _ in kills(kept.move, more_than=8):
        assert all(len(kept.where(number)) == 1 for number in numbers)
        entries = JournalEntry.objects.filter(event="archived")
        assert kept.count() == sum(entry.data[kept.rows] for entry in entries)
        seen.add(kept.count())
        kept.audit()
    assert seen >= {0, 2}
    assert [kept.where(number) for number in numbers] == [["archive"]] * 3


def test_movers_beside_each_other_take_each_row_once(kept: Archive, racers: Any) -> None:
    """I61, I63."""
    numbers = kept.ended(40)
    assert sum(racers([kept.move] * 4).results) == 40
    assert all(kept.where(number) == ["archive"] for number in numbers)
    kept.audit()


@pytest.mark.mariadb
def test_mover_passes_over_what_somebody_has_locked(kept: Archive, racers: Any) -> None:
    """S0.8, S4.16: nobody who works on a row makes it wait, and it holds up nobody."""
    numbers = kept.ended(3)
    with transaction.atomic():
        kept.live._default_manager.select_for_update().get(pk=numbers[1])
        assert racers([kept.move]).results == [2]
    assert [kept.where(number) for number in numbers] == [["archive"], ["live"], ["archive"]]
    kept.audit()
