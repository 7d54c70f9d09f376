"""The workers in-house and over HTTP: who is there, what each runs, and which take nothing new."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from django import forms
from django.contrib import admin
from django.http import HttpRequest
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString
from django.utils.translation import gettext, ngettext, ngettext_lazy, pgettext
from django.utils.translation import gettext_lazy as _

from apps.common import clock
from apps.common.admin.actions import ReasonAction, ReasonForm
from apps.common.admin.buttons import Button, row_button
from apps.common.admin.display import (
    column,
    label,
    listed,
    plain_time,
    shown_text,
    state_label,
    text_column,
    time_column,
)
from apps.common.admin.filters import list_filters
from apps.common.admin.html import link, noted
from apps.common.admin.machine_rows import MachineRowAdmin
from apps.common.admin.pages import Panel
from apps.common.admin.row_page import RowPageAdmin, head_line
from apps.common.admin.timeline import Moment
from apps.common.readers import read_key
from apps.jobs.admin import labels, worker_panels
from apps.jobs.admin.filters import WorkerFilters, seen_by
from apps.jobs.admin.slices import URL as SLICES_URL
from apps.jobs.admin.slices import slices_view, worker_panel
from apps.jobs.admin.worker_links import KeyNames, may_see_keys
from apps.jobs.conf import conf
from apps.jobs.models import JobScope, JobType, Worker, bounds_of
from apps.jobs.services import living, register
from apps.jobs.services.living import busy_slots, missing, slots
from apps.jobs.services.register import WorkerKey
from apps.jobs.services.running import running_counts, running_within
from apps.jobs.services.type_snapshots import all_types
from apps.journal.admin import latest_moments
from apps.journal.models import Source

MAX_TYPES = 3


class QuietForm(ReasonForm):
    """A worker serves everybody's jobs, so people with limits neither quiet nor resume one."""

    def clean(self) -> dict[str, Any]:
        if self.request is None or not bounds_of(self.request.user).are_open:
            raise forms.ValidationError(
                _(
                    "You see some jobs only, and a worker runs those of others, too. Ask somebody "
                    "without such limits."
                )
            )
        return super().clean() or self.cleaned_data


