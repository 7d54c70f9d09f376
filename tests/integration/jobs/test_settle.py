"""S1.9-S1.14, I28-I31: reports of workers, repeated, late, and from the wrong one; what went wrong
in the same way has the same key."""

from __future__ import annotations

from datetime import timedelta
from itertools import product
from typing import Any

import pytest

from apps.common import clock
from apps.common.errors import PlatformError
from apps.jobs.models import Job, TypeState
from apps.jobs.rules import transitions as t
from apps.jobs.rules.outcome import Outcome
from apps.jobs.rules.report import MOST_IN_A_ROW
from apps.jobs.services import control, discard, type_snapshots
from apps.jobs.services.leases import checkpoint, progress
from apps.jobs.services.settle import settle
from apps.journal.models import JournalEntry
from apps.journal.services import error_key
from tests import factories
from tests.frozen import FrozenClock
from tests.jobs import (
    answer_of,
    end,
    events_of,
    held_jobs,
    job_type,
    jobs,
    last_entry,
    rescue,
    row,
    take,
)
from tests.statements import is_read, sent_by

pytestmark = [pytest.mark.django_db, pytest.mark.both]


def test_success_keeps_the_result_and_records_wait_and_run(frozen_clock: FrozenClock) -> None:
    job_type()
    [number] = jobs(1, run_at=frozen_clock.instant - timedelta(seconds=2))
    [held] = take()
    frozen_clock.advance(seconds=3)

    answer = end(held, result={"sent": 1}, memo="sent")

    job = row(number)
    assert answer == "succeeded"
    kept = job.status, job.result, job.memo, job.last_end
    assert kept == ("succeeded", {"sent": 1}, "sent", "succeeded")
    assert (job.lease_until, job.hard_end_at, job.finished_at) == (None, None, frozen_clock.instant)
    entry = last_entry(number)
    assert (entry.event, entry.attempt, entry.wait_ms, entry.run_ms) == ("succeeded", 1, 2000, 3000)
    assert (entry.worker, entry.host) == ("host-a:1", "host-a")


def test_failed_job_lets_fresh_ones_pass(frozen_clock: FrozenClock) -> None:
    """S4.3, S4.5."""
    job_type(retry_delay_seconds=0)
    [failing] = jobs(1)
    end(take()[0], "failed")
    fresh = jobs(3)

    assert [held.id for held in take()] == [*fresh, failing]


def test_reports_are_compared_by_what_they_say(subtests: pytest.Subtests) -> None:
    pairs: list[tuple[dict[str, Any], dict[str, Any], str]] = [
        ({"result": True}, {"result": 1}, "conflict"),
        ({"result": 1}, {"result": 1.0}, "conflict"),
        ({"memo": "a"}, {}, "conflict"),
        ({"result": {"a": 1, "b": 2}}, {"result": {"b": 2, "a": 1}}, "succeeded"),
    ]
    for (first, second, answer), together in product(pairs, (False, True)):
        with subtests.test(first=first, second=second, together=together):
            [held] = held_jobs()
            reports = [held.ended("succeeded", **report) for report in (first, second)]

            if together:
                answers = settle(outcomes=reports)
            else:
                answers = [answer for each in reports for answer in settle(outcomes=[each])]

            assert [answer_of(answer) for answer in answers] == ["succeeded", answer]


def test_repeat_is_answered_by_the_row_when_its_entry_has_been_purged() -> None:
    [held] = held_jobs()
    end(held)
    JournalEntry.objects.all().delete()

    assert [end(held), end(held, "failed")] == ["succeeded", "conflict"]


def test_stale_report_is_kept_once_for_each_lease(frozen_clock: FrozenClock) -> None:
    """I30: repeating it, or making up tokens, does not fill the timeline."""
    job_type(max_attempts=9)
    [number] = jobs(1)
    lost = []
    for _ in range(2):
        lost += take()
        frozen_clock.advance(seconds=31)
        rescue(frozen_clock)

    for _ in range(9):
        assert [end(held) for held in lost] == ["lease_lost"] * 2
    made_up = [Outcome(id=number, token=f"made-up-{n}", end="succeeded") for n in range(9)]
    for each in made_up:
        settle(outcomes=[each])

    assert events_of(number) == ["lost", "lost", "stale", "stale"]


def test_report_that_cannot_be_is_refused_and_the_job_goes_on_running() -> None:
    """Of an unknown job, without a token, with an unfit result, of an end that there is not."""
    [held] = held_jobs()
    unknown = [(1, "x"), (held.id, "")]
    outcomes = [Outcome(id=number, token=token, end="succeeded") for number, token in unknown]

    answers = settle(outcomes=outcomes)

    assert [answer_of(each) for each in answers] == ["not_found", "lease_lost"]
    assert [end(held, result={"x": "\x00"}), end(held, "nonsense")] == ["invalid"] * 2
    assert row(held.id).status == "running"


