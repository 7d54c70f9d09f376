"""The log on the page of a job, live and archived, and the page of all its attempts."""

from __future__ import annotations

from typing import Any

import pytest
from django.test import Client

from apps.common.masking import MASK
from apps.jobs.rules.job_log import LogLines, line
from apps.jobs.services import control, job_log
from apps.jobs.services.job_log import AttemptLines
from tests.frozen import FrozenClock
from tests.history import move
from tests.integration.jobs.admin.pages import LIST, page_of
from tests.jobs import job_type, jobs, row, take
from tests.pages import text_of
from tests.statements import sent_by

pytestmark = pytest.mark.django_db
ARCHIVE = "/admin/jobs/archivedjob/"
NOON = 1_772_452_800


@pytest.fixture
def number(frozen_clock: FrozenClock) -> int:
    """A job that runs for the second time; either attempt has logged."""
    job_type()
    [number] = jobs()
    logs = (
        (1, ["INFO shop: first", "ERROR shop: <b>lost</b>\nTraceback"], 3),
        (2, [f"page {n} password=s3cr3t" for n in range(120)], 0),
    )
    for hold, texts, left_out in logs:
        said = LogLines([line(NOON + n, text) for n, text in enumerate(texts)], 0, left_out)
        job_log.write([AttemptLines(number, hold, hold, said)])
    take()
    return number


def test_the_page_shows_the_latest_lines_and_leads_to_all(
    admin_client: Client, number: int
) -> None:
    for page in (page_of(admin_client, number), admin_client.get(f"{LIST}{number}/live/")):
        text = text_of(page)
        assert "20 lines before these" in text
        assert f"12:01:59.000 page 119 password={MASK}" in text
        assert "page 20 " in text
        assert "page 19 " not in text
        assert "first" not in text
        assert "s3cr3t" not in page.content.decode()

    last = text_of(admin_client.get(f"{LIST}{number}/log/"))
    assert "page 0 " in last
    first = admin_client.get(f"{LIST}{number}/log/", {"hold": "1"})
    assert "<b>lost" not in first.content.decode()
    assert "log-error" in first.content.decode()
    assert "… 3 lines left out …" in text_of(first)
    found = text_of(admin_client.get(f"{LIST}{number}/log/", {"q": "LOST"}))
    assert "<b>lost</b>" in found
    assert "page" not in found.split("Try 1", 2)[-1]
    for hidden in ("s3cr3t", "nowhere"):
        assert "No line has this text." in text_of(
            admin_client.get(f"{LIST}{number}/log/", {"q": hidden})
        )
    for hold in ("x", str(2**63 - 1)):
        assert admin_client.get(f"{LIST}{number}/log/", {"hold": hold}).status_code == 200


def test_only_those_who_see_results_see_logs(role_client: Any, number: int) -> None:
    viewer, operator = role_client("viewer"), role_client("operator")
    assert "lines before these" in text_of(page_of(operator, number))
    assert "lines before these" not in text_of(page_of(viewer, number))
    assert operator.get(f"{LIST}{number}/log/").status_code == 200
    assert viewer.get(f"{LIST}{number}/log/").status_code == 403


@pytest.mark.both
def test_the_log_stays_with_a_job_in_the_archive(
    admin_client: Client, number: int, frozen_clock: FrozenClock
) -> None:
    control.cancel(job=row(number), actor="admin:1", reason="no more", force=True)
    frozen_clock.advance(days=8)
    assert move() == 1
    page = admin_client.get(f"{ARCHIVE}{number}/change/")
    assert "20 lines before these" in text_of(page)
    assert "page 0 " in text_of(admin_client.get(f"{ARCHIVE}{number}/log/"))
    assert admin_client.get(f"{LIST}{number}/log/").url == f"{ARCHIVE}{number}/change/"


def test_statements_do_not_grow_with_attempts(admin_client: Client, number: int) -> None:
    def statements() -> tuple[int, int]:
        pages = (f"{LIST}{number}/change/", f"{LIST}{number}/log/?q=page")
        first, second = (len(sent_by(lambda url=url: admin_client.get(url))) for url in pages)
        return first, second

    statements()
    few = statements()
    for hold in range(3, 60):
        said = LogLines([line(NOON, "page")], 0)
        job_log.write([AttemptLines(number, hold, hold, said)])
    assert statements() == few
