"""Forms show the seconds of a time and keep them when they are saved, in both languages."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.conf import settings
from django.test import Client
from django.urls import reverse

from apps.dispatch.models import OnceTask, RotateTask
from apps.jobs.models import Job
from tests.factories import once_task, rotation, user
from tests.frozen import FrozenClock
from tests.jobs import job_type, jobs
from tests.pages import form_of

pytestmark = pytest.mark.django_db
LANGUAGES = [code for code, _name in settings.LANGUAGES]


def saved(client: Client, url: str, language: str, **typed: str) -> dict[str, Any]:
    """Open the form in a language, type that over what it shows, save, and give what it showed."""
    headers = {"accept-language": language}
    page = client.get(url, headers=headers)
    assert f'lang="{language}"' in page.content.decode()
    shown = form_of(page, next(iter(typed)))
    answer = client.post(url, {**shown, **typed}, headers=headers)
    assert answer.status_code == 302, answer.content.decode()
    return shown


@pytest.mark.parametrize("language", LANGUAGES)
def test_times_of_tasks_keep_their_seconds(
    admin_client: Client, frozen_clock: FrozenClock, language: str
) -> None:
    begin = frozen_clock.instant.replace(microsecond=0) + timedelta(hours=2, seconds=7)
    end = begin + timedelta(days=1, seconds=4)
    ann = user("uid_ann")
    for name, task in (
        ("oncetask", once_task(ann, start_at=begin, end_at=end)),
        ("rotatetask", rotation(ann, start_at=begin, end_at=end)),
    ):
        url = reverse(f"admin:dispatch_{name}_change", args=[task.pk])
        shown = saved(admin_client, url, language, title="Renamed")
        assert (shown["start_at_1"], shown["end_at_1"]) == (f"{begin:%H:%M:%S}", f"{end:%H:%M:%S}")
    for model in (OnceTask, RotateTask):
        kept = model.objects.get()
        assert (kept.title, kept.start_at, kept.end_at) == ("Renamed", begin, end)


@pytest.mark.parametrize("language", LANGUAGES)
def test_times_of_jobs_keep_their_seconds(
    admin_client: Client, frozen_clock: FrozenClock, language: str
) -> None:
    job_type()
    run_at = frozen_clock.instant.replace(microsecond=0) + timedelta(hours=2, seconds=7)
    (number,) = jobs(run_at=run_at)
    url = reverse("admin:jobs_job_edit", args=[number])
    shown = saved(admin_client, url, language, priority="7", reason="Urgent")
    assert shown["run_at_1"] == f"{run_at:%H:%M:%S}"
    job = Job.objects.get()
    assert (job.priority, job.run_at) == (7, run_at)

    day, time = f"{run_at:%Y-%m-%d}", f"{run_at:%H:%M}:59"
    typed = {"key": "order-9", "run_at_0": day, "run_at_1": time, "params-raw": "{}"}
    saved(admin_client, reverse("admin:jobs_job_add"), language, **typed)
    assert Job.objects.get(key="order-9").run_at == run_at.replace(second=59)