def test_batch_is_settled_each_on_its_own_merits() -> None:
    """Also results that Python takes for equal."""
    *good, foreign, bad = held_jobs(5)
    results = (True, 1, 1.0)
    outcomes = [
        *(held.ended("succeeded", result=n) for held, n in zip(good, results, strict=True)),
        Outcome(id=foreign.id, token="other", end="succeeded"),
        bad.ended("failed", error="boom"),
    ]

    answers = [answer_of(each) for each in settle(outcomes=outcomes)]

    assert answers == ["succeeded"] * 3 + ["lease_lost", "scheduled"]
    kept = [row(each.id) for each in (*good, foreign, bad)]
    assert [job.status for job in kept] == ["succeeded"] * 3 + ["running", "scheduled"]
    assert [repr(job.result) for job in kept[:3]] == ["True", "1", "1.0"]
    assert [job.version for job in kept] == [3, 3, 3, 2, 3]


def test_what_the_jobs_of_a_batch_do_not_share_is_kept_for_each() -> None:
    """Most of a batch ends alike, which is made and written once."""
    job_type()
    numbers = jobs(4)
    [released] = take(1)
    end(released, "released")
    said = {numbers[1]: {"result": {"n": 1}}, numbers[2]: {"memo": "late"}}
    settle(outcomes=[held.ended("succeeded", **said.get(held.id, {})) for held in take()])

    kept = [row(number) for number in numbers]
    assert [job.result for job in kept] == [None, {"n": 1}, None, None]
    assert [job.memo for job in kept] == ["", "", "late", ""]
    holds = [1 + (number == released.id) for number in numbers]
    assert [last_entry(number).data["hold"] for number in numbers] == holds