class WorkerAdmin(RowPageAdmin, MachineRowAdmin):
    when_empty = _("A worker is listed as soon as it starts, or calls over HTTP.")
    list_display = (
        "name",
        "shown_state",
        "shown_contact",
        "kind_and_key",
        "host_and_version",
        "shown_types",
        "shown_load",
    )
    list_mobile = (
        ("shown_state", "name"),
        ("kind_and_key", "shown_contact", "host_and_version", "shown_load"),
    )
    list_filter = list_filters(WorkerFilters)
    list_tabs = "state"
    list_before_template = "admin/includes/workers_before.html"
    custom_urls = (
        ("running/", "jobs_worker_running", worker_panels.running_view),
        ("slices/", SLICES_URL, slices_view),
    )
    search_help_text = _("Name, in full")
    exact_search = (("name", read_key),)
    actions = ("quiet", "resume")

    shown_started_at = time_column("started_at", _("started"))
    shown_version = text_column("version", _("version"))
    shown_kind: Any = state_label("kind", {Worker.Kind.HTTP: "info"}, _("kind"), ordering=False)

    def timeline(self, request: HttpRequest, row: Worker) -> Sequence[Moment]:
        return latest_moments(Source.WORKER, row.pk, user=request.user, shows_payload=True)

    def panels(self, request: HttpRequest, row: Worker) -> list[Panel]:
        found = super().panels(request, row)
        if row.state == Worker.State.GONE:
            return found
        return [Panel(_("Slices"), worker_panel(row), is_folded=True), *found]

    def prepare_page(self, request: HttpRequest, rows: Sequence[Any]) -> None:
        now = clock.now()
        keys = KeyNames([row.client for row in rows], are_linked=may_see_keys(request))
        bounds = bounds_of(request.user)
        if bounds.are_open:
            # Over HTTP they report no number, or leave out the keys of pools that they hold.
            counted = [row for row in rows if row.kind == Worker.Kind.HTTP]
            counts = running_counts(counted)
        else:
            counted, counts = [*rows], running_within(rows, bounds)
        for row in rows:
            row.now, row.keys, row.held = now, keys, row.running
            row.shows_slots = bounds.are_open
            name = "resume" if row.is_quiet else "quiet"
            row.buttons = row_button(self, request, name, row) if bounds.are_open else ""
        for row in counted:
            row.held = counts.get(WorkerKey(row.client, row.name), 0)
        _leave_types(rows, request)

    def prepare_row(self, request: HttpRequest, row: Any) -> None:
        self.prepare_page(request, [row])
        # Its page has them above.
        row.buttons = ""

    def top_panels(self, request: HttpRequest, row: Any) -> list[Panel]:
        since = labels.relative(row.last_heartbeat_at, row.now)
        contact = format_html(
            '{} <span title="{}">{}</span>',
            gettext("last contact"),
            plain_time(row.last_heartbeat_at),
            since,
        )
        jobs, slots = self._load(row)
        said = [contact, _habit(row), row.get_kind_display(), jobs, slots]
        panels = [Panel("", head_line(self.shown_state(row), filter(None, said)))]
        if row.is_quiet:
            panels.append(worker_panels.quiet_panel(row))
        if request.user.has_perm("jobs.view_job"):
            panels.append(worker_panels.running_panel(row, request.user))
        return panels

    def aside(self, request: HttpRequest, row: Worker) -> list[Panel]:
        """The facts, without those that only workers of the other kind have: in-house or HTTP."""
        is_outside = row.kind == Worker.Kind.HTTP
        own = ("shown_key",) if is_outside else ("pid", "shown_lanes", "shown_drains")
        fields = ("host", *own, "shown_version", "shown_started_at", "all_types")
        return [self.facts(row, fields)]

    def list_context(self, request: HttpRequest, changelist: Any) -> dict[str, Any]:
        found = living.alive(clock.now())
        workers = [worker for worker in found if living.takes_jobs(worker)]
        return {
            "quiet": sum(worker.is_quiet for worker in found),
            "unserved": seen_by(request.user, missing(all_types(), workers)),
            "running": worker_panels.running_now(request.user)
            if request.user.has_perm("jobs.view_job")
            else None,
            "slots": slots(workers),
            "scan_seconds": conf.JOB_SCAN_SECONDS,
        }

    # --- columns and fields -----------------------------------------------------------------------
    @column(_("state"))
    def shown_state(self, worker: Any) -> SafeString:
        text, colour = _state(worker)
        # Over HTTP a name comes back, and is quiet still.
        stays = worker.is_quiet and worker.state == Worker.State.GONE and worker.client
        note = pgettext("worker", "quiet") if stays else ""
        shown = format_html(
            '<span class="unbroken">{}{}</span>', label(text, colour), worker.buttons
        )
        return noted(shown, note)

    @column(_("last contact"))
    def shown_contact(self, worker: Any) -> SafeString:
        shown = labels.relative(worker.last_heartbeat_at, worker.now)
        return noted(format_html('<span class="unbroken">{}</span>', shown), _habit(worker))

    @column(_("API key"))
    def shown_key(self, worker: Any) -> SafeString:
        return worker.keys.name(worker.client)  # type: ignore[no-any-return]

    @column(_("kind"))
    def kind_and_key(self, worker: Any) -> SafeString:
        key = worker.keys.name(worker.client) if worker.client else ""
        return noted(self.shown_kind(worker), key)

    @column(_("host"))
    def host_and_version(self, worker: Any) -> SafeString:
        version = shown_text(worker.version, limit=80)
        return noted(shown_text(worker.host) or "–", version)

    @column(_("speed classes"))
    def shown_lanes(self, worker: Worker) -> str:
        words = dict(JobType.Lane.choices)
        return listed(words.get(lane, lane) for lane in worker.lanes)

    @column(_("types"))
    def shown_types(self, worker: Worker) -> SafeString:
        names = sorted(worker.types)
        more = len(names) - MAX_TYPES
        return format_html(
            '<span title="{}">{}{}</span>',
            shown_text(listed(names), limit=2000),
            shown_text(listed(names[:MAX_TYPES]), limit=400),
            f" +{more}" if more > 0 else "",
        )

    @column(_("types"))
    def all_types(self, worker: Worker) -> str:
        return shown_text(listed(sorted(worker.types)), limit=4000)

    @column(_("running"))
    def shown_load(self, worker: Any) -> SafeString:
        return noted(*self._load(worker))

    @staticmethod
    def _load(worker: Any) -> tuple[SafeString, str]:
        """The jobs that it runs, and how many of its slots those take where that is known."""
        url = worker_panels.jobs_url(worker, status="running")
        jobs = ngettext("%d job", "%d jobs", worker.held) % worker.held
        used = ""
        if worker.promises_beats and worker.shows_slots:
            is_outside = worker.kind == Worker.Kind.HTTP
            busy = min(worker.held, worker.capacity) if is_outside else busy_slots(worker)
            numbers = {"used": busy, "slots": worker.capacity}
            used = gettext("%(used)d of %(slots)d slots") % numbers
        return link(url, jobs, look="text-link unbroken"), used

    @column(_("worker loops"))
    def shown_drains(self, worker: Worker) -> SafeString:
        words = dict(JobType.Lane.choices)
        return format_html_join(
            ", ", "{}: {}", ((words.get(lane, lane), n) for lane, n in worker.drains.items())
        )

    # --- actions ----------------------------------------------------------------------------------
    def has_operate_permission(self, request: HttpRequest, obj: object = None) -> bool:
        """Whoever controls jobs controls who runs them; QuietForm refuses people with limits."""
        return self._has_own_permission(request, "operate_job")

    def buttons(self, request: HttpRequest, row: Worker) -> list[Button]:
        return super().buttons(request, row) if bounds_of(request.user).are_open else []

    def list_actions(self, request: HttpRequest, found: dict[str, Any]) -> dict[str, Any]:
        return found if bounds_of(request.user).are_open else {}

    @ReasonAction(
        description=_("Quiet"),
        permission="operate",
        question=_(
            "The workers take nothing new from their next heartbeat on and end what they have. "
            "They go on when somebody resumes them."
        ),
        done=ngettext_lazy("%d worker made quiet.", "%d workers made quiet."),
        icon="do_not_disturb_on",
        offered=lambda worker: not worker.is_quiet and worker.state != Worker.State.GONE,
        form=QuietForm,
        is_harmless=True,
    )
    def quiet(self, row: Worker, *, reason: str, actor: str) -> object:
        if row.is_quiet:
            return False
        return register.quiet(worker=row, actor=actor, reason=reason)

    @ReasonAction(
        description=_("Resume"),
        permission="operate",
        question=_("The workers take jobs again from their next heartbeat on."),
        done=ngettext_lazy("%d worker resumed.", "%d workers resumed."),
        icon="play_circle",
        offered=lambda worker: worker.is_quiet,
        form=QuietForm,
        is_harmless=True,
    )
    def resume(self, row: Worker, *, reason: str, actor: str) -> object:
        if not row.is_quiet:
            return False
        return register.resume(worker=row, actor=actor, reason=reason)


def _state(worker: Any) -> tuple[str, str]:
    """The state in words, with its colour."""
    if living.is_lost(worker, worker.now):
        return gettext("Offline"), "danger"
    if worker.state == Worker.State.GONE:
        return gettext("Offline"), ""
    if worker.state == Worker.State.DRAINING:
        return gettext("Stopping"), "warning"
    if worker.is_quiet:
        return pgettext("worker", "Quiet"), "warning"
    if not living.is_there(worker, worker.now):
        # It promised no heartbeats, so nobody misses it.
        return gettext("Offline"), ""
    return pgettext("worker", "Active"), "success"


def _habit(worker: Worker) -> str:
    return "" if worker.promises_beats else gettext("calls when it wants work")


def _leave_types(rows: Sequence[Worker], request: HttpRequest) -> None:
    """Remove the types that the person does not see from the rows, which are never saved."""
    names = JobScope.names_of(request.user)
    if names is None:
        return
    for row in rows:
        row.types = [name for name in row.types if name in names]


admin.site.register(Worker, WorkerAdmin)
