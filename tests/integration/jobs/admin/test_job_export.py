"""Long lists as CSV: what the list shows with its filters, all pages of it."""

from __future__ import annotations

import contextlib
from types import ModuleType
from typing import Any

import pytest
from django.contrib.admin import site
from django.test import Client
from django.urls import NoReverseMatch, reverse

from apps.common import clock
from apps.common.admin import csv_text, export
from tests import callback, factories
from tests.history import archived
from tests.jobs import job_type, jobs
from tests.pages import csv_of, text_of

pytestmark = pytest.mark.django_db

JOBS = "/admin/jobs/job/"
ARCHIVE = "/admin/jobs/archivedjob/"


def exported(client: Client, url: str) -> list[dict[str, str]]:
    page: Any = client.get(url)
    assert page["Content-Type"] == "text/csv; charset=utf-8"
    return csv_of(page)


@pytest.fixture(autouse=True)
def mail(frozen_clock: Any) -> None:
    job_type("mail")


def test_all_pages_of_the_filtered_list(admin_client: Client, monkeypatch: Any) -> None:
    """Newest first, as the list; times and names as in the API."""
    monkeypatch.setattr(export, "_PAGE", 2)
    ready = jobs(5, priority=3)
    factories.job(key="other", into={"status": "failed", "memo": "no address\nat all"})

    rows = exported(admin_client, f"{JOBS}export/?status=ready")

    assert [row["id"] for row in rows] == [str(number) for number in reversed(ready)]
    assert {row["priority"] for row in rows} == {"3"}
    assert rows[0]["created_at"] == clock.now().isoformat().replace("+00:00", "Z")
    [failed] = exported(admin_client, f"{JOBS}export/?status=failed")
    assert (failed["key"], failed["error"]) == ("other", "no address\nat all")


def test_a_rare_row_is_found_on_a_late_page(admin_client: Client, monkeypatch: Any) -> None:
    monkeypatch.setattr("apps.jobs.admin.jobs.JobAdmin.max_examined", 2)
    monkeypatch.setattr(export, "_PAGE", 2)
    rare = factories.job(user_id="uid_ann")
    jobs(9)
    url = f"{JOBS}export/?user=uid_ann"
    assert [row["id"] for row in exported(admin_client, url)] == [str(rare.pk)]


def test_no_cell_is_a_formula(admin_client: Client) -> None:
    factories.job(into={"status": "failed", "memo": "=1+1"})
    [row] = exported(admin_client, f"{JOBS}export/")
    assert row["error"] == "'=1+1"


@pytest.mark.parametrize(
    ("module", "name", "limit"), [(export, "MAX_EXPORTED", 2), (csv_text, "MAX_SECONDS", -1.0)]
)
def test_what_is_too_much_is_refused_and_the_filters_stay(
    module: ModuleType, name: str, limit: float, admin_client: Client, monkeypatch: Any
) -> None:
    monkeypatch.setattr(module, name, limit)
    jobs(3)
    answer: Any = admin_client.get(f"{JOBS}export/?status=ready")
    assert answer["Location"] == f"{JOBS}?status=ready"
    assert "narrow the list first" in text_of(admin_client.get(answer["Location"]))


def test_archive_dispatches_and_journal_are_exported_too(admin_client: Client) -> None:
    [old] = archived(key="order-1")
    [row] = exported(admin_client, f"{ARCHIVE}export/?type=mail")
    assert (row["id"], row["key"], bool(row["archived_at"])) == (str(old), "order-1", True)
    user = factories.user("uid_ann")
    factories.once_task(user, "Check the shelf")
    taken: Any = callback.take_next(user)
    [line] = exported(admin_client, "/admin/dispatch/dispatch/export/")
    assert (line["id"], line["executor"], line["state"]) == (str(taken.pk), "uid_ann", "open")
    [entry] = exported(admin_client, f"/admin/journal/journalentry/export/?q={taken.pk}")
    assert (entry["event"], entry["executor"]) == ("handed_out", "uid_ann")


def test_file_is_named_after_its_list(admin_client: Client) -> None:
    """Also in another language, because programs read them."""
    names = {}
    for model in site._registry:
        with contextlib.suppress(NoReverseMatch):
            url = reverse(f"admin:{model._meta.app_label}_{model._meta.model_name}_export")
            page = admin_client.get(url, headers={"Accept-Language": "zh-hans"})
            names[model._meta.model_name] = page["Content-Disposition"].split('"')[1]
    assert names == {
        "archiveddispatch": "older-dispatches.csv",
        "archivedjob": "older-jobs.csv",
        "dispatch": "dispatches.csv",
        "executor": "people-and-groups.csv",
        "flowrun": "flow-runs.csv",
        "job": "jobs.csv",
        "journalentry": "journal-entries.csv",
        "oncetask": "once-tasks.csv",
        "rotatetask": "repeating-tasks.csv",
    }
