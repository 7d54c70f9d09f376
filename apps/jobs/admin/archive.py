"""The archive in the admin: jobs that ended long ago, to be read and retried."""

from __future__ import annotations

from typing import Any

from django.contrib import admin
from django.http import HttpRequest
from django.utils.translation import gettext_lazy as _

from apps.common.admin.list_head import NextStep
from apps.jobs.admin import job_columns
from apps.jobs.admin.any_job import AnyJobAdmin
from apps.jobs.admin.filters import ARCHIVED_FILTERS
from apps.jobs.admin.job_edit import retry_view
from apps.jobs.admin.rights import RightsOfJobs
from apps.jobs.models import ArchivedJob, Job


class ArchivedJobAdmin(RightsOfJobs, AnyJobAdmin):
    """The page of archived jobs, with the rights of jobs; a retry brings a job back.

    While few rows match, indexes find types and keys (type, key, id), and errors (error_key, type,
    id); days are bounds of the id. Other filters go through the newest rows in steps.
    """

    other_model = Job
    when_empty = _("Jobs come here some days after their end.")
    next_steps = (NextStep(_("See the jobs"), "admin:jobs_job_changelist", "jobs.view_job"),)
    list_display = job_columns.USUAL_ARCHIVED
    list_columns = job_columns.ALL_ARCHIVED
    list_mobile = (
        ("status_and_error", "type_link", "shown_key"),
        ("number", "shown_attempts", "finished_at"),
    )
    export_columns = (*job_columns.EXPORTED, ("archived_at", "archived_at"))
    list_filter = ARCHIVED_FILTERS
    custom_urls = (("<int:pk>/retry/", "jobs_archivedjob_retry_with", retry_view),)
    actions = ("retry", "retry_on_host")

    def list_actions(self, request: HttpRequest, found: dict[str, Any]) -> dict[str, Any]:
        return {name: action for name, action in found.items() if name == "retry"}


admin.site.register(ArchivedJob, ArchivedJobAdmin)
