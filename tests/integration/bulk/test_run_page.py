"""The page of a bulk run shows how far it is, stops it, and leads back."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client

from apps.bulk.models import BulkRun
from apps.bulk.services.runs import is_stalled
from apps.common import clock
from apps.jobs.models import Job, JobScope
from apps.jobs.rules import transitions as t
from tests.frozen import FrozenClock
from tests.integration.bulk.conftest import carry_out, page_of, statuses
from tests.jobs import jobs
from tests.pages import text_of

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("mail")]
NEW = "/admin/bulk/new/jobs/{}/"
LIST = "/admin/jobs/job/"
Start = Callable[..., BulkRun]


def test_page_shows_counts_rows_and_the_way_back(page: Client, start: Start) -> None:
    done, left = jobs(3), jobs(1, status=t.SUCCEEDED, key="order-7")
    run = start("cancel", {"type": "mail"})
    begun = page.get(page_of(run))
    assert "data-live-url" in begun.content.decode()
    # Where no script runs.
    assert "Load again" in text_of(begun)
    carry_out(run)
    answer = page.get(page_of(run))
    text = text_of(answer)
    for part in ("Done", "Skipped 1", "wrong address", "Undo…", "Retry now…"):
        assert part in text
    for part in (str(left[0]), "mail · order-7", "succeeded"):
        assert part in text
    assert "data-final" in answer.content.decode()
    # What it did to which rows, as in the list and on the plan.
    assert f"Jobs · Cancel · {run.pk}" in text
    assert "Jobs · Cancel" in text_of(page.get("/admin/bulk/bulkrun/"))
    assert "Jobs · Cancel" in text_of(page.get(NEW.format("cancel"), {"type": "mail"}))
    # A key keeps its kind.
    assert "By operator" in text
    BulkRun.objects.update(actor="key:tills")
    assert "By key:tills" in text_of(page.get(page_of(run)))
    assert str(done[0]) in text_of(page.get(page_of(run), {"outcome": "done"}))
    back = next(b.url for b in answer.context["object_buttons"] if "Retry" in str(b.text))
    assert "3 rows match" in text_of(page.get(back))


def test_retry_may_keep_the_time_of_cancelled_jobs(start: Start, frozen_clock: FrozenClock) -> None:
    """What was due meanwhile is ready; a plain retry runs all of them now."""
    now = frozen_clock.instant
    later = jobs(1, status=t.SCHEDULED, run_at=now + timedelta(hours=2))
    jobs(1, run_at=now)
    for params, kept in (({"keep_time": True}, {now, now + timedelta(hours=2)}), ({}, {now})):
        carry_out(start("cancel", {"type": "mail"}))
        carry_out(start("retry", {"type": "mail"}, params=params))
        assert {job.run_at for job in Job.objects.filter(type="mail")} == kept
    assert statuses(later) == {t.READY}


def test_run_of_another_kind_or_of_others_is_no_way_back(
    page: Client, start: Start, role_user: Callable[[str], User]
) -> None:
    jobs(2)
    other = start("cancel", {"type": "mail"}, actor="admin:olga")
    tasks = start("pause", {}, kind="once-tasks")
    JobScope.objects.create(operator=role_user("operator"), type="mail")
    for number in (other.pk, tasks.pk, 999):
        answer = page.get(NEW.format("retry"), {"run": str(number)}, follow=True)
        assert answer.redirect_chain[0][0] == LIST
        assert f"There is no bulk run {number} over such rows." in text_of(answer)


def test_time_left_follows_the_speed(page: Client, start: Start, frozen_clock: FrozenClock) -> None:
    jobs(300)
    run = start("cancel", {"type": "mail"}, rate=100)
    live = f"/admin/bulk/bulkrun/{run.pk}/live/"
    BulkRun.objects.filter(pk=run.pk).update(state="acting", collected=300, below=None)
    # Before the first round by its rate.
    assert "0 % 3 s left" in text_of(page.get(live))
    began = clock.now()
    BulkRun.objects.filter(pk=run.pk).update(done=100, paced_at=began, paced_from=50)
    frozen_clock.advance(seconds=10)
    assert "5 rows per second 40 s left" in text_of(page.get(live))


def test_live_part_comes_alone(page: Client, start: Start) -> None:
    jobs(3)
    run = start("cancel", {"type": "mail"})
    part = page.get(f"/admin/bulk/bulkrun/{run.pk}/live/").content.decode()
    assert part.lstrip().startswith('<div id="live"')
    assert "data-final" not in part


def test_stop_and_continue_are_on_the_page(page: Client, start: Start) -> None:
    jobs(3)
    run = start("cancel", {"type": "mail"})
    act = "/admin/bulk/bulkrun/act/{}/"
    page.post(act.format("stop_run"), {"ids": run.pk, "reason": "too many"})
    assert BulkRun.objects.get().state == BulkRun.State.STOPPED
    assert Job.objects.get(pk=run.job).status == t.CANCELLED
    page.post(act.format("continue_run"), {"ids": run.pk, "reason": "go on"})
    carry_out(run)
    assert BulkRun.objects.get().state == BulkRun.State.DONE


def test_run_whose_job_was_cancelled_can_be_continued(page: Client, start: Start) -> None:
    jobs(3)
    run = start("cancel", {"type": "mail"})
    Job.objects.filter(pk=run.job).update(status=t.CANCELLED)
    answer = page.get(page_of(run))
    assert "Stopped" in text_of(answer)
    assert "Continue" in [str(each.text) for each in answer.context["object_buttons"]]


def test_rows_of_a_run_that_failed_are_not_waiting(page: Client, start: Start) -> None:
    jobs(4)
    run = start("cancel", {"type": "mail"}, at_most=3)
    carry_out(run)
    text = text_of(page.get(page_of(run)))
    assert "Not changed 4" in text
    assert "Waiting" not in text


def test_run_that_ends_while_its_page_is_made_is_not_stopped(page: Client, start: Start) -> None:
    jobs(4)
    run = start("cancel", {"type": "mail"}, at_most=3)
    read = BulkRun.objects.get(pk=run.pk)
    carry_out(run)
    Job.objects.filter(pk=run.job).update(status=t.SUCCEEDED)
    assert not is_stalled(read)
    assert read.state == BulkRun.State.FAILED


def test_csv_has_a_line_for_each_row(page: Client, start: Start) -> None:
    [ready], [done] = jobs(1), jobs(1, status=t.SUCCEEDED)
    run = start("cancel", {"type": "mail"})
    carry_out(run)
    answer: Any = page.get(f"/admin/bulk/bulkrun/{run.pk}/csv/")
    lines = b"".join(answer.streaming_content).decode("utf-8-sig").splitlines()
    assert lines == ["number,outcome,why", f"{done},skipped,succeeded", f"{ready},done,"]


def test_limited_person_sees_only_own_runs(
    page: Client, start: Start, role_user: Callable[[str], User]
) -> None:
    mine = start("cancel", {"type": "web"})
    other = start("cancel", {"type": "mail"}, actor="admin:olga")
    assert page.get(page_of(other)).status_code == 200
    JobScope.objects.create(operator=role_user("operator"), type="web")
    assert page.get(page_of(mine)).status_code == 200
    assert page.get(page_of(other)).status_code == 404
    assert page.get(f"/admin/bulk/bulkrun/{other.pk}/csv/").status_code == 404


def test_reasons_are_told_in_the_language_of_the_page(page: Client, start: Start) -> None:
    jobs(1, status=t.SUCCEEDED)
    run = start("cancel", {"type": "mail"})
    carry_out(run)
    answer = page.get(page_of(run), headers={"Accept-Language": "zh-hans"})
    text = text_of(answer)
    assert "succeeded" not in text
    assert "成功" in text
