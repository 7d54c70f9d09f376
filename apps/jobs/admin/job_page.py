"""The page of a job: its state drawn, its facts, its place in the order, and all its attempts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from django.http import HttpRequest
from django.template.loader import render_to_string
from django.urls import reverse
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.translation import gettext, ngettext
from django.utils.translation import gettext_lazy as _

from apps.common import clock
from apps.common.admin.base import Panel, PlatformModelAdmin
from apps.common.admin.display import (
    column,
    json_field,
    shown_text,
    shown_time,
    text_column,
    time_column,
)
from apps.common.admin.timeline import Moment
from apps.jobs.admin import labels
from apps.jobs.admin.state_picture import Pair, state_picture
from apps.jobs.admin.why_not import why_not
from apps.jobs.conf import conf
from apps.jobs.models import Job, JobType
from apps.jobs.rules import order, transitions
from apps.jobs.services.facts import jobs_before
from apps.journal.admin import latest_moments
from apps.journal.admin.words import reason_of
from apps.journal.models import JournalEntry, Source

MAX_ENTRIES = 200
# Each job counted is a step in an index.
MAX_BEFORE = 1_000


class JobPage(PlatformModelAdmin):
    """Before the base of the admin of jobs: fields and panels of a job's page."""

    payload_fields = ("shown_context", "shown_checkpoint", "shown_result")
    facts = (
        "id",
        "shown_status",
        "type_page",
        "plain_key",
        "plain_user",
        "shown_stage",
        "shown_progress",
        "attempts_told",
        "last_end_told",
        "shown_memo",
    )
    times = (
        "told_run_at",
        "shown_expected_at",
        "shown_created_at",
        "shown_submitted_by",
        "shown_started_at",
        "shown_finished_at",
    )
    where = ("worker", "host", "only_host", "told_held_at", "told_lease", "told_hard_end")
    payload = ("shown_context", "checkpoint_told", "shown_checkpoint", "shown_result", "trace_id")

    shown_context = json_field("context", _("context"))
    shown_checkpoint = json_field("checkpoint", _("checkpoint"))
    shown_result = json_field("result", _("result"))
    shown_submitted_by = text_column("submitted_by", _("submitted by"), limit=160)
    shown_expected_at = time_column("expected_at", _("expected"))
    shown_created_at = time_column("created_at", _("created"))
    shown_started_at = time_column("started_at", _("started"))
    shown_finished_at = time_column("finished_at", _("finished"))

    def get_fieldsets(self, request: HttpRequest, obj: Any = None) -> Any:
        parts = (
            (None, self.facts),
            (_("Times"), self.times),
            (_("Where"), self.where),
            (_("Context and result"), self.payload),
        )
        hidden = () if self.has_payload_permission(request, obj) else self.payload_fields
        told = [
            (title, [n for n in names if n not in hidden and self._is_told(n, obj)])
            for title, names in parts
        ]
        return [(title, {"fields": names}) for title, names in told if names]

    def _is_told(self, name: str, job: Job) -> bool:
        """Whether the job has such a fact; a page of what is not would hide what is."""
        field = getattr(self, name, None)
        return (field(job) if field else getattr(job, name)) not in (None, "", "–")

    # --- facts ------------------------------------------------------------------------------------
    @column(_("type"))
    def type_page(self, job: Job) -> SafeString:
        pk = JobType.objects.filter(name=job.type).values_list("pk", flat=True).first()
        if pk is None:
            return format_html("{} · {}", job.type, gettext("there is no such type any more"))
        url = reverse("admin:jobs_jobtype_change", args=[pk])
        return format_html('<a class="text-link" href="{}">{}</a>', url, job.type)

    @column(_("key"))
    def plain_key(self, job: Job) -> SafeString | None:
        if not job.key:
            return None
        url = labels.jobs_url(type=job.type, key=job.key)
        unique = f" · {gettext('one open at a time')}" if job.is_unique else ""
        return format_html('<a class="text-link" href="{}">{}</a>{}', url, job.key, unique)

    @column(_("user"))
    def plain_user(self, job: Job) -> str | None:
        return job.user_id or None

    @column(_("memo"))
    def shown_memo(self, job: Job) -> str:
        return shown_text(reason_of(job.memo))

    @column(_("stage"))
    def shown_stage(self, job: Job) -> str | None:
        return job.stage or None

    @column(_("attempts"))
    def attempts_told(self, job: Job) -> str:
        told = ngettext(
            "%(attempts)d of %(most)d; held %(holds)d time in all",
            "%(attempts)d of %(most)d; held %(holds)d times in all",
            job.holds,
        )
        return told % {"attempts": job.attempts, "most": job.max_attempts, "holds": job.holds}

    @column(_("last end"))
    def last_end_told(self, job: Any) -> str | None:
        return str(job.get_last_end_display()) if job.last_end else None

    @column(_("next run"))
    def told_run_at(self, job: Job) -> SafeString | None:
        if job.status not in transitions.WAITING:
            return None
        return labels.time_from_now(job.run_at, clock.now())

    @column(_("only on host"))
    def only_host(self, job: Job) -> SafeString | None:
        if not job.affinity_host:
            return None
        if job.affinity_until is None:
            return format_html("{}", job.affinity_host)
        until = labels.time_from_now(job.affinity_until, clock.now())
        return format_html("{} · {} {}", job.affinity_host, gettext("until"), until)

    @column(_("held"))
    def told_held_at(self, job: Job) -> SafeString | None:
        return None if job.held_at is None else labels.time_from_now(job.held_at, clock.now())

    @column(_("lease until"))
    def told_lease(self, job: Job) -> SafeString | None:
        if job.lease_until is None or job.status != transitions.RUNNING:
            return None
        return labels.time_from_now(job.lease_until, clock.now())

    @column(_("hard end"))
    def told_hard_end(self, job: Job) -> SafeString | None:
        if job.hard_end_at is None or job.status != transitions.RUNNING:
            return None
        return labels.time_from_now(job.hard_end_at, clock.now())

    @column(_("checkpoint number"))
    def checkpoint_told(self, job: Job) -> int | None:
        return job.sequence or None

    # --- panels -----------------------------------------------------------------------------------
    def top_panels(self, request: HttpRequest, row: Job) -> list[Panel]:
        picture = state_picture(row.status, self._taken(row))
        if row.status not in transitions.WAITING:
            return [Panel("", picture)]
        return [Panel("", picture), Panel(_("Why is it not running?"), why_not(row))]

    def panels(self, request: HttpRequest, row: Job) -> list[Panel]:
        panels = super().panels(request, row)
        if row.status in transitions.WAITING:
            panels.insert(0, Panel(_("Place in the order"), _order(row)))
        return panels

    @staticmethod
    def _entries(row: Job) -> Any:
        return JournalEntry.objects.timeline(Source.JOB, row.pk)

    def _taken(self, row: Job) -> set[Pair]:
        """The arrows between states that the journal tells of; every attempt began with a hold."""
        told = self._entries(row).order_by("-id").values_list("from_state", "to_state")
        taken = {pair for pair in told[:MAX_ENTRIES] if all(pair)}
        if row.holds:
            taken.add((transitions.READY, transitions.RUNNING))
        return taken

    def timeline(self, request: HttpRequest, row: Job) -> Sequence[Moment]:
        shown = latest_moments(
            self._entries(row), shows_payload=self.has_payload_permission(request)
        )
        submitted = Moment(
            at=row.created_at,
            text=gettext("Submitted"),
            icon="add_circle",
            actor=shown_text(row.submitted_by),
        )
        return [submitted, *shown]


def _order(job: Job) -> SafeString:
    """The formula of the order with the numbers of this job, and how many are ahead of it."""
    weight = conf.JOB_PRIORITY_WEIGHT_MS
    base, demotion = labels.base_of(job, weight), order.demotion_ms(job.attempts)
    is_ready = job.status == transitions.READY
    before = jobs_before(job, limit=MAX_BEFORE)
    context = {
        "base": None if base is None else shown_time(base),
        "base_ms": job.order_key - labels.lead(job, weight),
        "priority": job.priority,
        "weight_ms": weight,
        "earned": f"{'+' if job.priority < 0 else '−'} {abs(job.priority * weight)}",
        "attempts": job.attempts,
        "demotion": demotion,
        "order_key": job.order_key,
        "is_strict": weight >= order.STRICT_MS,
        "is_ready": is_ready,
        "before": labels.capped(before, MAX_BEFORE) if before else None,
        "type": job.type,
    }
    return SafeString(render_to_string("admin/includes/job_order.html", context))
