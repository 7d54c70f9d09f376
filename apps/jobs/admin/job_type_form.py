"""The form of a job type: every setting with what it means and what it may be."""

from __future__ import annotations

import contextlib
import copy
from collections.abc import Sequence
from typing import Any

from django import forms
from django.utils.functional import cached_property
from django.utils.html import escape
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from apps.common.admin.display import listed
from apps.common.admin.durations import written
from apps.common.admin.json_text import JsonTextField
from apps.common.admin.schema_fields import LinesFormField
from apps.common.admin.service import DRAFT, OWN_FIELDS, ServiceForm
from apps.jobs.handlers import registry
from apps.jobs.models import JobType
from apps.jobs.rules.type_presets import PRESETS
from apps.jobs.rules.type_snapshot import RANGES

MAX_HANDLERS = 30
FIELDSETS: tuple[tuple[Any, tuple[str, ...]], ...] = (
    (None, ("name", "title", "handler", "lane")),
    (
        _("Submission"),
        ("params_schema", "stages", "unique", "pool", "default_priority", "expires_after_seconds"),
    ),
    (
        _("Tries and waits"),
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
        _("Limits"),
        ("weight", "batch_limit", "max_running", "rate_per_minute", "settle"),
    ),
    (
        _("Limits by key"),
        ("limit_by", "limit_running", "limit_per_minute", "limit_burst"),
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
    (_("Retention"), ("retention_days",)),
)
# These have a row of their own.
LONG_FIELDS = ("params_schema", "stages", "allowed_hosts", "breaker_enabled")
# The settings in which most types differ; the form folds the rest.
RUNS = ("handler", "max_processing_seconds", "max_running")
FAILS = ("max_attempts", "retry_delay_seconds", "retry_multiplier")
PROTECTION = ("breaker_enabled", "rate_per_minute", "unique")
# The purpose of a draft: a preset by its name, or the comparison with the stored settings.
PRESET, WHAT_IF = "preset:", "what_if"
FIELDS = tuple(name for _title, names in FIELDSETS for name in names)
MORE = tuple(name for name in FIELDS if name not in {"name", *RUNS, *FAILS, *PROTECTION})

HELP = {
    "name": _("The name that submitters and workers use. It cannot be changed later."),
    "handler": _(
        "The registered function that runs the jobs in-house. Empty: only workers over HTTP run "
        "them."
    ),
    "lane": _("Slow jobs have workers of their own, so that they never delay fast jobs."),
    "params_schema": _(
        "JSON Schema 2020-12 of the context. {} accepts any object. The form for new jobs is "
        "built from it."
    ),
    "stages": _(
        "Names of the stages in order, one per line; * alone: any stage. Empty: a single stage."
    ),
    "unique": _("Whether only one job per key may be open at a time."),
    "pool": _(
        "Its jobs are keys with scores, lower ones first, that workers hold by the bucket. There "
        "is one open job per key. This cannot be changed while jobs are open."
    ),
    "default_priority": _("For jobs submitted without a priority. Higher goes first."),
    "expires_after_seconds": _("Stop retrying this long after the scheduled time. Empty: never."),
    "max_attempts": _("Maximum tries per stage. Timeouts and workers that go offline count."),
    "retry_delay_seconds": _("Wait after the first failed try."),
    "retry_multiplier": _("Each further wait is the previous one multiplied by this."),
    "retry_max_seconds": _("Upper limit of a wait."),
    "retry_jitter": _("0.1 varies each wait by ±10 %, so that retries do not all come at once."),
    "lease_seconds": _(
        "Length of a lease. Workers renew it; a job whose lease has ended is taken back."
    ),
    "max_processing_seconds": _(
        "Deadline of a try, counted from its start or its last checkpoint."
    ),
    "weight": _("Share of the slots when several types have work."),
    "batch_limit": _(
        "Maximum number of jobs per hold. Workers in-house hold more only while all of them take "
        "50 ms."
    ),
    "max_running": _("In the whole cluster. 0 stops the type. Empty: no limit."),
    "rate_per_minute": _("Tries started in the whole cluster. Empty: no limit."),
    "limit_by": _(
        "By what the jobs are limited: key, user_id, or a path of the context, such as "
        "context.customer. Jobs that are open already do not count. Empty: no limit."
    ),
    "limit_running": _(
        "Jobs of one key that may be ready or running at once; the others are blocked and take "
        "turns. Empty: any number."
    ),
    "limit_per_minute": _("Jobs of one key that may become ready in a minute. Empty: any number."),
    "limit_burst": _("How many of these may come at once. Empty: those of one second."),
    "settle": _("In batches is faster. Each at once loses no result when a worker is killed."),
    "allowed_hosts": _(
        "Only workers on these hosts run the jobs, one host per line. Empty: all hosts."
    ),
    "origin": _("Where a retry runs: on any host, or on the host of the last try first."),
    "origin_grace_seconds": _(
        "After this long without a worker on that host, any other host may run the retry."
    ),
    "breaker_enabled": _(
        "Start no jobs while most of them fail, then test with one job at a time."
    ),
    "breaker_failure_rate": _("0.5 opens the breaker when half of the tries fail."),
    "breaker_window_seconds": _("Tries are counted in windows of this length."),
    "breaker_min_calls": _("With fewer tries in a window the breaker stays closed."),
    "breaker_open_seconds": _("After this time, one job tests whether the cause is gone."),
    "retention_days": _(
        "For how long ended jobs are kept, if shorter than those of other types. Empty: as long."
    ),
}


def _number(value: float) -> str:
    return f"{value:,.0f}" if value >= 1000 else f"{value:g}"


class JobTypeForm(ServiceForm):
    params_schema = JsonTextField(label=_("Schema of the context"), rows=10, required=False)
    stages = LinesFormField(label=_("Stages"), is_mandatory=True, required=False)
    allowed_hosts = LinesFormField(label=_("Allowed hosts"), is_mandatory=True, required=False)

    class Meta:
        model = JobType
        fields = FIELDS
        help_texts = HELP

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._take_preset()
        for name, field in self.fields.items():
            text = str(HELP.get(name, ""))
            if name in RANGES:
                low, high = RANGES[name]
                shown = written if name.endswith("_seconds") else _number
                text += gettext(" %(min)s to %(max)s.") % {"min": shown(low), "max": shown(high)}
            if name == "handler" and (
                known := sorted({*registry.names()} - registry.closing().keys())
            ):
                text += gettext(" Registered here: %s.") % listed(known[:MAX_HANDLERS])
            # The theme prints help texts as they are.
            field.help_text = escape(text)

    def _take_preset(self) -> None:
        """Fill in the preset that a draft asks for; what else was typed stays."""
        asked = self.draft.removeprefix(PRESET) if self.draft.startswith(PRESET) else ""
        if asked in PRESETS:
            sent = self.data.copy()  # type: ignore[attr-defined]
            for name, value in PRESETS[asked].items():
                sent.pop(name, None)
                if value is not False:
                    is_time = name.endswith("_seconds")
                    sent[name] = written(value) if is_time else str(value)
            self.data = sent

    @property
    def draft(self) -> str:
        """The reason to draw the form again instead of saving it; "" for none."""
        return str(self.data.get(DRAFT, "")) if self.is_draft else ""

    @property
    def may_change(self) -> bool:
        return "handler" in self.fields

    @cached_property
    def typed(self) -> JobType:
        """A type with the present values of the form; for a value that cannot be read, the stored
        one."""
        made: JobType = copy.copy(self.instance)
        if self.is_bound:
            for name, field in self.fields.items():
                if name in OWN_FIELDS:
                    continue
                sent = field.widget.value_from_datadict(self.data, self.files, name)
                with contextlib.suppress(forms.ValidationError):
                    setattr(made, name, field.clean(sent))
        return made

    def parts(self, names: Sequence[str]) -> list[forms.BoundField]:
        return [self[name] for name in names if name in self.fields]

    @property
    def has_more_errors(self) -> bool:
        return not self.errors.keys().isdisjoint(MORE)

    def clean_params_schema(self) -> dict[str, Any]:
        return self.cleaned_data["params_schema"] or {}