def test_job_of_a_type_made_a_moment_ago_is_settled(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a process knows of types may be a second old."""
    [held] = held_jobs()
    monkeypatch.setattr(type_snapshots, "_cached", type_snapshots._Cached(0.0, [], {}))

    assert end(held) == "succeeded"


def test_unknown_type_is_no_reason_to_read_all_types() -> None:
    """Anybody can name one, as often as they like; one made elsewhere just now is known at once."""
    job_type()
    type_snapshots.type_snapshots()

    sent = sent_by(lambda: type_snapshots.type_snapshots(["gone", "no name", "mail"]))

    assert len(sent) == 1
    assert "params_schema" not in sent[0]
    factories.job_type("gone")
    assert {*type_snapshots.type_snapshots(["gone", "mail"])} == {"gone", "mail"}


def test_report_of_a_holder_costs_no_question_for_its_type() -> None:
    """S4.8: although another type has a breaker, whose state would be locked first."""
    job_type("film", breaker_enabled=True)
    [held] = held_jobs()

    sent = sent_by(lambda: end(held))

    assert len([sql for sql in sent if is_read(Job, sql)]) == 1
    assert not [sql for sql in sent if is_read(TypeState, sql)]


def test_stages_that_end_together_each_keep_their_own_context() -> None:
    """Whichever of them brings one."""
    job_type(stages=["fetch", "parse"])
    numbers = jobs(3, stage="fetch")
    outcomes = [held.ended("stage_done", stage="parse") for held in take()]
    outcomes[1].context = {"page": 1}

    assert settle(outcomes=outcomes) == ["ready"] * 3

    kept = [row(number).context for number in numbers]
    assert kept == [{"position": 0}, {"page": 1}, {"position": 2}]


def test_what_is_put_off_again_and_again_without_a_change_counts_at_last(
    monkeypatch: pytest.MonkeyPatch, subtests: pytest.Subtests
) -> None:
    """100 times by its handler, and at the 21st by a worker that stops; a change, a checkpoint or
    another end in between begins anew, and what is put off to a time is put off for ever."""
    assert MOST_IN_A_ROW == {"yielded": 100, "interrupted": 21}
    for how in MOST_IN_A_ROW:
        monkeypatch.setitem(MOST_IN_A_ROW, how, 3)
    steps: list[tuple[str, list[Any], int]] = [
        ("yielded", [{}, {}, {}], 1),
        ("interrupted", [{}, {"delay": timedelta(0)}, {}], 1),
        ("yielded", [{}, {}, {"context": {"n": 1}}, {}, {}], 0),
        ("yielded", [{}, {}, {"checkpoint": 1}, {}, {}], 0),
        ("yielded", [{}, {}, "checkpoint", {}], 0),
        ("interrupted", [{}, {}, "checkpoint", {}], 0),
        ("interrupted", [{}, {}, {"checkpoint": 1}, {"checkpoint": 2}, {}], 0),
        ("yielded", [{}, {}, "released", {}, {}], 0),
        ("yielded", [{"delay": timedelta(seconds=-1)}, {}, {"checkpoint": None}], 1),
        ("yielded", [{"delay": timedelta(milliseconds=1)}] * 4, 0),
    ]
    for how, ends, attempts in steps:
        with subtests.test(how=how, ends=ends):
            job_type()
            [number] = jobs()
            for at, said in enumerate(ends):
                Job.objects.filter(pk=number).update(status="ready")
                [held] = take(1)
                if said == "released":
                    end(held, "released")
                elif said == "checkpoint":
                    checkpoint(job=held.id, token=held.token, data=at, sequence=at)
                    end(held, how)
                else:
                    end(held, how, **said)
            assert row(number).attempts == attempts
            assert (row(number).last_end == "failed") == bool(attempts)
            if attempts:
                assert "3 times in a row" in row(number).memo
            Job.objects.all().delete()


def test_progress_is_a_percentage() -> None:
    [held] = held_jobs()
    for percent, kept in ((100 * 2 / 3, 66), (100, 100)):
        progress(job=held.id, token=held.token, percent=percent)
        assert row(held.id).progress == kept
    with pytest.raises(PlatformError, match="0 to 100"):
        progress(job=held.id, token=held.token, percent=101)


REFUSED = "ConnectionRefusedError: [Errno 111] 10.0.0.7:5432"


def failed(error: str = REFUSED, **report: Any) -> int:
    """A job of one attempt that failed so."""
    (number,) = jobs()
    end(take(1)[0], "failed", error=error, retry="never", **report)
    return number


def key_in_journal(number: int) -> str:
    return JournalEntry.objects.timeline("job", number).latest("id").error_key


def key_of(number: int) -> str:
    """That of the row, which is that of its latest entry."""
    key = row(number).error_key
    assert key == key_in_journal(number)
    return key


def test_errors_that_differ_in_numbers_and_quotes_only_share_a_key() -> None:
    """One without an error goes by its memo, or is one of those that say nothing."""
    job_type(max_attempts=1)
    other = "Traceback (most recent call last):\n  File 'x'\n" + REFUSED.replace("7", "12")
    assert key_of(failed()) == key_of(failed(other)) == error_key(REFUSED) != ""
    assert key_of(failed("ValueError: no such shop")) != error_key(REFUSED)
    by_memo, silent = failed("", memo="mailbox 7 is full"), failed("")
    assert key_of(by_memo) == error_key("mailbox 9 is full")
    assert key_of(silent) not in ("", key_of(by_memo))


def test_lost_attempts_and_too_long_ones_have_keys_of_their_own(frozen_clock: FrozenClock) -> None:
    job_type(max_attempts=1)
    job_type("slow", max_attempts=1, max_processing_seconds=1, lease_seconds=600)
    (lost,), (late,) = jobs(), jobs(type="slow")
    take(1)
    take(1, types=("slow",))
    frozen_clock.advance(seconds=40)
    assert rescue(frozen_clock) == 2
    assert "" != key_of(lost) != key_of(late) != ""
    # The reason says it already.
    entry = JournalEntry.objects.timeline("job", lost).latest("id")
    assert (entry.error, entry.reason) == ("", "its worker went offline")


def test_expiry_is_a_group_of_its_own(frozen_clock: FrozenClock) -> None:
    job_type(expires_after_seconds=60)
    first = jobs()
    frozen_clock.advance(minutes=5)
    second = jobs(run_at=clock.now() - timedelta(minutes=3))
    Job.objects.filter(pk__in=[*first, *second]).update(expected_at=row(first[0]).run_at)
    Job.objects.filter(pk__in=second).update(expected_at=row(second[0]).run_at)
    given = discard.discard(
        [*first, *second], types=type_snapshots.type_snapshots(), now=clock.now()
    )
    assert given == {*first, *second}
    assert key_of(first[0]) == key_of(second[0]) != ""


def test_key_stays_while_the_job_waits_and_runs_again_and_goes_with_success() -> None:
    job_type(retry_delay_seconds=1)
    (number,) = jobs()
    end(take(1)[0], "failed", error=REFUSED)
    waiting = row(number)
    assert (waiting.status, waiting.error_key) == (t.SCHEDULED, error_key(REFUSED))
    control.run_now(job=waiting, actor="admin:ann", reason="now")
    (held,) = take(1)
    assert row(number).error_key == error_key(REFUSED)
    end(held, "released")
    assert row(number).error_key == error_key(REFUSED)
    end(take(1)[0], "succeeded")
    assert (row(number).error_key, key_in_journal(number)) == ("", "")
