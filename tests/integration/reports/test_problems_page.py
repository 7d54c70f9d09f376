"""Problems: one row for each cause, what people say of it, and whose it is."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import timedelta
from functools import partial
from html import unescape
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client
from django.urls import reverse
from django.utils.html import strip_tags

from apps.alerts.models import Alert
from apps.common import clock
from apps.common.leases import sweep_lease
from apps.dispatch.models import OperatorScope
from apps.jobs.handlers import Retry
from apps.jobs.models import JobScope, JobType, Worker
from apps.jobs.services import types
from apps.journal.models import JournalEntry
from apps.journal.services import error_key
from apps.reports.models import Problem
from apps.reports.services import causes, problems
from tests import factories
from tests.alerts import rule
from tests.frozen import FrozenClock
from tests.integration.reports.day import roll_up
from tests.integration.reports.history import entry, utc, write
from tests.integration.reports.home import home
from tests.jobs import job_type, jobs
from tests.pages import text_of
from tests.statements import sent_by

pytestmark = [pytest.mark.django_db, pytest.mark.both]

NOW = utc("2026-03-30T12:34:56")
MINUTE, HOUR, DAY = timedelta(minutes=1), timedelta(hours=1), timedelta(days=1)
FAILED, AGAIN = ("failed", "running", "failed"), ("failed", "running", "scheduled")
ENDED = ("failed", "open", "failed")
DARK = "ValueError: photo {} too dark to read"
KEY = error_key(DARK.format(1))


@pytest.fixture(autouse=True)
def now(frozen_clock: FrozenClock) -> FrozenClock:
    frozen_clock.move_to(NOW)
    for name in ("mail", "sms"):
        job_type(name)
    factories.worker("w1", types=["mail", "sms"], lanes=["fast", "slow"])
    return frozen_clock


@pytest.fixture(autouse=True)
def sweeps(now: FrozenClock) -> None:
    with sweep_lease("jobs.scan", at_most=timedelta(seconds=30)):
        pass


def fail(error: str, *ages: timedelta, type_: str = "mail", **fields: Any) -> None:
    """Work that failed so long ago, by default jobs for good."""
    fields = {"kind": FAILED, "error": error, "error_key": error_key(error), **fields}
    write(*(entry(clock.now() - age, type_or_task=type_, **fields) for age in ages))


def problem_lines(client: Client, **query: str) -> list[tuple[str, list[str], str, str]]:
    """The sentence of each row, its counts, its state and its button, of what is added up now."""
    roll_up()
    html = client.get(reverse("problems"), query).content.decode()
    found = []
    for row in re.findall(r'<tr class="problem problem-.*?</tr>', html, flags=re.DOTALL):
        [text] = re.findall(r"<bdi>(.*?)</bdi></a>", row)
        counts = re.findall(r"problem-count-\d[^>]*>(.*?)</td>", row)
        pill = re.findall(r'class="problem-pill [^"]*">(.*?)<', row)
        button = re.findall(r'class="plain-button[^"]*" href="[^"]*">(.*?)<', row)
        found.append((unescape(text), counts, "".join(pill), unescape("".join(button))))
    return found


def tabs(client: Client) -> dict[str, int]:
    html = client.get(reverse("problems")).content.decode()
    found = re.findall(r'<a class="tab"[^>]*>([\w ]+?) <span class="tab-count">(\d+)', html)
    return {title: int(count) for title, count in found}


def say(client: Client, act: str, *names: str, note: str = "") -> int:
    given = {"act": act, "row": names, "note": note, "back": reverse("problems")}
    return client.post(reverse("problems_said"), given).status_code


def test_one_error_of_two_types_is_one_row_with_what_failed_for_good(admin_client: Client) -> None:
    fail(DARK.format(7), 10 * MINUTE, 3 * HOUR, 3 * DAY, 8 * DAY)
    fail(DARK.format(12), 20 * MINUTE, 5 * HOUR, type_="sms")
    # Neither is a cause: another attempt follows, and nobody has said why.
    fail("TimeoutError: after 30 s", 5 * MINUTE, kind=AGAIN)
    fail(str(Retry()), 5 * MINUTE)
    jobs(3, "mail", status="failed", finished_at=clock.now(), error_key=KEY)
    jobs(1, "sms", status="failed", finished_at=clock.now(), error_key=KEY)

    assert problem_lines(admin_client) == [
        ("ValueError: photo 7 too dark to read", ["2", "4", "5"], "new", "Retry 4")
    ]
    page = admin_client.get(reverse("problems"), {"row": f"error {KEY}"})
    assert "5 failed for good within a week" in text_of(page)
    [address] = {*re.findall(r'href="(/admin/bulk/new/[^"]*)"', page.content.decode())}
    plan = text_of(admin_client.get(unescape(address)))
    assert "4 rows match" in plan
    assert "4 will change" in plan


def test_inbox_renews_itself_by_a_part_and_says_how_old_it_is(admin_client: Client) -> None:
    fail(DARK.format(7), 10 * MINUTE)
    roll_up()
    page = admin_client.get(reverse("problems"))
    [part] = re.findall(r'id="problems" data-live-url="([^"]*)"', page.content.decode())
    renewed = admin_client.get(reverse("problems") + unescape(part))
    html = renewed.content.decode()
    assert 'id="problems"' in html and 'id="problems-now"' in html and "<nav id" not in html
    [row] = re.findall(r'<tr class="problem .*?</tr>', html, flags=re.DOTALL)
    assert row in page.content.decode()
    # Without scripts all pages that renew themselves say it.
    for url in (reverse("problems"), "/admin/", "/admin/jobs/job/"):
        assert " · load again" in text_of(admin_client.get(url)), url


def test_solved_cause_comes_back_when_it_is_seen_again(
    admin_client: Client, frozen_clock: FrozenClock, role_client: Callable[[str], Client]
) -> None:
    fail(DARK, HOUR)
    name = f"error {error_key(DARK)}"
    assert [row[2] for row in problem_lines(admin_client)] == ["new"]
    assert say(role_client("viewer"), "solve", name) == 403
    assert not Problem.objects.exists()
    assert say(admin_client, "solve", name, note="Provider was down") == 302
    assert problem_lines(admin_client) == []
    assert tabs(admin_client)["Solved"] == 1
    solved = text_of(admin_client.get(reverse("problems"), {"state": "solved"}))
    assert "12:34 solved by admin: “Provider was down”" in solved
    # What failed before, and what was tried again, is no other failure.
    frozen_clock.advance(minutes=10)
    fail(DARK, 5 * MINUTE, kind=AGAIN)
    roll_up()
    assert problems.reopen(clock.now()) == 0
    frozen_clock.advance(minutes=10)
    fail(DARK, 3 * MINUTE)
    roll_up()
    assert problems.reopen(clock.now()) == 1
    assert [row[2] for row in problem_lines(admin_client) if row[0] == DARK] == ["back again"]
    assert "solved by admin" in text_of(admin_client.get(reverse("problems")))
    say(admin_client, "seen", name)
    assert [row[2] for row in problem_lines(admin_client) if row[0] == DARK] == ["seen"]
    told = JournalEntry.objects.filter(event__startswith="problem_").values_list("event", "reason")
    assert [*told.order_by("id")] == [
        ("problem_solved", "Provider was down"),
        ("problem_back", ""),
        ("problem_seen", ""),
    ]


def test_jobs_of_the_platform_itself_are_not_retried_all_at_once(admin_client: Client) -> None:
    for type_, error in (("mail", "Mail is down"), ("deliver", "Hook is down")):
        job_type(type_)
        fail(error, 5 * MINUTE, type_=type_)
        jobs(1, type_, status="failed", memo=error, error_key=error_key(error))

    buttons = {line[0]: line[3] for line in problem_lines(admin_client)}

    assert buttons["Mail is down"] == "Retry 1"
    assert buttons["Hook is down"] == "Jobs with this error"


def test_activity_names_the_problem_that_somebody_remarked_on(admin_client: Client) -> None:
    fail(DARK, HOUR)
    roll_up()
    types.pause_type(job_type=JobType.objects.get(name="sms"), reason="Rates", actor="admin:ann")
    say(admin_client, "solve", f"error {error_key(DARK)}", note="Provider was down")
    say(admin_client, "hour", "paused job_type:sms")
    say(admin_client, "seen", "paused job_type:sms")

    def told(**headers: str) -> list[str]:
        [(_day, lines)] = admin_client.get(reverse("activity"), headers=headers).context["days"]
        return [unescape(strip_tags(line["sentence"])) for line in lines]

    paused = "sms is paused by ann since 12:34; no job waits"
    assert told() == [
        f"marked as seen: {paused}",
        f"snoozed: {paused}",
        f"marked as solved: {DARK}",
    ]
    chinese = told(**{"accept-language": "zh-hans"})
    assert chinese[2] == f"标为已解决：{DARK}"
    assert "ann" in chinese[0] and "is paused" not in chinese[0]


def test_rows_are_seen_and_snoozed_together_as_on_home(
    admin_client: Client, frozen_clock: FrozenClock
) -> None:
    fail(DARK, HOUR)
    roll_up()
    at = clock.now()
    columns = {"subject": "job_type:mail", "open_key": "x", "since": at, "fired_at": at}
    alert = Alert.objects.create(rule=rule("Mail fails"), value=0.4, **columns)
    types.pause_type(job_type=JobType.objects.get(name="sms"), reason="Rates", actor="admin:ann")
    both = ("paused job_type:sms", f"alerts alert:{alert.pk}")

    say(admin_client, "seen", *both)
    assert tabs(admin_client) == {
        **{"Open": 3, "Need you now": 3, "New": 1, "Seen": 2, "Snoozed": 0, "Solved": 0}
    }
    say(admin_client, "hour", *both)
    # The error of the alert goes with it; nobody is told of any.
    assert [row[0] for row in problem_lines(admin_client)] == [
        "Alerts reach nobody: no channel is set"
    ]
    assert tabs(admin_client)["Snoozed"] == 2
    alert.refresh_from_db()
    assert alert.snoozed_until == at + HOUR
    assert "1 thing needs you" in home(admin_client)
    # A trouble is over when it is not found any more.
    say(admin_client, "solve", "paused job_type:sms")
    assert not Problem.objects.filter(state="solved").exists()


def test_limited_people_see_what_is_theirs(
    role_user: Callable[[str], User], role_client: Callable[[str], Client]
) -> None:
    fail(DARK, HOUR, 2 * HOUR)
    fail(DARK, HOUR, type_="sms")
    fail("Foreign", HOUR, type_="sms")
    groups = [factories.group(f"gid_{name}", members=[f"uid_{name}"]) for name in "ab"]
    for each in groups:
        task = factories.once_task(each, f"Task of {each.name}")
        fail("Closed", HOUR, type_=f"once:{task.pk}", source="dispatch", kind=ENDED)
    operator, client = role_user("operator"), role_client("operator")

    of_types = JobScope.objects.create(operator=operator, type="mail")
    assert [row[:2] for row in problem_lines(client)] == [(DARK, ["1", "2", "2"])]
    assert "sms" not in text_of(client.get(reverse("problems")))
    assert say(client, "seen", f"error {error_key('Foreign')}") == 403
    assert not Problem.objects.exists()

    OperatorScope.objects.create(operator=operator, executor=groups[0])
    of_types.delete()
    [closed] = [row for row in problem_lines(client) if row[0] == "Closed"]
    assert closed == ("Closed", ["1", "1", "1"], "new", "Look")
    text = text_of(client.get(reverse("problems"), {"row": f"error {error_key('Closed')}"}))
    assert "Task of gid_a" in text
    assert "Task of gid_b" not in text


def test_more_causes_need_no_more_statements(
    admin_client: Client, frozen_clock: FrozenClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    Worker.objects.all().delete()
    JobType.objects.all().delete()
    read = partial(admin_client.get, reverse("problems"))
    fail("ValueError: one", HOUR)
    roll_up()
    sent = len(sent_by(read))
    for letter in "abcdefgh":
        fail(f"ValueError: {letter * 3}", MINUTE / 2, type_=f"type-{letter}")
    frozen_clock.advance(minutes=2)
    with sweep_lease("jobs.scan", at_most=timedelta(seconds=30)):
        assert len(problem_lines(admin_client)) == 9
        assert len(sent_by(read)) <= sent
    monkeypatch.setattr(causes.found, "seconds", 600.0)
    read()
    assert sent - len(sent_by(read)) >= 4
