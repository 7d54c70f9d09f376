"""What went wrong in the same way has the same key: in the row of a job, and in its journal."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from apps.common import clock
from apps.jobs.models import Job
from apps.jobs.rules import transitions as t
from apps.jobs.services import control, discard, rescue
from apps.jobs.services.type_snapshots import type_snapshots
from apps.journal.models import JournalEntry
from apps.journal.services import error_key
from tests.frozen import FrozenClock
from tests.jobs import end, job_type, jobs, row, take

pytestmark = [pytest.mark.django_db, pytest.mark.both]

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
    assert rescue.rescue_due(until=clock.now() + timedelta(seconds=1)) == 2
    assert "" != key_of(lost) != key_of(late) != ""
    # The reason says it already.
    entry = JournalEntry.objects.timeline("job", lost).latest("id")
    assert (entry.error, entry.reason) == ("", "its worker was lost")


def test_expiry_is_a_group_of_its_own(frozen_clock: FrozenClock) -> None:
    job_type(expires_after_seconds=60)
    first = jobs()
    frozen_clock.advance(minutes=5)
    second = jobs(run_at=clock.now() - timedelta(minutes=3))
    Job.objects.filter(pk__in=[*first, *second]).update(expected_at=row(first[0]).run_at)
    Job.objects.filter(pk__in=second).update(expected_at=row(second[0]).run_at)
    given = discard.discard([*first, *second], types=type_snapshots(), now=clock.now())
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
