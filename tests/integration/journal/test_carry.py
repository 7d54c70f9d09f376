"""S0.30: a turn of a sink; what it refuses is kept, what fails is tried again, people pause it."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from django.test import Client, override_settings

from apps.common import clock
from apps.common.errors import Invalid
from apps.journal.conf import SinkAddress, conf
from apps.journal.models import JournalEntry, Sink, SinkReject
from apps.journal.services import carry
from apps.journal.sinks import Refused, Unavailable
from apps.journal.sweeps import carry as sweep
from taskplatform import beat
from tests.frozen import FrozenClock
from tests.journal import Remembering, commit, entries_of, made

pytestmark = pytest.mark.django_db
LAKE = SinkAddress("lake", "file:///nowhere")


@pytest.fixture
def lake(monkeypatch: pytest.MonkeyPatch, frozen_clock: FrozenClock) -> Iterator[Remembering]:
    """The only sink, which has begun."""
    remembering = Remembering()
    monkeypatch.setattr(carry, "open_sink", lambda address: remembering)
    monkeypatch.setattr(carry, "_open", {})
    monkeypatch.setattr(carry, "_seen", {})
    with override_settings(JOURNAL_SINKS=(LAKE,)):
        turn()
        yield remembering


def turn() -> int:
    return carry.carry(LAKE, until=clock.now() + timedelta(seconds=10))


def state() -> Sink:
    return Sink.objects.get(name="lake")


def written(frozen_clock: FrozenClock, count: int = 1, **fields: Any) -> list[int]:
    """Entries that are old enough to be sent."""
    numbers = commit(*(made(frozen_clock.instant, **fields) for _ in range(count)))
    frozen_clock.advance(seconds=10)
    return numbers


@pytest.mark.both
def test_each_entry_is_a_line_with_all_its_facts(
    lake: Remembering, frozen_clock: FrozenClock
) -> None:
    now = frozen_clock.instant
    [number] = written(
        frozen_clock,
        subject_id=2**60,
        error="Boom at https://me:hidden@host/ 1",
        data={"password": "hidden", "rows": 3},
        wait_ms=12,
    )

    assert turn() == 1
    [entry] = entries_of(lake.lines)
    assert (entry["id"], entry["subject_id"]) == (str(number), str(2**60))
    assert (entry["at"], entry["wait_ms"], entry["run_ms"]) == (
        now.isoformat().replace("+00:00", "Z"),
        12,
        None,
    )
    assert entry["data"]["rows"] == 3
    assert "hidden" not in lake.lines[0].text
    columns = {field.column for field in JournalEntry._meta.concrete_fields}
    # The person is the actor once more, for an index.
    assert entry.keys() == columns - {"person"}
    assert (state().after, state().sent, state().delivered_at) == (number, 1, frozen_clock.instant)


def test_failures_make_it_rest_longer_and_longer(
    lake: Remembering, frozen_clock: FrozenClock
) -> None:
    numbers = written(frozen_clock)
    rests = []
    for _ in range(12):
        lake.raises = [Unavailable("nobody there")]
        turn()
        retry_at = state().retry_at
        assert retry_at is not None
        rests.append((retry_at - frozen_clock.instant).total_seconds())
        # Until then it is left alone.
        asked = len(lake.blocks)
        assert turn() == 0
        assert len(lake.blocks) == asked
        frozen_clock.move_to(retry_at)
    assert rests[:4] == [1, 2, 4, 8]
    assert rests[-1] == 300
    assert (state().failures, state().error) == (12, "nobody there")

    assert turn() == 1
    assert lake.ids == numbers
    assert (state().failures, state().retry_at, state().error) == (0, None, "")


@pytest.mark.both
def test_failed_sink_is_opened_anew(lake: Remembering, frozen_clock: FrozenClock) -> None:
    written(frozen_clock)
    lake.raises = [Unavailable("broken pipe")]
    turn()
    assert lake.is_closed
    assert carry._open == {}


def test_refused_entries_are_kept_and_others_go_on(
    lake: Remembering, frozen_clock: FrozenClock
) -> None:
    first, second, third = written(frozen_clock, 3)
    lake.raises = [Refused("1 of 3", {second: "mapper_parsing_exception"})]

    assert turn() == 2
    [reject] = SinkReject.objects.all()
    assert (reject.sink, reject.entry_id, reject.error) == (
        "lake",
        second,
        "mapper_parsing_exception",
    )
    assert str(second) in reject.body
    assert (state().after, state().sent, state().rejected) == (third, 2, 1)
    assert first < second


def test_entry_that_nobody_names_is_found_by_halving(
    lake: Remembering, frozen_clock: FrozenClock
) -> None:
    numbers = written(frozen_clock, 8)
    poison = numbers[5]
    take = lake.deliver

    def picky(lines: Any) -> None:
        if any(line.id == poison for line in lines):
            raise Refused("413")
        take(lines)

    lake.deliver = picky  # type: ignore[method-assign]
    assert turn() == 7
    assert lake.ids == [number for number in numbers if number != poison]
    assert [reject.entry_id for reject in SinkReject.objects.all()] == [poison]


@pytest.mark.both
def test_sink_that_refuses_everything_is_paused(
    lake: Remembering, frozen_clock: FrozenClock
) -> None:
    numbers = written(frozen_clock, carry.MAX_REJECTS + 1)
    lake.raises = [Refused("all", dict.fromkeys(numbers, "no such field"))]
    turn()

    assert state().is_paused
    assert "no such field" in state().pause_reason
    assert JournalEntry.objects.filter(event="sink_paused", type_or_task="lake").exists()
    frozen_clock.advance(hours=1)
    assert turn() == 0


def test_sink_that_is_resumed_gets_past_what_it_refused_before(
    lake: Remembering, frozen_clock: FrozenClock
) -> None:
    """Each entry is kept once, however often its block is sent."""
    numbers = written(frozen_clock, carry.MAX_REJECTS + 2)
    refusal = Refused("most", dict.fromkeys(numbers[1:], "no such field"))
    lake.raises = [refusal, refusal]
    turn()
    carry.resume(sink=state(), actor="ann")
    # The pause and the end of it are entries, too.
    frozen_clock.advance(minutes=1)
    turn()

    assert not state().is_paused
    assert state().after >= numbers[-1]
    assert SinkReject.objects.count() == state().rejected == carry.MAX_REJECTS + 1


def test_paused_sink_sends_nothing_until_it_is_resumed(
    lake: Remembering, frozen_clock: FrozenClock
) -> None:
    carry.pause(sink=state(), actor="ann", reason="The lake is being moved")
    numbers = written(frozen_clock)
    assert turn() == 0
    carry.resume(sink=state(), actor="ann", reason="It is back")
    turn()

    ours = [entry for entry in entries_of(lake.lines) if entry["source"] == "job"]
    assert [entry["id"] for entry in ours] == [str(number) for number in numbers]
    told = JournalEntry.objects.filter(source="sink").order_by("id")
    assert [(each.event, each.actor, each.reason) for each in told] == [
        ("sink_paused", "ann", "The lake is being moved"),
        ("sink_resumed", "ann", "It is back"),
    ]
    with pytest.raises(Invalid):
        carry.pause(sink=state(), actor="ann", reason=" ")


def test_sweep_carries_to_the_sinks_of_the_settings(tmp_path: Path) -> None:
    with override_settings(JOURNAL_SINKS=(SinkAddress("files", f"file://{tmp_path}"),)):
        sweep("files")
        assert Sink.objects.get().name == "files"
        assert sweep("gone") == 0
        schedule = beat.schedule()
        assert schedule["journal.sink.files"]["task"] == "journal.carry"
        assert schedule["journal.sink.files"]["args"] == ["files"]
        assert beat.periods()["journal.sink.files"] > 0


# --- sending again --------------------------------------------------------------------------------
@pytest.mark.both
def test_period_is_sent_again(
    lake: Remembering, frozen_clock: FrozenClock, capsys: pytest.CaptureFixture[str]
) -> None:
    [before, inside, after] = commit(
        made(frozen_clock.instant - timedelta(days=2)),
        made(frozen_clock.instant - timedelta(days=1)),
        made(frozen_clock.instant),
    )
    start, end = "2026-03-01T00:00", "2026-03-02T00:00"
    call_command("resend_journal", "lake", "--from", start, "--to", end)

    assert lake.ids == [inside]
    assert capsys.readouterr().out.endswith("Sent 1 entry to lake.\n")
    assert before < inside < after


@pytest.mark.both
def test_wrong_arguments_say_what_to_write(lake: Remembering, subtests: pytest.Subtests) -> None:
    for arguments, match in [
        (["pond", "--from", "2026-03-01"], "no sink pond; it has: lake"),
        (["lake", "--from", "2026-03-02", "--to", "2026-03-01"], "--to must be later"),
        (["lake", "--from", "yesterday"], "not a time"),
    ]:
        with subtests.test(match=match), pytest.raises(CommandError, match=match):
            call_command("resend_journal", *arguments)


@pytest.mark.both
def test_sink_that_is_away_ends_the_command(lake: Remembering, frozen_clock: FrozenClock) -> None:
    written(frozen_clock)
    lake.raises = [Unavailable("nobody there")]
    with pytest.raises(CommandError, match=r"after 0: nobody there\. Mend that and run"):
        call_command("resend_journal", "lake", "--from", "2026-03-01")


# --- pages ----------------------------------------------------------------------------------------
def test_pages_show_how_far_it_is_and_pause_it(
    lake: Remembering, frozen_clock: FrozenClock, admin_client: Client
) -> None:
    [number] = written(frozen_clock)
    lake.raises = [Refused("", {number: "why not"})]
    turn()
    listed = admin_client.get("/admin/journal/sink/").content.decode()
    assert "lake" in listed
    assert "Active" in listed
    url = f"/admin/journal/sink/{state().pk}/"
    page = admin_client.get(url + "change/").content.decode()
    assert "file:///nowhere" in page
    rejects = admin_client.get("/admin/journal/sinkreject/?sink=lake").content.decode()
    assert "why not" in rejects
    [reject] = SinkReject.objects.all()
    assert (
        str(number)
        in admin_client.get(f"/admin/journal/sinkreject/{reject.pk}/change/").content.decode()
    )

    answer = admin_client.post(
        "/admin/journal/sink/", {"action": "pause", "_selected_action": [state().pk]}, follow=True
    )
    assert answer.status_code == 200
    assert "Nothing more is sent" in answer.content.decode()


def test_kafka_without_its_package_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    from apps.journal import checks

    address = SinkAddress("bus", "kafka://host:9092/journal")
    with override_settings(JOURNAL_SINKS=(address,)):
        assert checks.check_sinks() == []
        monkeypatch.setattr(checks, "find_spec", lambda name: None)
        [error] = checks.check_sinks()
    assert "bus" in str(error.msg)
    assert conf.JOURNAL_SINKS == ()
