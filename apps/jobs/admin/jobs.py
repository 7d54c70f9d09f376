"""Jobs in the admin: the list of them all, and the ways to step in."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from django.contrib import admin
from django.db import connection
from django.db.models import Q, QuerySet
from django.db.models.functions import Left
from django.http import HttpRequest
from django.utils.formats import localize
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.timezone import localtime
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from apps.common import clock
from apps.common.admin.changelist import tidy_search
from apps.common.admin.display import column, progress_bar, shown_text
from apps.common.admin.filters import InstantFilter, read_key, read_number
from apps.common.admin.keyset import KeysetAdmin
from apps.jobs.admin import labels
from apps.jobs.admin.filters import (
    CreatedFilter,
    ErrorFilter,
    HostFilter,
    JobKeyFilter,
    LaneFilter,
    StatusFilter,
    TypeFilter,
    UserFilter,
    WorkerFilter,
    type_names,
)
from apps.jobs.admin.job_groups import JobGroups
from apps.jobs.admin.job_page import JobPage
from apps.jobs.admin.job_writing import JobWriting
from apps.jobs.conf import conf
from apps.jobs.models import Job
from apps.jobs.rules import transitions
from apps.journal.admin.words import reason_of

# What the list leaves in the database; contexts and results may be large.
HEAVY = ("context", "checkpoint", "result", "memo")
MAX_ERROR = 100


class JobAdmin(JobWriting, JobPage, JobGroups, KeysetAdmin):
    """Reads per page: so many rows as it shows, or `most_looked_through` of the primary key.

    As long as few rows fit, a type or key is looked up by (type, key, id), a status by (status, …)
    or its partial index, an error by (error_key, type, id); days are bounds of the id. Every other
    filter and the search in texts looks through a stretch of the newest rows at a time.
    """

    when_empty = _("Programs submit jobs, and so can you.")
    list_display = (
        "number",
        "type_link",
        "shown_key",
        "status_and_error",
        "shown_progress",
        "shown_attempts",
        "shown_run_at",
        "shown_order",
        "shown_host",
        "shown_age",
    )
    list_filter = (
        TypeFilter,
        StatusFilter,
        LaneFilter,
        JobKeyFilter,
        UserFilter,
        HostFilter,
        ErrorFilter,
        WorkerFilter,
        CreatedFilter,
        InstantFilter,
    )
    list_defer = HEAVY
    list_before_template = "admin/includes/jobs_before.html"
    # Django draws the search box when there are any.
    search_fields = ("pk",)
    search_help_text = _("Number or key in full, a user in full, or part of the memo")
    most_indexed = 1_000

    shown_status = labels.shown_status

    # --- what is found ----------------------------------------------------------------------------
    def found_by_index(
        self, rows: QuerySet[Any], given: Mapping[str, str], term: str
    ) -> Sequence[int] | None:
        if term:
            return self._found_exactly(rows, term)
        types = [given["type"]] if given.get("type") else None
        if given.get("error_key"):
            alike = rows.filter(error_key=given["error_key"])
            return self._few(alike.filter(type=types[0]) if types else alike)
        if given.get("key"):
            return self._few(rows.filter(type__in=types or type_names(), key=given["key"]))
        found = rows.filter(type=types[0]) if types else rows
        indexed = (*transitions.OPEN, transitions.FAILED)
        if given.get("status") in indexed or connection.vendor == "mysql":
            # On SQLite indexes of the other states would only cost.
            found = found.filter(status=given["status"]) if given.get("status") else found
        return None if found is rows else self._few(found)

    def _found_exactly(self, rows: QuerySet[Any], term: str) -> Sequence[int] | None:
        number, key = read_number(term), read_key(term)
        if number is not None and rows.filter(pk=number).exists():
            return [number]
        if key is None:
            return None
        return self._few(rows.filter(type__in=type_names(), key=key)) or None

    def _few(self, rows: QuerySet[Any]) -> Sequence[int] | None:
        keys = list(rows.order_by().values_list("pk", flat=True)[: self.most_indexed + 1])
        return keys if len(keys) <= self.most_indexed else None

    def get_search_results(
        self, request: HttpRequest, queryset: QuerySet[Any], search_term: str
    ) -> tuple[QuerySet[Any], bool]:
        term = tidy_search(search_term).strip()
        if not term:
            return queryset, False
        wanted = Q(memo__icontains=term)
        if read_key(term) is not None:
            wanted |= Q(key=term) | Q(user_id=term)
        if (number := read_number(term)) is not None:
            wanted |= Q(pk=number)
        return queryset.filter(wanted), False

    def changelist_view(self, request: HttpRequest, extra_context: Any = None) -> Any:
        notices = {"too_long": labels.waiting_too_long()}
        return super().changelist_view(request, notices | (extra_context or {}))

    def prepare_page(self, request: HttpRequest, rows: Sequence[Any]) -> None:
        now, weight = clock.now(), conf.JOB_PRIORITY_WEIGHT_MS
        failed = [row.pk for row in rows if row.status == transitions.FAILED]
        cut = Job.objects.filter(pk__in=failed).values_list("pk", Left("memo", 2 * MAX_ERROR))
        memos = dict(cut) if failed else {}
        for row in rows:
            row.now, row.weight_ms = now, weight
            row.error = memos.get(row.pk, "")

    # --- columns ----------------------------------------------------------------------------------
    @column(_("number"))
    def number(self, job: Job) -> int:
        return job.pk

    @column(_("type"))
    def type_link(self, job: Job) -> SafeString:
        url = labels.jobs_url(type=job.type)
        return format_html('<a class="text-link" href="{}">{}</a>', url, job.type)

    @column(_("key"))
    def shown_key(self, job: Job) -> SafeString | None:
        if not job.key and not job.user_id:
            return None
        user = format_html('<span class="cell-note faint">{}</span>', shown_text(job.user_id))
        return format_html("{}{}", shown_text(job.key), user if job.user_id else "")

    @column(_("status"))
    def status_and_error(self, job: Any) -> SafeString:
        status = labels.shown_status(self, job)
        if not job.error:
            return status
        error = shown_text(reason_of(job.error), limit=MAX_ERROR)
        return format_html('{}<bdi class="cell-error faint">{}</bdi>', status, error)

    @column(_("progress"))
    def shown_progress(self, job: Job) -> SafeString | None:
        return None if job.percent is None else progress_bar(job.percent / 100)

    @column(_("attempts"))
    def shown_attempts(self, job: Job) -> SafeString:
        return format_html('<span class="unbroken">{} / {}</span>', job.attempts, job.max_attempts)

    @column(_("next run"))
    def shown_run_at(self, job: Any) -> SafeString | None:
        if job.status in transitions.WAITING:
            return labels.from_now(job.run_at, job.now)
        if job.status == transitions.RUNNING and job.held_at:
            running = gettext("running for %s") % labels.age(job.held_at, job.now)
            return format_html('<span class="unbroken">{}</span>', running)
        return None

    @column(_("order"))
    def shown_order(self, job: Any) -> SafeString | None:
        if job.status not in transitions.WAITING:
            return None
        return format_html(
            '<span class="unbroken" title="{}">{}</span>',
            job.order_key,
            labels.lead_words(job, job.weight_ms),
        )

    @column(_("host"))
    def shown_host(self, job: Job) -> SafeString | None:
        if job.affinity_host and job.status in transitions.WAITING:
            return format_html(
                '{}<span class="cell-note faint">{}</span>', job.affinity_host, _("only there")
            )
        if not job.host:
            return None
        return format_html('<span title="{}">{}</span>', job.worker, job.host)

    @column(_("age"))
    def shown_age(self, job: Any) -> SafeString:
        return format_html(
            '<span class="unbroken" title="{}">{}</span>',
            localize(localtime(job.created_at)),
            labels.age(job.created_at, job.now),
        )

    def row_label(self, row: Job) -> str:
        return " · ".join(filter(None, [str(row.pk), row.type, row.key]))


admin.site.register(Job, JobAdmin)
