"""The journal in the admin: S0.26, I55: read-only, newest first, as far as one may see it."""

from __future__ import annotations

from typing import Any

import pytest
from django.db import connection, transaction
from django.test import Client

from apps.common import clock
from apps.dispatch.models import OnceTask, OperatorScope
from apps.dispatch.services import executors
from apps.journal import services as journal
from apps.journal.admin import JournalEntryAdmin
from apps.journal.models import JournalEntry
from tests import callback, factories
from tests.frozen import FrozenClock
from tests.jobs import HERE, THERE, end, job_type, jobs, take
from tests.pages import text_of
from tests.statements import analyze, index_reads, other_reads

LIST = "/admin/journal/journalentry/"


def events(client: Client, **query: str) -> list[str]:
    return [entry.event for entry in client.get(LIST, query).context["cl"].result_list]


def test_entries_are_listed_newest_first_without_a_count(
    admin_client: Client, django_assert_max_num_queries: Any
) -> None:
    group = factories.group()
    for n in range(51):
        executors.update_executor(executor=group, changes={"title": f"{n}"}, actor="admin:olga")
    with django_assert_max_num_queries(6) as queries:
        page = admin_client.get(LIST)
    rows = page.context["cl"].result_list
    assert [row.pk for row in rows] == sorted((row.pk for row in rows), reverse=True)
    assert len(rows) == 50
    assert not [query for query in queries.captured_queries if "COUNT(" in query["sql"]]
    assert not [
        query
        for query in queries.captured_queries
        if connection.ops.quote_name("data") in query["sql"]
    ]
    assert len(events(admin_client, before=str(rows[-1].pk))) == 2


def test_filters_and_search_compare_whole_values(
    admin_client: Client, frozen_clock: FrozenClock, subtests: pytest.Subtests
) -> None:
    group = factories.group(members=["uid_a"])
    frozen_clock.advance(days=1)
    factories.once_task(group)
    callback.take_next(factories.member("uid_a"))
    for query, found in [
        ({"source": "dispatch"}, ["handed_out"]),
        ({"event": "task_created"}, ["task_created"]),
        ({"executor": "uid_a"}, ["handed_out", "executor_created"]),
        ({"q": "uid_a"}, ["handed_out", "executor_created"]),
        ({"q": "uid"}, []),
        ({"q": "two words"}, []),
        ({"from_day": "2026-03-03"}, ["handed_out", "task_created"]),
        ({"to_day": "2026-03-02"}, ["members_changed", "executor_created", "executor_created"]),
    ]:
        with subtests.test(query=query):
            assert events(admin_client, **query) == found


@pytest.fixture
def by_many(frozen_clock: FrozenClock) -> None:
    """What two people, a key and a sweep have done."""
    actors = ("admin:ann", "key:tills", "", "admin:bob", "sweep:jobs.rescue", "admin:ann")
    entries = [
        journal.Entry(at=clock.now(), source="plan", subject_id=n, event=f"e{n}", actor=actor)
        for n, actor in enumerate(actors)
    ]
    with transaction.atomic():
        journal.write(entries)


def test_entries_of_one_person_or_key(
    admin_client: Client, by_many: None, subtests: pytest.Subtests
) -> None:
    """S0.26."""
    for query, found in [
        ({"by": "admin:ann"}, ["e5", "e0"]),
        ({"by": "ann"}, ["e5", "e0"]),
        ({"by": "key:tills"}, ["e1"]),
        ({"by": "ANN"}, []),
        ({"by": "sweep:jobs.rescue"}, []),
        ({"by": "ann", "from_day": "2100-01-01"}, []),
        ({"by": "ann", "source": "job"}, []),
    ]:
        with subtests.test(query=query):
            assert events(admin_client, **query) == found


