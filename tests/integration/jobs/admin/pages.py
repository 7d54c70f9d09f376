"""Addresses of the pages of jobs, and what tests do on them."""

from __future__ import annotations

from typing import Any

from django.test import Client
from django.urls import reverse

from apps.access.models import ApiClient
from apps.jobs.models import JobType, Worker
from tests import factories
from tests.jobs import row

LIST = "/admin/jobs/job/"
TYPES = "/admin/jobs/jobtype/"
WORKERS = "/admin/jobs/worker/"


def page_of(client: Client, number: int) -> Any:
    return client.get(reverse("admin:jobs_job_change", args=[number]))


def now_url(job_type: JobType) -> str:
    """The page of a type that says how it goes now."""
    return reverse("job_type_now", args=[job_type.pk])


def outside(key: ApiClient, name: str = "pi-1", **columns: Any) -> Worker:
    """A worker over HTTP."""
    columns = {"kind": "http", "client": key.client_id, "lanes": [], "host": "pi", **columns}
    return factories.worker(name, **columns)


def edit_url(number: int) -> str:
    return reverse("admin:jobs_job_edit", args=[number])


def act(client: Client, name: str, *numbers: int, **data: str) -> Any:
    ids = ",".join(str(number) for number in numbers)
    return client.post(f"{LIST}act/{name}/", {"ids": ids, "reason": "Shop closed", **data})


def shown(page: Any) -> list[int]:
    """The numbers on a list page, as they stand there."""
    return [job.pk for job in page.context["cl"].result_list]


def statuses(numbers: list[int]) -> list[str]:
    return [row(number).status for number in numbers]


def buttons(page: Any) -> set[str]:
    """The words of the buttons of a row's page."""
    return {str(button.text) for button in page.context["object_buttons"]}
