"""Job types in the admin: settings, retries, state."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from django.contrib import admin
from django.http import HttpRequest
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.translation import gettext, ngettext, ngettext_lazy, pgettext
from django.utils.translation import gettext_lazy as _

from apps.common import clock, uses
from apps.common.admin.actions import ReasonAction, ReasonForm
from apps.common.admin.buttons import Button, row_button
from apps.common.admin.display import (
    column,
    label,
    listed,
    plain_time,
    shown_text,
    state_label,
    translate,
)
from apps.common.admin.filters import list_filters
from apps.common.admin.html import bullets, joined, link, list_url
from apps.common.admin.pages import Panel, in_pairs
from apps.common.admin.service import ServiceModelAdmin
from apps.common.admin.time_inputs import InstantField
from apps.common.errors import Conflict
from apps.jobs.admin import labels, type_words
from apps.jobs.admin.filters import TypeFilters, seen_by, types_of_limits
from apps.jobs.admin.handlers import URL as HANDLERS_URL
from apps.jobs.admin.handlers import handlers_view
from apps.jobs.admin.job_type_form import FIELDSETS, LONG_FIELDS, JobTypeForm
from apps.jobs.admin.pools import pool_buttons, pools_view, rebuild_view, visible_pools
from apps.jobs.admin.type_tabs import HISTORY, SETTINGS, now_url, tabs_of
from apps.jobs.handlers import registry
from apps.jobs.models import Job, JobType
from apps.jobs.rules import breaker as rules
from apps.jobs.services import types
from apps.jobs.services.counts import MAX_COUNTED, Counts, counts_of
from apps.jobs.services.living import active_workers, missing, unserved
from apps.jobs.services.protection import breakers
from apps.jobs.services.type_snapshots import all_types
from apps.journal.admin import RecordedAdmin

LANE_COLOURS = {JobType.Lane.FAST: "info", JobType.Lane.SLOW: "warning"}


class PauseForm(ReasonForm):
    until = InstantField(
        label=_("Until"),
        required=False,
        help_text=_(
            "The type resumes at this time. Empty: it stays paused until somebody resumes it."
        ),
    )


def _paused(types: Sequence[JobType]) -> str:
    """`mail paused until 14:00.`, or how many are."""
    [first, *others] = types
    if others:
        return ngettext("%d job type paused.", "%d job types paused.", len(types)) % len(types)
    if first.paused_until is None:
        return gettext("%(type)s paused.") % {"type": first.name}
    values = {"type": first.name, "time": plain_time(first.paused_until)}
    return gettext("%(type)s paused until %(time)s.") % values


def _may_pause(job_type: JobType) -> bool:
    is_own = registry.is_system(job_type.name)
    return not is_own and not job_type.snapshot.is_paused(clock.now())


class JobTypeAdmin(RecordedAdmin, ServiceModelAdmin):
    form = JobTypeForm
    add_form_template = change_form_template = "admin/job_type/form.html"
    is_removable = True
    is_called_by_title = False
    when_empty = _(
        "A type defines how its jobs run. Starting workers add the types of their handlers."
    )
    list_display = (
        *("shown_state", "shown_name", "waiting", "running"),
        *("shown_lane", "attempts", "limits"),
    )
    list_if_any = ("limits",)
    list_mobile = (
        ("shown_state", "shown_name"),
        ("shown_lane", "waiting", "running"),
    )
    list_display_links = ("shown_name",)
    list_filter = list_filters(TypeFilters)
    list_before_template = "admin/includes/types_before.html"
    search_fields = ("name", "title")
    search_help_text = _("Part of a name or title")
    ordering = ("name",)
    actions = ("pause", "resume", "reset_breaker", "take_code")
    custom_urls = (
        ("handlers/", HANDLERS_URL, handlers_view),
        ("pools/", "jobs_jobtype_pools", pools_view),
        ("<int:pk>/rebuild/", "jobs_jobtype_rebuild", rebuild_view),
    )

    shown_lane = state_label("lane", LANE_COLOURS, _("speed class"))

    # --- the list ---------------------------------------------------------------------------------
    def prepare_page(self, request: HttpRequest, rows: Sequence[Any]) -> None:
        now = clock.now()
        counts = counts_of([row.name for row in rows])
        snapshots = [row.snapshot for row in rows]
        found = breakers(snapshots, now)
        idle = {each.name for each in unserved(snapshots, active_workers(now))}
        for row in rows:
            act = "resume" if row.snapshot.is_paused(now) else "pause"
            row.buttons = row_button(self, request, act, row)
            row.now, row.counts = now, counts[row.name]
            row.breaker, row.is_unserved = found.get(row.name), row.name in idle

    def list_context(self, request: HttpRequest, changelist: Any) -> dict[str, Any]:
        pools = [(_("Pools"), self.url("pools"), "inventory_2")]
        return {
            "links": pools if visible_pools(request).exists() else [],
            "unserved": seen_by(request.user, missing(all_types(), active_workers(clock.now()))),
            "too_long": labels.waiting_too_long(types_of_limits(request.user)),
        }

    @column(_("name"), ordering="name")
    def shown_name(self, job_type: JobType) -> SafeString:
        """With its title beside it, cut where the row ends."""
        title = shown_text(job_type.shown_title, limit=80)
        return format_html(
            '{} <bdi class="faint type-title" title="{}">{}</bdi>', job_type.name, title, title
        )

    @column(_("state"))
    def shown_state(self, job_type: Any) -> SafeString:
        shown = [label(text, colour) for text, colour in _states(job_type)]
        marks = SafeString(" ".join(shown))
        return format_html('<span class="labels">{}{}</span>', marks, job_type.buttons)

    @column(_("waiting"))
    def waiting(self, job_type: Any) -> SafeString:
        counts: Counts = job_type.counts
        waiting = (
            ("ready", counts.ready, gettext("%s ready")),
            ("blocked", counts.blocked, gettext("%s blocked")),
            ("scheduled", counts.scheduled, gettext("%s scheduled")),
        )
        links = [
            _jobs_link(job_type, status, text % labels.capped(count, MAX_COUNTED))
            for status, count, text in waiting
            if count
        ]
        return joined(links, " · ") if links else SafeString("–")

    @column(_("running"))
    def running(self, job_type: Any) -> str:
        count = labels.capped(job_type.counts.running, MAX_COUNTED)
        if job_type.max_running is None:
            return count
        return gettext("%(running)s of %(max)d") % {"running": count, "max": job_type.max_running}

    @column(_("tries"), ordering="max_attempts")
    def attempts(self, job_type: JobType) -> int:
        return job_type.max_attempts

    @column(_("limits"))
    def limits(self, job_type: JobType) -> str:
        texts = []
        if job_type.rate_per_minute is not None:
            texts.append(gettext("%d a minute") % job_type.rate_per_minute)
        if job_type.limit_by:
            texts.append(gettext("limited by %s") % job_type.limit_by)
        if job_type.allowed_hosts:
            texts.append(gettext("hosts: %s") % listed(job_type.allowed_hosts[:3]))
        return shown_text(" · ".join(texts), limit=200)

    # --- the form ---------------------------------------------------------------------------------
    def get_fieldsets(self, request: HttpRequest, obj: Any = None) -> Any:
        return [
            (title, {"fields": in_pairs(names, alone=LONG_FIELDS)}) for title, names in FIELDSETS
        ]

    def get_readonly_fields(self, request: HttpRequest, obj: Any = None) -> Any:
        return () if obj is None else ("name",)

    def create(self, request: HttpRequest, form: Any, *, actor: str) -> JobType:
        return types.create_type(actor=actor, **form.values)

    def update(
        self, request: HttpRequest, row: JobType, form: Any, *, version: int, actor: str
    ) -> JobType:
        return types.update_type(job_type=row, version=version, changes=form.changes, actor=actor)

    def blockers(self, row: JobType) -> Sequence[str]:
        try:
            types.require_not_own(row.name)
        except Conflict as error:
            return [translate(error.detail)]
        if not Job.objects.filter(type=row.name).exists():
            return [*map(translate, uses.of(uses.JOB_TYPE, row.name))]
        return [
            gettext(
                "The type still has jobs; ended ones count until they are among the older ones. "
                "Pause it instead."
            )
        ]

    def remove(self, request: HttpRequest, row: JobType, *, actor: str) -> None:
        types.delete_type(job_type=row, actor=actor)

    # --- the page ---------------------------------------------------------------------------------
    def row_url(self, pk: int | str) -> str:
        return now_url(pk)

    def panels(self, request: HttpRequest, row: JobType) -> list[Panel]:
        # The history is a page of its own.
        return []

    def page_context(self, request: HttpRequest, row: Any, form: Any) -> dict[str, Any]:
        found = type_words.context(form, row)
        if row is not None:
            found["header_tabs"] = tabs_of(row, SETTINGS)
            found["last_change"] = next(iter(self.latest(row, user=request.user, limit=1)), None)
        return found

    def history_tabs(self, request: HttpRequest, row: JobType) -> dict[str, Any]:
        return tabs_of(row, HISTORY)

    def top_panels(self, request: HttpRequest, row: JobType) -> list[Panel]:
        return _code_panels(row)

    def buttons(self, request: HttpRequest, row: JobType) -> list[Button]:
        return [*pool_buttons(request, self, row), *super().buttons(request, row)]

    # --- actions ----------------------------------------------------------------------------------
    @ReasonAction(
        description=_("Pause"),
        permission="operate",
        question=_("No new jobs of this type start. Running jobs finish."),
        done=_paused,
        icon="pause_circle",
        offered=_may_pause,
        form=PauseForm,
    )
    def pause(self, row: JobType, *, reason: str, actor: str, until: datetime | None) -> object:
        return types.pause_type(job_type=row, reason=reason, until=until, actor=actor)

    @ReasonAction(
        description=_("Resume"),
        permission="operate",
        question=_("Jobs of this type start again."),
        done=ngettext_lazy("%d job type resumed.", "%d job types resumed."),
        icon="play_circle",
        offered=lambda job_type: job_type.paused,
        is_harmless=True,
    )
    def resume(self, row: JobType, *, reason: str, actor: str) -> object:
        if not row.paused:
            return False
        return types.resume_type(job_type=row, reason=reason, actor=actor)

    @ReasonAction(
        description=_("Take those of the code"),
        permission="change",
        question=_("The settings that differ become those that the handler names."),
        done=ngettext_lazy("%d job type changed.", "%d job types changed."),
        icon="code",
        offered=lambda job_type: bool(registry.differences(job_type)),
    )
    def take_code(self, row: JobType, *, reason: str, actor: str) -> object:
        found = registry.differences(row)
        if not found:
            return False
        return types.update_type(job_type=row, changes=found, actor=actor, reason=reason)

    @ReasonAction(
        description=_("Close the breaker"),
        permission="operate",
        question=_("All jobs of this type may run again. Failures are counted from zero."),
        done=ngettext_lazy("%d breaker closed.", "%d breakers closed."),
        icon="restart_alt",
        offered=lambda job_type: job_type.breaker_enabled,
    )
    def reset_breaker(self, row: JobType, *, reason: str, actor: str) -> object:
        return types.reset_breaker(job_type=row, actor=actor, reason=reason)


def _code_panels(job_type: JobType) -> list[Panel]:
    """The panel of the settings that differ from those of the handler in the code."""
    fields: Any = JobType._meta
    words = gettext("%(setting)s: here %(here)s, in the code %(code)s")
    lines = [
        words
        % {
            "setting": fields.get_field(name).verbose_name,
            "here": shown_text(str(getattr(job_type, name)), limit=80),
            "code": shown_text(str(value), limit=80),
        }
        for name, value in registry.differences(job_type).items()
    ]
    return [Panel(_("Other settings than in the code"), bullets(lines))] if lines else []


def _states(job_type: Any) -> list[tuple[str, str]]:
    """The texts and colours of the obstacles to its jobs, or of the one that workers serve it."""
    found: list[tuple[str, str]] = []
    if job_type.snapshot.is_paused(job_type.now):
        found.append((gettext("Paused"), "warning"))
    if job_type.breaker and job_type.breaker.state == rules.OPEN:
        found.append((gettext("Breaker open"), "danger"))
    elif job_type.breaker and job_type.breaker.state == rules.HALF_OPEN:
        found.append((gettext("Breaker half open"), "warning"))
    if job_type.is_unserved:
        is_missed = job_type.handler or job_type.counts.ready
        found.append((gettext("No worker"), "danger" if is_missed else ""))
    return found or [(pgettext("job type", "Served"), "success")]


def _jobs_link(job_type: JobType, status: str, text: str) -> SafeString:
    url = list_url(Job, type=job_type.name, status=status)
    return link(url, text, look="text-link unbroken")


admin.site.register(JobType, JobTypeAdmin)