def test_pages_of_one_person_go_through_what_that_one_has_done(
    admin_client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However much others have done meanwhile, and in steps where it is much."""
    monkeypatch.setattr(JournalEntryAdmin, "max_examined", 3)
    monkeypatch.setattr(JournalEntryAdmin, "max_indexed", 2)
    now = clock.now()
    with transaction.atomic():
        for n in range(4):
            mine = {"at": now, "source": "plan", "subject_id": n, "actor": "admin:ann"}
            journal.write([journal.Entry(**mine, event="task_changed" if n else "task_created")])
            other = journal.Entry(at=now, source="job", subject_id=n, event="held")
            journal.write([other] * 5)
    page = admin_client.get(LIST, {"by": "ann", "event": "task_created"})
    assert [*page.context["cl"].result_list] == []
    page = admin_client.get(LIST + page.context["cl"].older_url)
    assert [entry.event for entry in page.context["cl"].result_list] == ["task_created"]


@pytest.mark.mariadb
@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("query", [{}, {"event": "task_changed"}, {"event": "task_created"}])
def test_list_of_one_person_reads_their_entries_only(
    admin_client: Client, monkeypatch: pytest.MonkeyPatch, query: dict[str, str]
) -> None:
    monkeypatch.setattr(JournalEntryAdmin, "max_examined", 300)
    now = clock.now()
    with transaction.atomic():
        for actor in ("admin:ann", "", "admin:bob", ""):
            facts = {"at": now, "source": "plan", "subject_id": 1, "actor": actor}
            journal.write([journal.Entry(**facts, event="task_changed") for _n in range(2000)])
    analyze(JournalEntry)
    admin_client.get(LIST)
    before = index_reads() + other_reads()
    admin_client.get(LIST, {"by": "ann", **query})
    # The few that an index might have found, the stretch that is looked at, and what it is of.
    assert index_reads() + other_reads() - before <= 1_001 + 4 * 300 + 100


@pytest.fixture
def attempts(frozen_clock: FrozenClock) -> None:
    """Two jobs of one type and one of another, ended within three minutes on two hosts."""
    job_type("mail")
    job_type("bill")
    for type_name, holder in (("mail", HERE), ("mail", THERE), ("bill", HERE)):
        jobs(1, type_name)
        held = take(1, types=(type_name,), by=holder)[0]
        frozen_clock.advance(minutes=1)
        end(held)


def test_reports_lead_to_the_entries_behind_a_figure(
    admin_client: Client, attempts: None, subtests: pytest.Subtests
) -> None:
    for query, count in [
        ({"type_or_task": "mail"}, 2),
        ({"type_or_task": "mai"}, 0),
        ({"host": "host-a"}, 2),
        ({"worker": "host-b:2"}, 1),
        ({"run_from": "60000"}, 3),
        ({"run_from": "60001"}, 0),
        ({"wait_from": "1"}, 3),
        ({"since": "2026-03-02T09:02:00Z"}, 2),
        ({"since": "2026-03-02T10:02:00+01:00", "until": "2026-03-02T09:03:00Z"}, 1),
    ]:
        with subtests.test(query=query):
            assert events(admin_client, source="job", **query) == ["succeeded"] * count


def test_filter_that_makes_no_sense_is_reported_and_finds_nothing(
    admin_client: Client, attempts: None, subtests: pytest.Subtests
) -> None:
    for query, expected in [
        ({"run_from": "long"}, "long is not a number"),
        ({"since": "2026-03-02T09:02"}, "2026-03-02T09:02 is not a time"),
        ({"type_or_task": "a b"}, "a b is not a name"),
    ]:
        with subtests.test(query=query):
            page = admin_client.get(LIST, query)
            assert list(page.context["cl"].result_list) == []
            assert expected in text_of(page)


def test_data_is_absent_for_roles_that_may_not_see_it(
    role_client: Any, subtests: pytest.Subtests
) -> None:
    factories.once_task(factories.group(), params={"shop": "Main Street 5", "token": "hunter2"})
    entry = JournalEntry.objects.get(event="task_created")
    for role, sees in [("viewer", False), ("blind", False), ("operator", True)]:
        with subtests.test(role=role):
            page = role_client(role).get(f"{LIST}{entry.pk}/change/")
            assert page.status_code == 200
            assert ("Main Street 5" in text_of(page)) is sees
            assert "hunter2" not in page.content.decode()


def test_list_of_an_operator_with_limits_searches_some_rows_of_all(
    role_client: Any, role_user: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However rare their entries are, a page costs no more than any other."""
    monkeypatch.setattr(JournalEntryAdmin, "max_examined", 2)
    mine = factories.group("gid_mine")
    for n in range(3):
        factories.group(f"gid_other_{n}")
    OperatorScope.objects.create(operator=role_user("operator"), executor=mine)
    operator = role_client("operator")

    page = operator.get(LIST)
    older = page.context["cl"].older
    assert "These were found among 2 rows" in text_of(page)
    assert list(page.context["cl"].result_list) == []
    rows = operator.get(LIST, {"before": str(older)}).context["cl"].result_list
    assert [row.executor for row in rows] == ["gid_mine"]


@pytest.mark.both
def test_subject_leads_to_what_the_entry_is_about(admin_client: Client) -> None:
    task = factories.once_task(factories.user("uid_a"))
    rotation = factories.rotation(factories.group("gid_b"))
    taken: Any = callback.take_next(factories.member("uid_a"))
    job_type()
    (number,) = jobs()
    end(take()[0])

    page = admin_client.get(LIST).content.decode()

    for name, key in (
        ("dispatch/oncetask", task.pk),
        ("dispatch/rotatetask", rotation.pk),
        ("dispatch/dispatch", taken.pk),
        ("jobs/job", number),
        ("dispatch/executor", task.executor_id),
        ("dispatch/executor", rotation.executor_id),
    ):
        address = f"/admin/{name}/{key}/change/"
        assert f'href="{address}"><bdi>' in page
        assert admin_client.get(address).status_code == 200
    # Entries about what has no page of its own are there without a link.
    assert page.count('/change/"><bdi>') == 6


def test_list_says_the_title_of_a_task_to_who_may_see_all_tasks(
    admin_client: Client, role_client: Any, role_user: Any
) -> None:
    mine = factories.group("gid_mine")
    task = factories.once_task(mine, title="Count the fridges")
    assert f"Count the fridges once:{task.pk}" in text_of(admin_client.get(LIST))
    OperatorScope.objects.create(operator=role_user("operator"), executor=mine)
    assert "Count the fridges" in text_of(role_client("operator").get(LIST))
    # It may have been addressed to others since.
    OnceTask.objects.update(executor=factories.group("gid_other"))
    seen = text_of(role_client("operator").get(LIST))
    assert f"Once task {task.pk}" in seen
    assert "Count the fridges" not in seen
