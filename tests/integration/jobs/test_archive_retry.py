"""Jobs come back from the archive when somebody retries them. S4.16; I61."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from apps.common import clock
from apps.common.errors import Conflict
from apps.jobs.errors import Archived
from apps.jobs.models import JobType
from apps.jobs.rules.order import order_key
from apps.jobs.services import control, types
from apps.jobs.services.submit import submit
from apps.journal.models import JournalEntry
from tests.history import archived, where
from tests.integration.jobs.acted_on import WHO, archived_row, columns_of
from tests.jobs import events_of, job_type, row, take

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("mail"), pytest.mark.both]

LIVE, ARCHIVE = ["jobs_job"], ["jobs_archived"]


class TestRetry:
    def test_brings_it_back_ready_to_run(self) -> None:
        """S4.16: with all attempts, from its checkpoint, in a new place of the order."""
        [number] = archived(
            status="failed", attempts=3, holds=5, checkpoint={"second": 4}, sequence=2, priority=7
        )
        before = columns_of(archived_row(number))
        job = control.retry(job=archived_row(number), **WHO)
        assert where(number) == LIVE
        after = row(number)
        changed = ("status", "attempts", "run_at", "expected_at", "finished_at", "version")
        assert columns_of(after, *changed) == {
            name: value for name, value in before.items() if name not in changed
        }
        assert (after.status, after.attempts, after.finished_at) == ("ready", 0, None)
        # It came back, and took an arrow.
        assert after.version == before["version"] + 2 == job.version
        assert after.order_key == order_key(clock.now(), priority=7, attempts=0, weight_ms=60_000)
        assert (after.lease_token, after.lease_until, after.cancel_requested) == ("", None, False)
        [held] = take(types=("mail",))
        assert (held.id, held.attempt) == (number, 1)

    def test_open_twin_keeps_it_in_the_archive(self) -> None:
        """I35: a refused retry leaves no trace."""
        [number] = archived(key="order-1", is_unique=True)
        twin = submit("mail", key="order-1", unique=True)
        moved = JournalEntry.objects.count()
        with pytest.raises(Conflict, match=str(twin.id)):
            control.retry(job=archived_row(number), **WHO)
        assert where(number) == ARCHIVE
        assert JournalEntry.objects.count() == moved

    def test_needs_a_type(self) -> None:
        job_type("gone")
        [number] = archived(type="gone")
        types.delete_type(job_type=JobType.objects.get(name="gone"), actor="admin:olga")
        with pytest.raises(Conflict, match="there is no job type gone"):
            control.retry(job=archived_row(number), **WHO)
        assert where(number) == ARCHIVE

    def test_every_other_verb_is_refused_and_says_why(self) -> None:
        """S4.16: 409 `archived`."""
        [number] = archived(status="failed")
        job = archived_row(number)
        edit: Callable[..., Any] = lambda **who: control.edit(  # noqa: E731
            version=job.version, changes={"priority": 5}, **who
        )
        for act in (control.cancel, control.run_now, control.mark_done, edit):
            with pytest.raises(Archived, match="in the archive") as refused:
                act(job=job, **WHO)
            assert (refused.value.status, refused.value.code) == (409, "archived")
        assert where(number) == ARCHIVE
        assert events_of(number) == []
