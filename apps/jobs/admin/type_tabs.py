"""The pages of a job type, as tabs beside its name."""

from __future__ import annotations

from typing import Any

from django.urls import reverse
from django.utils.translation import gettext

from apps.common.admin.html import header_tabs, list_url, page_url
from apps.jobs.models import JobType

# The page is of an app above the jobs.
NOW_URL = "job_type_now"
NOW, SETTINGS, HISTORY = "now", "settings", "history"


def now_url(pk: object) -> str:
    """The page of a type that says how it goes now."""
    return reverse(NOW_URL, args=[pk])


def tabs_of(job_type: JobType, here: str) -> dict[str, Any]:
    """The variables for the template of the tabs; `here` is the open one."""
    pages = {
        NOW: (gettext("Now"), now_url(job_type.pk)),
        SETTINGS: (gettext("Settings"), page_url(JobType, job_type.pk)),
        HISTORY: (gettext("History"), reverse("admin:jobs_jobtype_history", args=[job_type.pk])),
    }
    return header_tabs(job_type.name, (gettext("Types"), list_url(JobType)), pages, here)
