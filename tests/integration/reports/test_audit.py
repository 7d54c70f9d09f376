"""I54: `manage.py audit` finds rollups that differ from the journal."""

from __future__ import annotations

from datetime import timedelta
from io import StringIO

import pytest
from django.core.management import CommandError, call_command
from django.db.models import F

from apps.common import audit as auditing
from apps.common import clock, ids
from apps.common.audit import audit
from apps.common.leases import save_position
from apps.journal.models import JournalEntry
from apps.reports.models import Rollup, RollupBucket
from apps.reports.rules.coverage import DAY, HOUR, MINUTE, QUARTER
from apps.reports.services import rollup
from apps.reports.services.invariants import CHECKS
from tests.frozen import FrozenClock
from tests.integration.reports.day import roll_up
from tests.integration.reports.history import drawn, entry, stored, utc, write

NOW = utc("2026-03-30T12:34:56")
BUSY = utc("2026-03-30T10:07:00")

pytestmark = [pytest.mark.django_db, pytest.mark.both]


@pytest.fixture(autouse=True)
def history(frozen_clock: FrozenClock, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(auditing, "AGAIN_AFTER_SECONDS", 0.0)
    frozen_clock.move_to(NOW)
    write(
        *drawn(100, NOW - timedelta(days=3), NOW),
        entry(BUSY),
        entry(BUSY, "dispatch", executor="uid_a"),
    )
    roll_up()


def breaches() -> list[str]:
    return [str(breach) for done in audit(CHECKS) for breach in done.breaches]


def test_figures_as_they_should_be_are_no_breach() -> None:
    done = audit(CHECKS)
    assert breaches() == []
    assert all(each.rows for each in done)


def test_pause_is_no_breach(frozen_clock: FrozenClock, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("apps.reports.services.entries.MAX_READ", 5)
    frozen_clock.advance(hours=3)
    write(*drawn(50, NOW, clock.now()))
    rollup.roll_up(until=clock.now())
    assert breaches() == []


@pytest.mark.parametrize("change", [{"total": F("total") + 1}, {"wait": b"\x01\x01\x00\x05"}])
def test_wrong_total_is_found(change: dict[str, object]) -> None:
    Rollup.objects.filter(level=MINUTE, start=BUSY.timestamp(), source="job").filter(
        dimension="type"
    ).update(**change)
    [breach] = breaches()
    assert breach == ("I54 minute 2026-03-30T10:07Z: 1 of its rollups differ from the journal")


def test_wrong_totals_of_longer_buckets_are_found() -> None:
    for level in (QUARTER, HOUR, DAY):
        Rollup.objects.filter(level=level).delete()
    assert {each.split(" 2026")[0] for each in breaches()} == {
        "I54 quarter of an hour", "I54 hour", "I54 day",
    }  # fmt: skip


def test_entries_past_their_retention_are_no_breach() -> None:
    """S2.8: the figures stay when the journal forgets."""
    kept_from = NOW - timedelta(days=2)
    JournalEntry.objects.filter(pk__lt=ids.lowest_id_at(kept_from)).delete()
    assert breaches() == []
    Rollup.objects.filter(level=HOUR).update(total=F("total") + 1)
    assert breaches() != []


def test_uncounted_entry_is_found_and_a_rebuild_counts_it() -> None:
    write(entry(BUSY, type_or_task="late"))
    assert any("minute 2026-03-30T10:07Z" in each for each in breaches())
    out = StringIO()
    call_command(
        "rebuild_reports",
        "--from",
        "2026-03-30T10:00",
        "--to",
        "2026-03-30T18:15+08:00",
        stdout=out,
    )
    assert out.getvalue() == "2026-03-30 10:00 to 2026-03-30 10:15 UTC\n"
    assert breaches() == []


def test_missing_bucket_is_found() -> None:
    RollupBucket.objects.filter(
        level=HOUR, start=(BUSY - timedelta(hours=1, minutes=7)).timestamp()
    ).delete()
    assert "I54 hour 2026-03-30T09:00Z: is not stored, although its parts are" in breaches()


def test_gap_that_nothing_fills_is_found() -> None:
    RollupBucket.objects.filter(level=MINUTE, start=BUSY.timestamp()).delete()
    [breach] = breaches()
    assert "1 are missing up to minute 2026-03-30T12:33Z" in breach
    save_position(rollup.SWEEP, {"gaps": [[0, 60]]})
    assert breaches() == []


def test_bucket_with_other_entries_than_its_parts_is_found() -> None:
    RollupBucket.objects.filter(level=QUARTER, start=BUSY.timestamp() - 7 * 60).update(entries=99)
    assert any("counts 99 entries, its parts" in each for each in breaches())


def test_rebuild_says_what_to_write() -> None:
    with pytest.raises(CommandError, match="write for example 2026-03-31"):
        call_command("rebuild_reports", "--from", "yesterday")
    with pytest.raises(CommandError, match="--to must be later"):
        call_command("rebuild_reports", "--from", "2026-03-30", "--to", "2026-03-29")
    with pytest.raises(
        CommandError, match=r"--from is 2099-01-01 00:00 UTC, which is still to com"
    ):
        call_command("rebuild_reports", "--from", "2099-01-01")
    with pytest.raises(CommandError, match="--from"):
        call_command("rebuild_reports")


def test_rebuild_never_goes_back_before_the_oldest_entry_that_is_left() -> None:
    """Adding up again would lose what was in entries that were removed since."""
    call_command("rebuild_reports", "--from", "2026-03-27", stdout=StringIO())
    JournalEntry.objects.filter(at__lt=NOW - timedelta(days=1)).delete()
    before = stored()
    for start in ("2026-03-27", "2026-03-29", "2026-03-29T20:00"):
        with pytest.raises(CommandError, match="take --from 2026-03-30 or later"):
            call_command("rebuild_reports", "--from", start)
    assert stored() == before

    out = StringIO()
    call_command("rebuild_reports", "--from", "2026-03-30", stdout=out)
    assert out.getvalue().startswith("2026-03-30 00:00 to 2026-03-30 12:34 UTC")
    assert stored() == before


@pytest.mark.parametrize("left", [timedelta(), timedelta(hours=2)])
def test_rebuild_names_no_day_that_has_not_begun(left: timedelta) -> None:
    """An emptied journal, and one that has entries of the last hours only."""
    JournalEntry.objects.filter(at__lt=NOW - left).delete()
    before = stored()
    for start in ("2026-03-27", "2026-03-30", "2026-03-30T12:00"):
        with pytest.raises(CommandError, match="no figures can be added up anew"):
            call_command("rebuild_reports", "--from", start)
    assert stored() == before
