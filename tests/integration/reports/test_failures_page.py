"""The failures page: who sees it, what it shows and where its links lead."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import Any

import pytest
from django.test import Client

from apps.common import clock
from apps.dispatch.models import OperatorScope
from apps.jobs.rules import transitions as t
from apps.jobs.services import error_states
from apps.reports.admin import failures
from tests.factories import once_task, user
from tests.frozen import FrozenClock
from tests.integration.jobs.admin.pages import shown, statuses
from tests.integration.reports.test_failures import NOW, REFUSED, failure, roll_up, write
from tests.jobs import end, job_type, jobs, take
from tests.pages import form_of, inline_code_of, text_of

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("now")]

PAGE = "/admin/failures/"


@pytest.fixture
def refused(now: FrozenClock) -> list[int]:
    """Three mails that a database refused, and one bill without a shop."""
    job_type("mail", max_attempts=1)
    job_type("bill", max_attempts=1)
    mails = jobs(3)
    for number in range(3):
        end(take(1)[0], "failed", error=REFUSED.format(number, number), retry="never")
    now.advance(seconds=1)
    jobs(1, "bill")
    end(take(1, types=("bill",))[0], "failed", error="ValueError: no such shop", retry="never")
    now.advance(minutes=3)
    roll_up()
    return mails


def groups(page: Any) -> list[str]:
    """The groups of the page, each as its HTML."""
    html = page.content.decode().replace("&amp;", "&")
    return re.findall(r'<li class="failure panel">.*?</li>', html, flags=re.DOTALL)


def rows(page: Any) -> list[tuple[str, int]]:
    """The types or tasks of the groups, and how often each came."""
    pattern = r'<p class="failure-type"><a [^>]*>([^<]*)</a>.*?<strong>([\d,]+)</strong>'
    found = [re.findall(pattern, group) for group in groups(page)]
    return [(name, int(total.replace(",", ""))) for [(name, total)] in found]


def links(page: Any, words: str) -> list[str]:
    """Where the links with these words lead."""
    found = re.findall(r'<a [^>]*href="([^"]+)"[^>]*>([^<]*)<', page.content.decode())
    return [url.replace("&amp;", "&") for url, text in found if text.strip() == words]


def test_groups_come_with_counts_samples_and_ways_on(role_client: Any, refused: list[int]) -> None:
    client = role_client("operator")
    page = client.get(PAGE)
    assert rows(page) == [("mail", 3), ("bill", 1)]
    text = text_of(page)
    assert "4 failures of 2 kinds" in text
    assert "ConnectionRefusedError: 10.0.0.2:5432" in text
    assert "3 final" in text
    assert inline_code_of(page) == inline_code_of(client.get("/admin/jobs/job/"))
    [found, _bills] = links(page, "Jobs")[-2:]
    assert shown(client.get(found)) == refused[::-1]
    assert f'<a href="/admin/jobs/job/{refused[2]}/change/"' in groups(page)[0]


def test_group_is_retried_from_the_page_and_the_way_leads_back(
    role_client: Any, refused: list[int]
) -> None:
    client = role_client("operator")
    page = client.get(PAGE, {"period": "1h"})
    confirm = client.get(links(page, "Retry…")[0])
    assert "This concerns 3 jobs" in text_of(confirm)
    sent = {**form_of(confirm, "ids"), "reason": "The database is back"}
    answer = client.post(confirm.context["url"], sent)
    assert statuses(refused) == [t.READY] * 3
    assert answer["Location"] == f"{PAGE}?period=1h&sort=count"


def test_only_what_can_be_done_is_offered(
    role_client: Any, refused: list[int], now: FrozenClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = role_client("operator")
    offers = [len(links(client.get(PAGE), words)) for words in ("Retry…", "Cancel…")]
    assert offers == [2, 0]
    job_type("often", max_attempts=2)
    jobs(1, "often")
    end(take(1, types=("often",))[0], "failed", error="OSError: disk full")
    now.advance(minutes=2)
    roll_up()
    [group] = groups(client.get(PAGE, {"type": "often"}))
    assert "Cancel…" in group
    assert "Retry…" not in group
    # Of too many jobs nobody knows.
    monkeypatch.setattr(error_states, "MAX_LOOKED_AT", 1)
    [group] = groups(client.get(PAGE, {"type": "often"}))
    assert "Retry…" in group


def test_errors_are_found_by_a_part_of_their_text(
    admin_client: Client, refused: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert rows(admin_client.get(PAGE, {"text": "NO SUCH"})) == [("bill", 1)]
    page = admin_client.get(PAGE, {"text": "refused"})
    assert rows(page) == [("mail", 3)]
    assert "3 failures of one kind" in text_of(page)
    assert links(page, "Show all") == ["?period=24h&sort=count"]
    assert "No error of this period has this text." in text_of(
        admin_client.get(PAGE, {"text": "%"})
    )
    monkeypatch.setattr("apps.reports.services.failures.MAX_SEARCHED", 1)
    page = admin_client.get(PAGE, {"text": "refused"})
    assert rows(page) == [("mail", 3)]
    assert "most frequent errors were searched" in text_of(page)


def test_viewer_is_offered_no_action(role_client: Any, refused: list[int]) -> None:
    page = role_client("viewer").get(PAGE)
    assert rows(page) == [("mail", 3), ("bill", 1)]
    assert links(page, "Retry…") == links(page, "Cancel…") == []


def test_dispatches_are_shown_without_actions_and_to_nobody_with_limits(
    admin_client: Client, role_client: Any, role_user: Any
) -> None:
    made = failure(
        NOW - timedelta(minutes=3),
        "no card",
        "once:7",
        source="dispatch",
        kind=("failed", "open", "failed"),
    )
    write(made)
    roll_up()
    page = admin_client.get(PAGE)
    assert rows(page) == [("once:7", 1)]
    [group] = groups(page)
    assert re.findall(r'plain-button" href="([^"]*)"', group) == [
        "/admin/dispatch/dispatch/?source=once&task=7&state=failed"
    ]
    assert f'<a href="/admin/dispatch/dispatch/{made.subject_id}/change/"' in group
    limited = role_user("viewer")
    OperatorScope.objects.create(operator=limited, executor=user("uid_ann"))
    assert rows(role_client("viewer").get(PAGE)) == []


def test_tasks_go_by_their_titles(admin_client: Client) -> None:
    task = once_task(user("uid_ann"), title="Count shelf 7")
    label = f"once:{task.pk}"
    write(
        failure(
            NOW - timedelta(minutes=3),
            "no card",
            label,
            source="dispatch",
            kind=("failed", "open", "failed"),
        )
    )
    roll_up()

    page = admin_client.get(PAGE)

    assert rows(page) == [("Count shelf 7", 1)]
    [group] = groups(page)
    assert f"type=once%3A{task.pk}" in group


def test_type_period_and_order_narrow_and_sort(
    admin_client: Client, refused: list[int], now: FrozenClock
) -> None:
    assert rows(admin_client.get(PAGE, {"type": "bill"})) == [("bill", 1)]
    assert rows(admin_client.get(PAGE, {"type": "nobody"})) == []
    assert rows(admin_client.get(PAGE, {"sort": "last"})) == [("bill", 1), ("mail", 3)]
    now.advance(hours=3)
    roll_up()
    assert rows(admin_client.get(PAGE, {"period": "1h"})) == []
    assert "Nothing failed" in text_of(admin_client.get(PAGE, {"period": "1h"}))
    assert rows(admin_client.get(PAGE, {"period": "7d"})) == [("mail", 3), ("bill", 1)]


def test_period_of_ones_own_is_kept_by_all_links(admin_client: Client, refused: list[int]) -> None:
    own = {"from": "2026-03-30T12:30", "to": "2026-03-30T12:40Z"}
    page = admin_client.get(PAGE, own)
    assert rows(page) == [("mail", 3), ("bill", 1)]
    kept = "from=2026-03-30T12%3A30Z&to=2026-03-30T12%3A40Z"
    assert links(page, "mail")[-1] == f"?{kept}&sort=count&type=mail"
    # The form keeps it, too, as long as nobody types another.
    sent = form_of(page, "type")
    answer = admin_client.get(PAGE, {**sent, "type": "bill"})
    assert answer["Location"] == f"{PAGE}?{kept}&type=bill&sort=count"
    answer = admin_client.get(PAGE, {**sent, "to": "2026-03-30T12:50"})
    assert answer["Location"] == f"{PAGE}?{kept.replace('40Z', '50Z')}&sort=count"
    before = {"from": "2026-03-29T12:30", "to": "2026-03-30T12:20"}
    assert rows(admin_client.get(PAGE, before)) == []


def test_new_errors_are_marked(admin_client: Client, now: FrozenClock) -> None:
    write(failure(NOW - timedelta(hours=30)), failure(NOW - timedelta(minutes=9)))
    write(failure(NOW - timedelta(minutes=5), "never before"))
    roll_up()
    found = groups(admin_client.get(PAGE))
    marked = {"never before" in group: ">new</span>" in group for group in found}
    assert len(found) == 2
    assert marked == {False: False, True: True}


def test_more_groups_than_fit_are_counted(
    admin_client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(failures, "MAX_SHOWN", 2)
    write(*(failure(NOW - timedelta(minutes=5), f"error {'x' * n}") for n in range(1, 6)))
    roll_up()
    page = admin_client.get(PAGE)
    assert len(rows(page)) == 2
    assert "and 3 more" in text_of(page)


def test_impossible_query_is_named_and_the_usual_is_shown(
    admin_client: Client, refused: list[int], subtests: pytest.Subtests
) -> None:
    for query in [
        {"period": "9y"},
        {"sort": "size"},
        {"type": "no name"},
        {"type": "x" * 500},
        {"type": "\0"},
        {"period": "\0<script>"},
        {"from": "yesterday"},
        {"from": "2026-03-30T12:30", "to": "2026-03-30T12:00"},
        {"from": "2020-03-30T12:30"},
    ]:
        with subtests.test(query=query):
            page = admin_client.get(PAGE, query)
            assert page.status_code == 200
            assert len(page.context["choice"].problems) == 1
            assert rows(page) == [("mail", 3), ("bill", 1)]


def test_page_takes_as_many_queries_for_fifty_groups_as_for_two(
    admin_client: Client, django_assert_max_num_queries: Any
) -> None:
    write(*(failure(NOW - timedelta(minutes=5), f"error {'x' * n}") for n in range(1, 50)))
    roll_up()
    assert clock.now() == NOW
    with django_assert_max_num_queries(22):
        assert len(rows(admin_client.get(PAGE, {"period": "90d"}))) == 49
