"""The scene of `demo --trouble`: Home says its five sentences in order, each with its button, and
the inbox has the same five rows first."""

from __future__ import annotations

import re
from datetime import timedelta
from html import unescape
from io import StringIO

import pytest
from django.core.management import call_command
from django.test import Client
from django.urls import reverse

from apps.alerts.services.judging import evaluate
from apps.common.leases import sweep_lease
from apps.dispatch.models import OnceTask
from apps.jobs.models import JobType
from apps.jobs.sweeps import rescue
from tests import factories, trouble
from tests.frozen import FrozenClock
from tests.integration.reports.home import figures, home
from tests.integration.reports.test_problems_page import fail, problem_lines, tabs
from tests.jobs import job_type
from tests.pages import text_of

pytestmark = pytest.mark.django_db


def test_home_says_five_sentences_in_order_and_each_button_leads_there(
    admin_client: Client, frozen_clock: FrozenClock, subtests: pytest.Subtests
) -> None:
    now = frozen_clock.instant + trouble.LENGTH
    fail("Rare", timedelta(hours=1), type_=trouble.PRICES)
    trouble.play_up_to(frozen_clock, now)
    factories.worker("host-a:1", types=[*trouble.TYPES], lanes=["fast", "slow"])
    with sweep_lease("jobs.scan", at_most=timedelta(seconds=30)):
        pass

    html = home(admin_client)

    paused = JobType.objects.get(name=trouble.INVOICES)
    task = OnceTask.objects.get(title=trouble.TASK)
    ends, since = now + timedelta(minutes=96), now - timedelta(minutes=104)
    wanted = [
        (
            "64 of 128 price-recognise jobs failed in 15 min; the limit is 20 %",
            f"“{trouble.ERROR}” · began {now - timedelta(minutes=15, seconds=50):%H:%M} "
            "· told nobody",
            ("See the 64", "/admin/jobs/job/?type=price-recognise&status=failed"),
        ),
        (
            f"“{trouble.TASK}” will not fill: 11 of 18, ends {ends:%H:%M}",
            "At this pace 14 by then · 5 of 8 in Photo check have taken part",
            ("Ask 3 more", f"/admin/dispatch/oncetask/{task.pk}/change/#task-who"),
        ),
        (
            f"Worker {trouble.SILENT} has been silent for 3 min; it holds 4 jobs",
            "Others take them when its leases end.",
            ("See the 4", f"/admin/jobs/job/?worker={trouble.SILENT}&status=running"),
        ),
        (
            f"invoice-send is paused by Hugo Silva since {since:%H:%M}; 212 jobs wait",
            "“New tax rates from 20:30 on” · no end was set",
            ("Resume", f"/admin/jobs/jobtype/act/resume/?ids={paused.pk}"),
        ),
        (
            "Alerts reach nobody: no channel is set",
            "Alerts that fired today and were seen on this page only: 5",
            ("Add channel", "/admin/alerts/channel/add/"),
        ),
    ]
    rows = re.findall(r'<li class="trouble .*?</li>', html, flags=re.DOTALL)
    found = []
    for row in rows:
        said, why = (
            unescape(re.findall(rf'class="{name}">.*?<bdi>(.*?)</bdi>', row)[0])
            for name in ("say", "why")
        )
        [(url, label)] = re.findall(r'<a class="plain-button[^"]*" href="([^"]*)">(.*?)</a>', row)
        found.append((said, why, (label, unescape(url))))
    assert found == wanted
    assert "5 things need you" in html
    for _said, _why, (label, url) in found:
        with subtests.test(button=label):
            page = admin_client.get(url)
            assert page.status_code == 200
            if label == "See the 64":
                assert "64" in text_of(page)
    told = {key: (each.value, each.note) for key, each in figures(html).items()}
    assert told == {
        "waiting": ("1,204", "oldest 4 min 10 s"),
        "succeeded": ("93.1 %", "yesterday 99.4 %"),
        "wait": ("41 s", "yesterday 3.1 s"),
        "run": ("1.6 s", "yesterday 1.5 s"),
        "open": ("14", "2 overdue"),
        "silent": ("1 of 20", "holds work, 38 min"),
    }
    assert f"1 snoozed until {now + timedelta(minutes=66):%H:%M}" in html
    text = text_of(admin_client.get("/admin/"))
    quotas = ("Photo check 8 11 of 18", "Stock count 8 20 of 25", "Price check 7 25 of 25 full")
    for said in (*quotas, "Night shift 4 0 of 6", "photo-thumbnail 8 2 s 100", "report-mail 0"):
        assert said in text, (said, text[text.index("Job types") :])

    # The alert joins the error that makes most of its failures.
    found = problem_lines(admin_client)
    assert tabs(admin_client)["Need you now"] == 5
    assert found[0][::3] == (trouble.ERROR, "Retry 64")
    assert [row[0] for row in found[5:]] == ["Rare"]
    text = text_of(admin_client.get(reverse("problems")))
    # In the row, and read aloud before its box.
    assert text.count(trouble.ERROR) == 2
    assert "price-recognise jobs failed in 15 min" in text


def test_five_things_need_somebody_also_where_sweeps_run(
    admin_client: Client, frozen_clock: FrozenClock
) -> None:
    """Then the jobs of the silent worker are waiting again at once, but it is missing still."""
    trouble.play_up_to(frozen_clock, frozen_clock.instant + trouble.LENGTH)
    factories.worker("host-a:1", types=[*trouble.TYPES], lanes=["fast", "slow"])
    for _ in range(2):
        rescue()
    evaluate()

    html = home(admin_client)

    assert "5 things need you" in html
    assert f"The worker {trouble.SILENT} has been silent for 3 min" in html


@pytest.mark.django_db(transaction=True)
def test_command_says_how_many_things_home_shows(admin_client: Client) -> None:
    job_type("own", paused=True)
    said = StringIO()
    call_command("demo", trouble=True, stdout=said)
    [count] = re.findall(r"on the home page now: (\d+)\.", said.getvalue())
    assert f"{count} things need you" in home(admin_client)
    assert int(count) >= 6
