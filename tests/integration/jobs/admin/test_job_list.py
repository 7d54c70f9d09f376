"""The list of jobs: S1.21, S4.3 and reads that no number of rows makes longer."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import Any

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from apps.common.db import is_mysql
from apps.jobs.admin.jobs import JobAdmin
from apps.jobs.models import Job
from apps.jobs.rules import transitions as t
from apps.jobs.services import control
from apps.jobs.services.counts import MAX_COUNTED
from tests.frozen import FrozenClock
from tests.integration.jobs.admin.pages import LIST, shown
from tests.jobs import end, job_type, jobs, take
from tests.pages import tables_of, text_of
from tests.statements import index_reads, indexes_on, is_read, sent_by

pytestmark = [pytest.mark.django_db, pytest.mark.both]


def test_list_shows_the_newest_first_with_what_an_operator_asks_for(
    admin_client: Client, frozen_clock: FrozenClock
) -> None:
    job_type("mail", max_attempts=4)
    older = jobs(key="order-1")
    newer = jobs(
        key="order-2",
        user_id="uid_ann",
        priority=5,
        attempts=2,
        progress=40,
        run_at=frozen_clock() + timedelta(minutes=3, seconds=20),
    )
    page = admin_client.get(LIST)
    text = text_of(page)

    assert shown(page) == [*newer, *older]
    for expected in ("order-2", "uid_ann", "40 %", "2 / 4", "in 3 min 20 s", "Scheduled", "Ready"):
        assert expected in text, expected
    # Five minutes by priority, less the thirty seconds that two failures cost.
    assert "4 min 30 s ahead" in text


def test_took_is_the_time_of_one_try_as_on_the_page_of_the_job(
    admin_client: Client, frozen_clock: FrozenClock
) -> None:
    """The present one, or that which ended the job; waits between tries do not count."""
    job_type("mail", max_attempts=3, retry_delay_seconds=60)
    number, other = jobs(2)

    def took(of: int) -> str:
        [[head, *rows]] = tables_of(admin_client.get(LIST))
        # A column that is empty in all rows is left out.
        place = next((at for at, cell in enumerate(head) if cell.text == "Took"), None)
        [row] = [row for row in rows if any(str(of) in cell.text for cell in row)]
        return "–" if place is None else row[place].text

    for held in take(2):
        frozen_clock.advance(seconds=3)
        end(held, "failed")
    assert took(number) == took(other) == "–"
    frozen_clock.advance(minutes=2)
    control.cancel(job=Job.objects.get(pk=other), actor="admin:olga", reason="Storm")
    [held] = take(1)
    frozen_clock.advance(seconds=5)

    assert (took(number), took(other)) == ("5 s", "–")
    assert "running for 5 s" in text_of(admin_client.get(f"{LIST}{number}/change/"))
    end(held, "succeeded")
    assert took(number) == "5 s"
    assert "took 5 s" in text_of(admin_client.get(f"{LIST}{number}/change/"))
    frozen_clock.advance(minutes=9)
    [failing] = jobs(1)
    end(take(1)[0], "failed", retry="never")
    frozen_clock.advance(minutes=9)
    control.mark_done(job=Job.objects.get(pk=failing), actor="admin:olga", reason="By hand")
    assert took(failing) == "–"


def test_pages_go_on_below_the_last_row_without_count_or_offset(
    admin_client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """S4.3: rows that come meanwhile shift no page; none is left out or shown twice."""
    monkeypatch.setattr(JobAdmin, "list_per_page", 2)
    job_type()
    numbers = jobs(5)
    with CaptureQueriesContext(connection) as queries:
        first = admin_client.get(LIST)
    jobs(3)
    assert first.context["cl"].older_url == f"?before={numbers[3]}"
    second = admin_client.get(LIST + first.context["cl"].older_url)
    third = admin_client.get(LIST + second.context["cl"].older_url)

    assert shown(first) + shown(second) + shown(third) == numbers[::-1]
    assert third.context["cl"].older is None
    statements = [query["sql"] for query in queries.captured_queries if "jobs_job" in query["sql"]]
    assert not [sql for sql in statements if "COUNT(" in sql or "OFFSET" in sql]


# Which of the jobs of the next test are found: ready, later, running, done and of another type.
FOUND: tuple[tuple[dict[str, str], list[int]], ...] = (
    ({"type": "mail"}, [0, 1, 2, 3]),
    ({"type": "web"}, [4]),
    ({"type": "web", "status": "ready"}, [4]),
    ({"type": "mail", "status": "ready"}, [0]),
    ({"status": "ready"}, [0, 4]),
    ({"status": "scheduled"}, [1]),
    ({"status": "running"}, [2]),
    ({"status": "succeeded"}, [3]),
    ({"status": "cancelled"}, []),
    ({"lane": "slow"}, [4]),
    ({"key": "order-1"}, [1, 4]),
    ({"key": "order-1", "type": "mail"}, [1]),
    ({"user": "uid_ann"}, [0]),
    ({"host": "host-a"}, [2, 3]),
    ({"worker": "host-a:1"}, [2, 3]),
    ({"from_day": "2026-03-02", "to_day": "2026-03-02"}, [0, 1, 2, 3, 4]),
    ({"to_day": "2026-03-01"}, []),
    ({"from_day": "2026-03-03", "status": "succeeded"}, []),
    ({"q": "order-1"}, [1, 4]),
    ({"q": "uid_ann"}, [0]),
    ({"q": "Mailbox BUSY"}, [3]),
    ({"q": "busy"}, [3]),
    ({"q": "order"}, []),
    ({"q": "17"}, []),
    ({"q": "order-1", "type": "web"}, [4]),
)


def test_filters_and_search_find_the_rows(
    admin_client: Client, frozen_clock: FrozenClock, subtests: pytest.Subtests
) -> None:
    job_type("mail")
    job_type("web", lane="slow")
    (done,) = jobs()
    end(take(1)[0], "succeeded", memo="mailbox busy at first")
    (held,) = jobs()
    take(1)
    (ready,) = jobs(user_id="uid_ann")
    (later,) = jobs(key="order-1", run_at=frozen_clock() + timedelta(hours=1))
    (other,) = jobs(type="web", key="order-1")
    numbers = [ready, later, held, done, other]
    for query, found in FOUND:
        with subtests.test(query=query):
            page = admin_client.get(LIST, query)
            assert set(shown(page)) == {numbers[position] for position in found}


def test_each_page_searches_a_bounded_number_of_rows(
    admin_client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A page reads a limited number of rows, and says so."""
    monkeypatch.setattr(JobAdmin, "max_examined", 4)
    job_type()
    numbers = jobs(10)
    Job.objects.filter(pk=numbers[1]).update(host="host-z")
    page = admin_client.get(LIST, {"host": "host-z"})
    pages = 1
    while not shown(page):
        assert "These were found among 4 rows" in text_of(page)
        page = admin_client.get(LIST + page.context["cl"].older_url)
        pages += 1
    assert (shown(page), pages) == ([numbers[1]], 3)
    assert page.context["cl"].older is None
    assert "Look further back" not in text_of(page)


