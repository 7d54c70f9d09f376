"""S2.8: each watch finds what it is for and nothing else, and its fix mends it."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from itertools import product
from typing import Any

import pytest
from django.db import connection
from django.test import override_settings

from apps.common import clock, ids, partitions
from apps.common.errors import Conflict, NotFound
from apps.common.leases import save_position, sweep_lease
from apps.jobs.models import ArchivedJob, InboxRow, Job, JobType
from apps.jobs.services import roll as jobs_roll
from apps.journal.conf import SinkAddress
from apps.journal.models import JournalEntry, Sink, SinkReject
from apps.journal.services import retention
from apps.reports.rules.tally import error_value
from apps.reports.services import fact_sheet
from apps.reports.watches import WATCHES
from apps.reports.watches.base import Watch, look
from apps.reports.watches.processes import BEAT_LATE
from apps.reports.watches.tables import FIXED
from tests import factories
from tests.frozen import FrozenClock
from tests.history import archived, ended, unite_archive
from tests.integration.reports.day import roll_up
from tests.integration.reports.history import utc
from tests.journal import commit, made

pytestmark = [pytest.mark.django_db, pytest.mark.both]

DAY = timedelta(days=1)
NOW = utc("2026-03-03T13:52:10")
JOURNAL, ARCHIVE, JOBS = "journal_journalentry", "jobs_archived", "jobs_job"
LAKE = override_settings(JOURNAL_SINKS=(SinkAddress("lake", "file:///nowhere"),))
KEPT = override_settings(JOURNAL_RETENTION=100 * DAY, JOB_RETENTION=100 * DAY)
plain = pytest.mark.sqlite


@pytest.fixture(autouse=True)
def quiet(
    frozen_clock: FrozenClock, monkeypatch: pytest.MonkeyPatch, settings: Any
) -> Iterator[FrozenClock]:
    """All entries are added up; nothing rests."""
    frozen_clock.move_to(NOW)
    settings.JOURNAL_SINKS = ()
    monkeypatch.setattr(retention, "readers", [])
    monkeypatch.setattr(clock, "drift", timedelta)
    yield frozen_clock


def watch(key: str) -> Watch:
    return next(each for each in WATCHES if each.key == key)


def found(number: str) -> dict[str, str]:
    """What the watch says, by subject."""
    looked = look(watch(number), fact_sheet.read())
    assert looked.unknown is None
    return {each.name: str(each.text) for each in looked.findings}


def mend(number: str, subject: str) -> str:
    fix = watch(number).fix
    assert fix is not None
    return str(fix.act(subject, "admin:ann", "It is time"))


def verbs(number: str) -> dict[str, str]:
    """What may be done to what is found, and where the page is that asks first."""
    found = look(watch(number), fact_sheet.read()).findings
    ways = [way for each in found for way in watch(number).ways(each, lambda _name: True)]
    return {str(label): url for label, url in ways if "/act/" in url}


def foreseen(number: str, subject: str) -> str:
    fix = watch(number).fix
    assert fix is not None
    return str(fix.foresee(subject))


def told() -> list[tuple[str, str, str, Any]]:
    entries = JournalEntry.objects.filter(event=FIXED)
    return [(each.actor, each.reason, each.source, each.data) for each in entries]


def test_each_has_its_key_and_a_new_platform_is_in_order() -> None:
    numbers = [each.number for each in WATCHES if each.number]
    assert numbers == [f"G{n}" for n in range(1, 11)]
    assert len({each.key for each in WATCHES}) == len(WATCHES)
    if connection.vendor == "sqlite":
        found = [each for each in WATCHES if look(each, fact_sheet.read()).findings]
        # It has not been started.
        assert found == [BEAT_LATE]


# --- G1 -------------------------------------------------------------------------------------------
@plain
@KEPT
def test_g1_finds_entries_past_their_retention_and_the_sweep_removes_them() -> None:
    commit(made(NOW - 102 * DAY))
    assert found("G1") == {}
    commit(made(NOW - 104 * DAY))
    [(subject, text)] = found("G1").items()
    assert subject == JOURNAL
    assert "4 days past their retention" in text
    assert "It removes rows" in foreseen("G1", subject)

    assert "has run" in mend("G1", subject)

    assert found("G1") == {}
    assert told() == [("admin:ann", "It is time", "plan", {"detector": "G1", "finding": JOURNAL})]


@plain
@KEPT
def test_g1_finds_archived_jobs_by_their_end_and_the_sweep_forgets_them() -> None:
    factories.job_type()
    old = archived(2, ago=104 * DAY)
    # One that was planned for long is not over yet.
    [planned] = archived(1, ago=120 * DAY)
    ArchivedJob.objects.filter(pk=planned).update(finished_at=NOW - 20 * DAY)
    assert list(found("G1")) == [ARCHIVE]

    mend("G1", ARCHIVE)

    assert found("G1") == {}
    assert list(ArchivedJob.objects.values_list("pk", flat=True)) == [planned]
    assert not ArchivedJob.objects.filter(pk__in=old).exists()


@override_settings(JOURNAL_RETENTION=timedelta(0), JOB_RETENTION=timedelta(0))
def test_g1_finds_nothing_where_all_is_kept() -> None:
    commit(made(NOW - 500 * DAY))
    assert found("G1") == {}


@plain
@KEPT
def test_fix_waits_for_the_sweep_and_then_tells_nothing() -> None:
    commit(made(NOW - 104 * DAY))
    with sweep_lease("journal.roll", at_most=DAY), pytest.raises(Conflict, match="runs just now"):
        mend("G1", JOURNAL)
    assert told() == []
    assert list(found("G1")) == [JOURNAL]


def test_fix_of_something_that_is_not_there_says_so(subtests: pytest.Subtests) -> None:
    for call, number in product((foreseen, mend), ("G1", "G2", "G3", "G6")):
        with subtests.test(call=call.__name__, number=number), pytest.raises(NotFound):
            call(number, "no-such-thing")


# --- G1 to G3 on MariaDB --------------------------------------------------------------------------
@pytest.fixture
def united(transactional_db: None) -> Iterator[None]:
    unite_archive()
    yield
    unite_archive()


def names() -> list[str]:
    return [each.name for each in partitions.partitions_of(ArchivedJob)]


@pytest.mark.mariadb
@KEPT
def test_g1_finds_partitions_that_are_over_and_the_sweep_drops_them(united: None) -> None:
    ends = [NOW.replace(hour=0, minute=0, second=0, microsecond=0) - n * DAY for n in (104, 102)]
    partitions.cut(ArchivedJob, ends)
    archived(3, ago=105 * DAY)
    [(subject, text)] = found("G1").items()
    assert (subject, "4 days past" in text) == (ARCHIVE, True)
    # The sweep knows that a late job is in it.
    save_position(jobs_roll.ROLLING.sweep, {names()[0]: (NOW + DAY).isoformat()})
    assert found("G1") == {}
    save_position(jobs_roll.ROLLING.sweep, {})
    assert "It drops partitions of Older jobs: 2" in foreseen("G1", subject)

    mend("G1", subject)

    assert found("G1") == {}
    assert not ArchivedJob.objects.exists()


@pytest.mark.mariadb
def test_g2_finds_partitions_that_are_missing_and_they_are_cut(
    united: None, quiet: FrozenClock
) -> None:
    assert ARCHIVE in found("G2")
    assert "It cuts" in foreseen("G2", ARCHIVE)
    mend("G2", ARCHIVE)
    assert len(names()) > 3
    assert ARCHIVE not in found("G2")
    assert "has all its partitions" in foreseen("G2", ARCHIVE)
    # What is missing for less than three hours, the sweep cuts in time.
    last = [each.end for each in partitions.partitions_of(ArchivedJob) if each.end][-3]
    assert last is not None
    quiet.move_to(last + timedelta(hours=2))
    assert ARCHIVE not in found("G2")
    quiet.move_to(last + timedelta(hours=4))
    assert ARCHIVE in found("G2")


@pytest.mark.mariadb
def test_g3_finds_rows_behind_the_last_partition_and_moves_them(
    united: None, quiet: FrozenClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(partitions, "MOVED_AT_ONCE", 2)
    archived(3)
    text = found("G3")[ARCHIVE]
    assert "lie behind the last partition" in text
    assert "wait about 1 s" in foreseen("G3", ARCHIVE)
    with pytest.raises(Conflict, match="roll_tables --move"):
        mend("G2", ARCHIVE)
    assert ARCHIVE in found("G3")

    mend("G3", ARCHIVE)

    assert ARCHIVE not in found("G3")
    assert ArchivedJob.objects.count() == 3


# --- G4, G5 ---------------------------------------------------------------------------------------
def sink(**columns: Any) -> Sink:
    return Sink.objects.create(name="lake", created_at=NOW, checked=0, **columns)


@LAKE
@KEPT
def test_g4_finds_a_sink_that_holds_entries_back() -> None:
    since = ids.lowest_id_at(NOW - 115 * DAY)
    lake = sink(after=since, is_paused=True, pause_reason="The lake is full")
    assert found("G4") == {}, "it has all"
    commit(made(NOW - 110 * DAY))
    [(subject, text)] = found("G4").items()
    assert subject == "lake"
    assert "lacks entries since 2025-11-08T13:52:10" in text
    assert "30 days longer at most" in text
    assert verbs("G4") == {"Resume": f"/admin/journal/sink/act/resume/?ids={lake.pk}"}
    Sink.objects.update(after=ids.lowest_id_at(NOW - 90 * DAY))
    assert found("G4") == {}


@LAKE
def test_g5_finds_a_late_sink() -> None:
    commit(made(NOW - timedelta(minutes=12)))
    lake = sink(after=ids.lowest_id_at(NOW - DAY), failures=9, error="no route", retry_at=NOW + DAY)
    assert found("G5") == {"lake": "Sink lake is 12 minutes behind. It fails: no route"}
    assert verbs("G5") == {"Resume": f"/admin/journal/sink/act/resume/?ids={lake.pk}"}
    Sink.objects.update(failures=0)
    assert "takes less than comes" in found("G5")["lake"]
    assert verbs("G5") == {}
    Sink.objects.update(is_paused=True, pause_reason="Moving")
    assert found("G5")["lake"].endswith("It is paused: Moving")
    Sink.objects.update(after=ids.lowest_id_at(NOW))
    assert found("G5") == {}


@LAKE
def test_g5_counts_what_was_refused_in_a_day() -> None:
    for n in range(3):
        SinkReject.objects.create(sink="lake", entry_id=n, at=NOW - n * DAY, error="no", body="{}")
    assert "refused in the last 24 hours: 1." in found("G5")["lake"]


# --- G6 -------------------------------------------------------------------------------------------
def test_g6_finds_a_late_mover_and_moves() -> None:
    factories.job_type()
    ended(2, ago=timedelta(days=7, hours=23))
    assert found("G6") == {}
    ended(3, ago=9 * DAY)
    [(subject, text)] = found("G6").items()
    assert (subject, "is 2 d late" in text) == (JOBS, True)
    assert "It moves to the older ones" in foreseen("G6", subject)

    assert mend("G6", subject) == "Moved to the older ones: 5."

    assert found("G6") == {}
    assert [data for *_rest, data in told()] == [{"detector": "G6", "finding": JOBS}]


def test_g6_looks_where_the_mover_is() -> None:
    """Jobs that were skipped because they waited or ran come again with the next pass."""
    factories.job_type()
    numbers = ended(2, ago=9 * DAY)
    save_position("jobs.archive", {"after": numbers[-1], "begun": NOW.isoformat(), "ended": True})
    assert found("G6") == {}


# --- G7 -------------------------------------------------------------------------------------------
def test_g7_finds_a_type_that_nobody_uses(quiet: FrozenClock) -> None:
    for name in ("idle", "young", "paused", "open", "busy", "lately"):
        factories.job_type(name)
    old = NOW - 91 * DAY
    JobType.objects.exclude(name="young").update(created_at=old)
    JobType.objects.filter(name="paused").update(paused=True)
    factories.job("open")
    ended(1, type="lately", ago=timedelta(hours=1))
    busy = {"from_state": "running", "to_state": "succeeded", "type_or_task": "busy"}
    commit(made(NOW - 2 * DAY, **busy))
    for _round in range(4):
        roll_up()
    assert found("G7") == {"idle": "No job of type idle has come for 90 days."}
    idle = JobType.objects.get(name="idle")
    assert verbs("G7") == {"Pause": f"/admin/jobs/jobtype/act/pause/?ids={idle.pk}"}
    JobType.objects.filter(pk=idle.pk).update(paused=True)
    assert found("G7") == {}


# --- G8 -------------------------------------------------------------------------------------------
def test_g8_finds_clocks_that_are_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clock, "drift", lambda: timedelta(seconds=-0.6))
    assert "0.6 s apart" in found("G8")["drift"]
    monkeypatch.setattr(clock, "drift", lambda: timedelta(seconds=0.4))
    assert found("G8") == {}


def test_g8_finds_a_clock_that_was_set_back() -> None:
    commit(made(NOW + timedelta(seconds=90)))
    assert "made 90.0 s after now" in found("G8")["jump"]


# --- G9 -------------------------------------------------------------------------------------------
def test_g9_finds_jobs_that_failed_with_the_same_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("apps.reports.watches.jobs.MAX_FAILED", 3)
    factories.job_type()
    key = "e" * 32
    ended(4, ago=timedelta(days=2), status="failed", error_key=key)
    ended(3, ago=timedelta(days=2), status="failed", error_key="f" * 32)

    [(subject, text)] = found("G9").items()

    assert subject == error_value("mail", key)
    assert "More than 3 jobs of type mail" in text
    # Those that were retried are no failures any more.
    [first, *_rest] = Job.objects.order_by("pk")
    Job.objects.filter(pk=first.pk).update(status="succeeded")
    assert found("G9") == {}


# --- the inbox ------------------------------------------------------------------------------------
def test_inbox_has_rows_that_were_refused_and_rows_that_no_sweep_moves() -> None:
    row = InboxRow.objects.create(type="mail", created_at=NOW - timedelta(seconds=60))
    assert found("inbox") == {}
    InboxRow.objects.update(created_at=NOW - timedelta(seconds=61))
    [late] = look(watch("inbox"), fact_sheet.read()).findings
    assert str(late.text).startswith("A row of the inbox has waited since 2026-03-03T13:51:09Z")

    InboxRow.objects.filter(pk=row.pk).update(refused_at=NOW)
    [refused] = look(watch("inbox"), fact_sheet.read()).findings
    assert refused.text == "Rows of the inbox of which no job could be made: 1."
    ways = watch("inbox").ways(refused, lambda _name: True)
    assert [url for _label, url in ways] == ["/admin/jobs/inboxrow/"]
