"""What the overview costs: as much however much there is."""

from __future__ import annotations

from typing import Any

import pytest
from django.test import Client
from django.urls import reverse

from apps.access import services as access
from apps.common import clock
from apps.common.ttl_cache import TTLCache
from apps.dispatch.services import silent_people
from apps.jobs.models import Job, JobType
from apps.jobs.services import register
from apps.reports.admin.overview import page, tables
from apps.reports.admin.overview.page import known_of
from apps.reports.services import counts_by_minute, fact_sheet, lately
from apps.reports.watches import stored, troubles
from taskplatform import badges
from tests import factories, trouble
from tests.frozen import FrozenClock
from tests.integration.reports.home import closed_until
from tests.jobs import job_type, jobs
from tests.statements import OPEN_JOBS, analyze, indexes_on, is_read, is_sorted, sent_by

pytestmark = pytest.mark.django_db


def statements(client: Client, **query: Any) -> list[str]:
    return sent_by(lambda: client.get(reverse("overview"), query))


def test_as_many_statements_however_much_there_is(
    admin_client: Client, scene: FrozenClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    # As in production, where they are read anew once a minute and twice.
    hourly = (lately.hours, lately.yesterdays, tables.groups_kept)
    for kept in (*hourly, silent_people.cached, troubles.found):
        monkeypatch.setattr(kept, "seconds", 600.0)
    jobs(1)
    # Nobody serves it, so each refresh asks whether something of it waits.
    job_type("outside", handler="")
    refreshes = [{"known": known_of(until)} if until else {} for until in (None, closed_until())]
    first, *few = [statements(admin_client, **refresh) for refresh in [refreshes[1], *refreshes]]
    assert len(first) <= 41
    now = clock.now()
    JobType.objects.bulk_create(
        [JobType(name=f"type-{n}", created_at=now, updated_at=now) for n in range(60)]
    )
    jobs(300, "type-7")
    for n in range(20):
        register.register(name=f"w{n}", host=f"h{n}", capacity=4)
        factories.group(f"gid_{n}", members=[f"uid_{n}"])

    for refresh, before in zip(refreshes, few, strict=True):
        assert len(statements(admin_client, **refresh)) <= len(before) <= 17


@pytest.mark.usefixtures("with_badges")
def test_home_with_five_troubles_takes_few_statements(
    admin_client: Client, frozen_clock: FrozenClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All that can be wrong is read: first by a process that has just begun, then as usual."""
    trouble.play_up_to(frozen_clock, frozen_clock.instant + trouble.LENGTH)
    factories.worker("host-a:1", types=[*trouble.TYPES], lanes=["fast", "slow"])
    # The first steps are done.
    access.create_client(name="shop app", scopes=["pull"], actor="ann")
    hourly = (lately.hours, lately.yesterdays, tables.groups_kept, counts_by_minute.kept)
    often = (fact_sheet.sheets, troubles.found)
    slow = (stored.kept, page.steps_kept, silent_people.cached, badges.counted)
    every = (*often, *hourly, *slow)
    for kept in every:
        monkeypatch.setattr(kept, "seconds", 600.0)
    known = known_of(closed_until())

    def sent(*forgotten: TTLCache[Any], **query: str) -> int:
        for each in forgotten:
            each.forget()
        address = reverse("overview") if query else reverse("admin:index")
        return len(sent_by(lambda: admin_client.get(address, query)))

    assert [sent(*every), sent(*often)] == [37, 26]
    assert [sent(*often, known=known), sent(fact_sheet.sheets, known=known)] == [26, 9]


@pytest.mark.both
@pytest.mark.django_db(transaction=True)  # ANALYZE TABLE commits
def test_no_statement_reads_jobs_that_are_over(admin_client: Client, scene: FrozenClock) -> None:
    """History never slows what is asked every few seconds."""
    jobs(400, status="succeeded", finished_at=clock.now())
    jobs(5, status="failed", finished_at=clock.now())
    jobs(5)
    analyze(Job)
    sent = [statements(admin_client), statements(admin_client, known=known_of(closed_until()))]
    reads = [sql for some in sent for sql in some if is_read(Job, sql)]
    assert len(reads) >= 3
    for sql in reads:
        # Of ids only a range: those of one minute, say.
        assert indexes_on(Job, sql) <= OPEN_JOBS | {"job_failed", "PRIMARY"}, sql
        assert not is_sorted(Job, sql), sql