def test_days_bound_the_examined_rows(
    admin_client: Client, frozen_clock: FrozenClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(JobAdmin, "max_examined", 3)
    job_type()
    old = jobs(2, user_id="uid_ann")
    frozen_clock.advance(days=2)
    jobs(9)
    page = admin_client.get(LIST, {"user": "uid_ann", "to_day": "2026-03-03"})
    assert shown(page) == old[::-1]
    assert page.context["cl"].examined is None


def test_few_open_jobs_are_found_by_index_however_old_and_many_searched_like_others(
    admin_client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(JobAdmin, "max_examined", 2)
    job_type()
    (old,) = jobs(key="order-1")
    Job.objects.filter(pk__in=jobs(9)).update(status=t.SUCCEEDED)
    job_type("web")
    (other,) = jobs(1, "web")
    Job.objects.filter(pk__in=jobs(9)).update(status=t.SUCCEEDED)
    assert shown(admin_client.get(LIST, {"type": "web"})) == [other]
    Job.objects.filter(pk=other).update(status=t.RUNNING)
    for query in ({"status": "ready"}, {"status": "ready", "type": "mail"}, {"key": "order-1"}):
        assert shown(admin_client.get(LIST, query)) == [old], query
    monkeypatch.setattr(JobAdmin, "max_indexed", 4)
    numbers = jobs(4)
    page = admin_client.get(LIST, {"status": "ready"})
    assert shown(page) == numbers[:1:-1]
    assert page.context["cl"].older == numbers[2]


@pytest.mark.mariadb
def test_few_finished_jobs_are_found_by_index_on_mariadb(
    admin_client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(JobAdmin, "max_examined", 2)
    job_type()
    (old,) = jobs(status=t.FAILED)
    jobs(9)
    assert shown(admin_client.get(LIST, {"status": "failed"})) == [old]


@pytest.mark.sqlite
def test_examined_rows_are_read_by_their_number_whatever_else_has_an_index(
    admin_client: Client, api: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(JobAdmin, "max_examined", 8)
    monkeypatch.setattr(JobAdmin, "max_indexed", 3)
    monkeypatch.setattr("apps.jobs.api.jobs.MAX_EXAMINED", 8)
    job_type()
    numbers = jobs(20)
    oldest = {"type": "mail", "before": numbers[4]}
    lists = [lambda: admin_client.get(LIST, {"type": "mail"})]
    lists += [lambda: admin_client.get(LIST, oldest), lambda: api.get("/api/v1/jobs/", type="mail")]
    for answer in lists:
        sent = [sql for sql in sent_by(answer) if is_read(Job, sql) and "'mail'" in sql]
        pages = [sql for sql in sent if "ORDER BY 1 DESC" in sql or '"id" DESC' in sql]
        assert pages
        assert {index for sql in pages for index in indexes_on(Job, sql)} == {"PRIMARY"}


QUERIES: tuple[dict[str, str], ...] = (
    *({"type": "mail"}, {"type": "web"}, {"status": "failed"}, {"q": "busy"}, {"user": "uid_ann"}),
    *({"host": "h"}, {"where": "context.order.city:x"}, {}),
)


@pytest.mark.mariadb
def test_list_reads_as_many_rows_of_a_large_table_as_of_a_small_one(
    admin_client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(JobAdmin, "max_examined", 200)
    monkeypatch.setattr(JobAdmin, "max_indexed", 200)
    job_type()
    job_type("web")

    def rows_read(query: dict[str, str]) -> int:
        admin_client.get(LIST, query)
        before = index_reads()
        admin_client.get(LIST, query)
        return index_reads() - before

    # More than the tabs count.
    jobs(MAX_COUNTED + 200, "web")
    few = [rows_read(query) for query in QUERIES]
    jobs(6_000, "web")
    for query, before in zip(QUERIES, few, strict=True):
        assert rows_read(query) <= before + 100, query


def test_failed_job_shows_its_error_in_the_list(admin_client: Client) -> None:
    """Others do not, and what the platform says is in the language of the page."""
    job_type(max_attempts=1)
    jobs(3)
    end(take(1)[0], "failed", memo="Mailbox <busy>")
    end(take(1)[0], "succeeded", memo="still good")
    Job.objects.filter(status="ready").update(status="failed", memo="its worker went offline")
    shown_there = text_of(admin_client.get(LIST, headers={"Accept-Language": "zh-hans"}))

    assert "Mailbox <busy>" in shown_there
    assert "其工作进程离线" in shown_there
    assert "still good" not in shown_there


def test_running_ones_stand_first_and_results_in_words(
    role_client: Any, frozen_clock: FrozenClock
) -> None:
    job_type()
    old, *_others = jobs(3)
    take(1)
    jobs(1)
    frozen_clock.advance(seconds=139)
    done = take(1)[0]
    end(done, "succeeded", result={"rows": 300, "ok": True, "token": "hunter2"})
    operator = role_client("operator").get(LIST).content.decode()
    found = re.findall(r'<tr class="data-row" id="row-(\d+)"', operator)
    assert int(found[0]) == old
    assert len(found) == len({*found}) == 4
    assert "2 min 19 s" in operator
    words = "ok yes · rows 300" if is_mysql() else "rows 300 · ok yes"
    assert words in operator
    assert "hunter2" not in operator
    assert "rows 300" not in role_client("viewer").get(LIST).content.decode()
