"""The form of a job type: every setting with what it means and what it may be."""

from __future__ import annotations

from typing import Any

from django.utils.html import escape
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from apps.common.admin import VersionedForm
from apps.common.admin.json_text import JsonTextField
from apps.common.admin.schema_fields import Lines
from apps.jobs.handlers import registry
from apps.jobs.models import JobType
from apps.jobs.rules.type_snapshot import RANGES

MAX_HANDLERS = 30
FIELDSETS: tuple[tuple[Any, tuple[str, ...]], ...] = (
    (None, ("name", "title", "handler", "lane")),
    (
        _("What is submitted"),
        ("params_schema", "stages", "unique", "default_priority", "expires_after_seconds"),
    ),
    (
        _("Attempts and retries"),
        (
            "max_attempts",
            "retry_delay_seconds",
            "retry_multiplier",
            "retry_max_seconds",
            "retry_jitter",
        ),
    ),
    (_("Time limits"), ("lease_seconds", "max_processing_seconds")),
    (
        _("How much at once"),
        ("weight", "batch_limit", "max_running", "rate_per_minute", "settle"),
    ),
    (_("Where it runs"), ("allowed_hosts", "origin", "origin_grace_seconds")),
    (
        _("Circuit breaker"),
        (
            "breaker_enabled",
            "breaker_failure_rate",
            "breaker_window_seconds",
            "breaker_min_calls",
            "breaker_open_seconds",
        ),
    ),
    (_("Keeping"), ("retention_days",)),
)
FIELDS = tuple(name for _title, names in FIELDSETS for name in names)

HELP = {
    "name": _("What submitters and workers call it; it cannot be changed later."),
    "handler": _(
        "The registered function that runs it in-house. Empty: only workers over HTTP do."
    ),
    "lane": _("Slow work has workers of its own, so that it never stands in the way of fast work."),
    "params_schema": _(
        "JSON Schema 2020-12 that every context must fit; {} takes any object. The form for new "
        "jobs is made from it."
    ),
    "stages": _("Names of the stages in their order, one a line; empty: a single stage."),
    "unique": _("Whether one job at a time may be open for a key."),
    "default_priority": _("For jobs submitted without one; higher goes first."),
    "expires_after_seconds": _(
        "So long after its expected time a job is not retried any more. Empty: for ever."
    ),
    "max_attempts": _("Holds of a stage before the job fails for good; lost and slow ones count."),
    "retry_delay_seconds": _("The wait after the first failed attempt."),
    "retry_multiplier": _("Each further wait is so many times the one before."),
    "retry_max_seconds": _("No wait is longer than this."),
    "retry_jitter": _(
        "0.1 spreads each wait by ±10 %, so that failures do not return all at once."
    ),
    "lease_seconds": _("How long a silent worker is believed before its jobs are taken back."),
    "max_processing_seconds": _(
        "The end of one attempt since it was held or last saved a checkpoint."
    ),
    "weight": _("Its share of the places when several types have work."),
    "batch_limit": _("Most jobs that one hold takes."),
    "max_running": _("In the whole cluster; 0 stops the type. Empty: no limit."),
    "rate_per_minute": _("Attempts begun in the whole cluster. Empty: no limit."),
    "settle": _("In batches is faster; each at once loses nothing to a killed worker."),
    "allowed_hosts": _("Only workers on these hosts hold its jobs, one a line; empty: all."),
    "origin": _("Where a retry goes: to any host, or first to the one that ran it."),
    "origin_grace_seconds": _("After this long without that host, any other may take the retry."),
    "breaker_enabled": _("Stop taking jobs while most of them fail, and probe one at a time."),
    "breaker_failure_rate": _("0.5 opens it when half of the attempts fail."),
    "breaker_window_seconds": _("Attempts are counted in windows of this length."),
    "breaker_min_calls": _("With fewer attempts in a window it stays closed."),
    "breaker_open_seconds": _("Then one job probes whether it works again."),
    "retention_days": _("How long finished jobs are kept. Empty: as the platform does."),
}


class JobTypeForm(VersionedForm):
    params_schema = JsonTextField(label=_("Schema of the context"), rows=10, required=False)
    stages = Lines(label=_("Stages"), is_demanded=True, required=False)
    allowed_hosts = Lines(label=_("Allowed hosts"), is_demanded=True, required=False)

    class Meta:
        model = JobType
        fields = FIELDS
        help_texts = HELP

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        for name, field in self.fields.items():
            told = str(HELP.get(name, ""))
            if name in RANGES:
                least, most = RANGES[name]
                told += gettext(" %(least)s to %(most)s.") % {
                    "least": f"{least:g}",
                    "most": f"{most:,.0f}" if most >= 1000 else f"{most:g}",
                }
            if name == "handler" and (known := sorted(registry.names())):
                told += gettext(" Known here: %s.") % ", ".join(known[:MAX_HANDLERS])
            # The theme prints help texts as they are.
            field.help_text = escape(told)

    def clean_params_schema(self) -> dict[str, Any]:
        return self.cleaned_data["params_schema"] or {}
