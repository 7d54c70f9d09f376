"""The processes that hold jobs, and the types that none of them serves. Read-only."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from django.contrib import admin
from django.http import HttpRequest
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString
from django.utils.translation import gettext, ngettext
from django.utils.translation import gettext_lazy as _

from apps.common import clock
from apps.common.admin import MachineRowAdmin
from apps.common.admin.base import Panel
from apps.common.admin.display import (
    column,
    label,
    shown_text,
    state_label,
    text_column,
    time_column,
)
from apps.common.admin.filters import KeyFilter, read_key
from apps.common.admin.timeline import Moment
from apps.jobs.admin import labels
from apps.jobs.admin.filters import WorkerStateFilter, seen_by
from apps.jobs.admin.slices import URL as SLICES_URL
from apps.jobs.admin.slices import slices_view, worker_panel
from apps.jobs.conf import conf
from apps.jobs.models import JobScope, JobType, Worker
from apps.jobs.services.register import active_workers, busy_slots, is_lost, slots, unserved
from apps.jobs.services.type_snapshots import all_types
from apps.journal.admin import latest_moments
from apps.journal.models import JournalEntry, Source

STATE_COLOURS = {
    Worker.State.ACTIVE: "success",
    Worker.State.DRAINING: "warning",
}
MAX_TYPES = 6


class HostFilter(KeyFilter):
    title = _("host")
    parameter = "host"


class WorkerAdmin(MachineRowAdmin):
    when_empty = _("A worker is listed as soon as it starts.")
    list_display = (
        "name",
        "shown_state",
        "shown_heartbeat",
        "host",
        "shown_kind",
        "shown_lanes",
        "shown_types",
        "shown_load",
    )
    list_mobile = (
        ("shown_state", "name"),
        ("shown_heartbeat", "host", "shown_load"),
    )
    list_filter = (WorkerStateFilter, HostFilter)
    list_before_template = "admin/includes/workers_before.html"
    custom_urls = (("slices/", SLICES_URL, slices_view),)
    search_help_text = _("Name, in full")
    exact_search = (("name", read_key),)
    fieldsets = (
        (
            None,
            {"fields": ("name", "shown_state", "shown_heartbeat", "shown_kind")},
        ),
        (
            _("Where"),
            {
                "fields": (
                    "host",
                    "pid",
                    "shown_version",
                    "shown_started_at",
                    "shown_last_heartbeat",
                )
            },
        ),
        (_("Work"), {"fields": ("shown_lanes", "all_types", "shown_load", "shown_drains")}),
    )

    shown_started_at = time_column("started_at", _("started"))
    shown_last_heartbeat = time_column("last_heartbeat_at", _("last heartbeat"))
    shown_version = text_column("version", _("version"))
    shown_kind = state_label("kind", {Worker.Kind.HTTP: "info"}, _("kind"), ordering=False)

    def timeline(self, request: HttpRequest, row: Worker) -> Sequence[Moment]:
        entries = JournalEntry.objects.timeline(Source.WORKER, row.pk)
        return latest_moments(entries, shows_payload=True)

    def panels(self, request: HttpRequest, row: Worker) -> list[Panel]:
        found = super().panels(request, row)
        if row.state == Worker.State.GONE:
            return found
        return [Panel(_("Slices"), worker_panel(row)), *found]

    def prepare_page(self, request: HttpRequest, rows: Sequence[Any]) -> None:
        now = clock.now()
        for row in rows:
            row.now = now
        _leave_types(rows, request)

    def get_object(self, request: HttpRequest, *args: Any, **kwargs: Any) -> Worker | None:
        row: Worker | None = super().get_object(request, *args, **kwargs)
        if row is not None:
            _leave_types([row], request)
        return row

    def list_context(self, request: HttpRequest, changelist: Any) -> dict[str, Any]:
        workers = active_workers(clock.now())
        return {
            "unserved": seen_by(request.user, unserved(all_types(), workers)),
            "slots": slots(workers),
            "scan_seconds": conf.JOB_SCAN_SECONDS,
        }

    @column(_("state"))
    def shown_state(self, worker: Any) -> SafeString:
        now = getattr(worker, "now", None) or clock.now()
        if is_lost(worker, now):
            return label(gettext("Lost"), "danger")
        text = str(worker.get_state_display())
        return label(text[:1].upper() + text[1:], STATE_COLOURS.get(worker.state, ""))

    @column(_("heartbeat"))
    def shown_heartbeat(self, worker: Any) -> SafeString:
        now = getattr(worker, "now", None) or clock.now()
        return format_html(
            '<span class="unbroken">{}</span>', labels.relative(worker.last_heartbeat_at, now)
        )

    @column(_("lanes"))
    def shown_lanes(self, worker: Worker) -> str:
        words = dict(JobType.Lane.choices)
        return ", ".join(str(words.get(lane, lane)) for lane in worker.lanes)

    @column(_("types"))
    def shown_types(self, worker: Worker) -> SafeString:
        names = sorted(worker.types)
        more = len(names) - MAX_TYPES
        return format_html(
            '<span title="{}">{}{}</span>',
            shown_text(", ".join(names), limit=2000),
            shown_text(", ".join(names[:MAX_TYPES]), limit=400),
            f" +{more}" if more > 0 else "",
        )

    @column(_("types"))
    def all_types(self, worker: Worker) -> str:
        return shown_text(", ".join(sorted(worker.types)), limit=4000)

    @column(_("running"))
    def shown_load(self, worker: Worker) -> SafeString:
        return format_html(
            '<span class="unbroken">{}</span>',
            ngettext(
                "%(running)d job, %(used)d of %(slots)d slots",
                "%(running)d jobs, %(used)d of %(slots)d slots",
                worker.running,
            )
            % {
                "running": worker.running,
                "used": busy_slots(worker),
                "slots": worker.capacity,
            },
        )

    @column(_("worker loops"))
    def shown_drains(self, worker: Worker) -> SafeString:
        words = dict(JobType.Lane.choices)
        return format_html_join(
            ", ", "{}: {}", ((words.get(lane, lane), n) for lane, n in worker.drains.items())
        )


def _leave_types(rows: Sequence[Worker], request: HttpRequest) -> None:
    """Leave of the types that they serve those that the person sees; the rows are never saved."""
    names = JobScope.names_of(request.user)
    if names is None:
        return
    for row in rows:
        row.types = [name for name in row.types if name in names]


admin.site.register(Worker, WorkerAdmin)
