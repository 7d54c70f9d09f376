"""Job types in the admin: their settings, how they retry, and how they stand now."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from django import forms
from django.contrib import admin
from django.http import HttpRequest
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.translation import gettext, pgettext
from django.utils.translation import gettext_lazy as _

from apps.common import clock
from apps.common.admin import ReasonForm, VersionedModelAdmin, reason_action
from apps.common.admin.base import Panel
from apps.common.admin.display import column, shown_text, state_label, text_column
from apps.common.admin.filters import ChoiceFilter
from apps.common.admin.theme import TextWidget, label
from apps.common.admin.timeline import Moment
from apps.jobs.admin import labels
from apps.jobs.admin.backoff_picture import backoff_picture
from apps.jobs.admin.filters import LaneFilter as JobLaneFilter
from apps.jobs.admin.job_type_form import FIELDSETS, JobTypeForm
from apps.jobs.admin.job_type_page import state_panel
from apps.jobs.models import Job, JobType
from apps.jobs.rules import breaker as rules
from apps.jobs.services import types
from apps.jobs.services.counts import MAX_COUNTED, Counts, counts_of
from apps.jobs.services.facts import active_workers, breakers, unserved
from apps.jobs.services.type_snapshots import all_types
from apps.journal.admin import latest_moments
from apps.journal.models import JournalEntry, Source

LANE_COLOURS = {JobType.Lane.FAST: "info", JobType.Lane.SLOW: "warning"}


class PauseForm(ReasonForm):
    until = forms.DateTimeField(
        label=_("Until"),
        required=False,
        input_formats=["%Y-%m-%dT%H:%M:%S", "%Y-%m-%dT%H:%M", "%Y-%m-%d %H:%M"],
        widget=TextWidget(attrs={"type": "datetime-local", "step": "1"}),
        help_text=_("It resumes by itself then. Empty: when somebody resumes it."),
    )


class LaneFilter(ChoiceFilter):
    title = JobLaneFilter.title
    parameter = "lane"
    options = JobType.Lane.choices


class PausedFilter(ChoiceFilter):
    title = _("paused")
    parameter = "paused"
    options = (("True", _("yes")), ("False", _("no")))


class JobTypeAdmin(VersionedModelAdmin):
    form = JobTypeForm
    is_removable = True
    when_empty = _(
        "A type says how its jobs are run. Those of handlers are made when workers start."
    )
    list_display = (
        "name",
        "shown_title",
        "shown_lane",
        "shown_state",
        "waiting",
        "running",
        "attempts",
        "limits",
    )
    list_filter = (LaneFilter, PausedFilter)
    list_before_template = "admin/includes/types_before.html"
    search_fields = ("name", "title")
    search_help_text = _("Part of a name or title")
    ordering = ("name",)
    actions = ("pause", "resume", "reset_breaker")

    shown_title = text_column("title", _("title"), ordering="title")
    shown_lane = state_label("lane", LANE_COLOURS, _("lane"))

    # --- the list ---------------------------------------------------------------------------------
    def prepare_page(self, request: HttpRequest, rows: Sequence[Any]) -> None:
        now = clock.now()
        counts = counts_of([row.name for row in rows])
        snapshots = [row.snapshot for row in rows]
        found = breakers(snapshots, now)
        idle = {each.name for each in unserved(snapshots, active_workers(now))}
        for row in rows:
            row.now, row.counts = now, counts[row.name]
            row.breaker, row.is_unserved = found.get(row.name), row.name in idle

    def changelist_view(self, request: HttpRequest, extra_context: Any = None) -> Any:
        notices = {
            "unserved": unserved(all_types(), active_workers(clock.now())),
            "too_long": labels.waiting_too_long(),
        }
        return super().changelist_view(request, notices | (extra_context or {}))

    @column(_("state"))
    def shown_state(self, job_type: Any) -> SafeString:
        shown = [label(text, colour) for text, colour in _states(job_type)]
        return format_html('<span class="labels">{}</span>', SafeString(" ".join(shown)))

    @column(_("waiting"))
    def waiting(self, job_type: Any) -> SafeString:
        counts: Counts = job_type.counts
        return format_html(
            '<a class="text-link" href="{}">{}</a> · <a class="text-link" href="{}">{}</a>',
            labels.jobs_url(type=job_type.name, status="ready"),
            gettext("%s ready") % labels.capped(counts.ready, MAX_COUNTED),
            labels.jobs_url(type=job_type.name, status="scheduled"),
            gettext("%s scheduled") % labels.capped(counts.scheduled, MAX_COUNTED),
        )

    @column(_("running"))
    def running(self, job_type: Any) -> str:
        told = labels.capped(job_type.counts.running, MAX_COUNTED)
        if job_type.max_running is None:
            return told
        return gettext("%(running)s of %(most)d") % {
            "running": told,
            "most": job_type.max_running,
        }

    @column(_("attempts"), ordering="max_attempts")
    def attempts(self, job_type: JobType) -> int:
        return job_type.max_attempts

    @column(_("limits"))
    def limits(self, job_type: JobType) -> str:
        told = []
        if job_type.rate_per_minute is not None:
            told.append(gettext("%d a minute") % job_type.rate_per_minute)
        if job_type.allowed_hosts:
            told.append(gettext("hosts: %s") % ", ".join(job_type.allowed_hosts[:3]))
        return shown_text(" · ".join(told), limit=200)

    # --- the form ---------------------------------------------------------------------------------
    def get_fieldsets(self, request: HttpRequest, obj: Any = None) -> Any:
        return [(title, {"fields": [*names]}) for title, names in FIELDSETS]

    def get_readonly_fields(self, request: HttpRequest, obj: Any = None) -> Any:
        return () if obj is None else ("name",)

    def create(self, request: HttpRequest, form: Any, *, actor: str) -> JobType:
        settings = {name: form.cleaned_data[name] for name in form.fields if name != "version"}
        return types.create_type(actor=actor, **settings)

    def update(
        self, request: HttpRequest, row: JobType, form: Any, *, version: int, actor: str
    ) -> JobType:
        return types.update_type(job_type=row, version=version, changes=form.changes, actor=actor)

    def obstacles(self, row: JobType) -> Sequence[str]:
        if not Job.objects.filter(type=row.name).exists():
            return ()
        return [gettext("There are jobs of it, finished ones count; pause it instead.")]

    def remove(self, request: HttpRequest, row: JobType, *, actor: str) -> None:
        types.delete_type(job_type=row, actor=actor)

    # --- the page ---------------------------------------------------------------------------------
    def top_panels(self, request: HttpRequest, row: JobType) -> list[Panel]:
        waits = backoff_picture(row.snapshot.backoff, row.max_attempts)
        return [
            Panel(_("Now"), state_panel(row)),
            Panel(_("Wait before each retry"), waits),
        ]

    def timeline(self, request: HttpRequest, row: JobType) -> Sequence[Moment]:
        entries = JournalEntry.objects.timeline(Source.PLAN, row.pk)
        return latest_moments(entries.filter(type_or_task=row.name), shows_payload=True)

    # --- actions ----------------------------------------------------------------------------------
    @reason_action(
        description=_("Pause"),
        permission="operate",
        question=_("None of their jobs is held any more; running ones go on."),
        icon="pause_circle",
        offered=lambda job_type: not job_type.snapshot.is_paused(clock.now()),
        form=PauseForm,
    )
    def pause(self, row: JobType, *, reason: str, actor: str, until: datetime | None) -> object:
        return types.pause_type(job_type=row, reason=reason, until=until, actor=actor)

    @reason_action(
        description=_("Resume"),
        permission="operate",
        question=_("Their jobs are held again."),
        icon="play_circle",
        offered=lambda job_type: job_type.paused,
    )
    def resume(self, row: JobType, *, reason: str, actor: str) -> object:
        if not row.paused:
            return False
        return types.resume_type(job_type=row, reason=reason, actor=actor)

    @reason_action(
        description=_("Close the breaker"),
        permission="operate",
        question=_("All of their jobs may run at once, and failures are counted anew."),
        icon="restart_alt",
        offered=lambda job_type: job_type.breaker_enabled,
    )
    def reset_breaker(self, row: JobType, *, reason: str, actor: str) -> object:
        return types.reset_breaker(job_type=row, actor=actor, reason=reason)


def _states(job_type: Any) -> list[tuple[str, str]]:
    """Its state in labels: paused, breaker, nobody there; or that it is taken."""
    found: list[tuple[str, str]] = []
    if job_type.snapshot.is_paused(job_type.now):
        found.append((gettext("Paused"), "warning"))
    if job_type.breaker and job_type.breaker.state == rules.OPEN:
        found.append((gettext("Breaker open"), "danger"))
    elif job_type.breaker and job_type.breaker.state == rules.HALF_OPEN:
        found.append((gettext("Breaker half open"), "warning"))
    if job_type.is_unserved:
        found.append((gettext("No worker"), "danger"))
    return found or [(pgettext("job type", "Served"), "success")]


admin.site.register(JobType, JobTypeAdmin)
