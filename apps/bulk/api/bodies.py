"""The bodies of calls that change all rows that a filter means."""

from __future__ import annotations

from apps.bulk.rules.settings import MAX_RATE, MAX_REASON, RATE
from apps.common.api.filter_fields import FilterBody
from apps.common.api.serializer_fields import (
    Boolean,
    Choice,
    Instant,
    Integer,
    Name,
    ReasonText,
    Text,
)
from apps.common.api.serializers import StrictSerializer
from apps.dispatch.rules import dispatch_verbs, task_verbs
from apps.dispatch.services.filtered import DispatchFilters, OnceTaskFilters, RotateTaskFilters
from apps.jobs.rules import verbs
from apps.jobs.rules.order import HIGHEST_PRIORITY, LOWEST_PRIORITY
from apps.jobs.rules.type_settings import MAX_HOST
from apps.jobs.rules.type_snapshot import RANGES
from apps.jobs.services.job_filters import JobFilters

MAX_REQUEST = 100
_MOST = 2**31 - 1
_MIN_ATTEMPTS, _MAX_ATTEMPTS = (int(each) for each in RANGES["max_attempts"])


class UndoBody(StrictSerializer):
    reason = Text(required=False, allow_blank=True, default="", max_length=MAX_REASON)


class JobFilterBody(FilterBody):
    filters = JobFilters


class JobParamsBody(StrictSerializer):
    priority = Integer(min_value=LOWEST_PRIORITY, max_value=HIGHEST_PRIORITY, required=False)
    run_at = Instant(required=False, help_text="Of time: the instant for all, or for the oldest.")
    spread_seconds = Integer(
        min_value=1,
        max_value=verbs.MAX_SHIFT_SECONDS,
        required=False,
        help_text="Of time: evenly over so long, from run_at or from the start of the run.",
    )
    shift_seconds = Integer(
        min_value=-verbs.MAX_SHIFT_SECONDS,
        max_value=verbs.MAX_SHIFT_SECONDS,
        required=False,
        help_text="Of time: later by so much, or earlier.",
    )
    max_attempts = Integer(min_value=_MIN_ATTEMPTS, max_value=_MAX_ATTEMPTS, required=False)
    host = Name(
        max_length=MAX_HOST, required=False, allow_blank=True, help_text="Of move; empty: any."
    )
    succeeded = Boolean(required=False, help_text="Of retry: succeeded jobs, too.")
    keep_time = Boolean(
        required=False, help_text="Of retry: cancelled jobs not before they were due."
    )


class BulkBody(StrictSerializer):
    """Some fields belong to kinds of rows: each kind adds verb, filter and params."""

    # A start with both limits, with none, or without a reason.
    never = {
        "properties": {"dry_run": {"enum": [False]}},
        "anyOf": [
            {"properties": {"all": {"enum": [True]}}, "required": ["all", "at_most"]},
            {"properties": {"all": {"enum": [False]}}, "not": {"required": ["at_most"]}},
            {"not": {"required": ["reason"]}},
        ],
    }
    reason = ReasonText(max_length=MAX_REASON, required=False, help_text="Required to start.")
    dry_run = Boolean(required=False, default=False, help_text="Only say what would change.")
    at_most = Integer(
        min_value=1,
        max_value=_MOST,
        required=False,
        help_text="If more rows match, nothing is changed. Required unless all is true.",
    )
    all = Boolean(required=False, default=False, help_text="However many match.")
    rate = Integer(
        min_value=1, max_value=MAX_RATE, default=RATE, help_text="Rows per second at most."
    )
    request_id = Name(
        max_length=MAX_REQUEST, required=False, help_text="A repeat gets the first run."
    )


class JobsBulkBody(BulkBody):
    verb = Choice(choices=[*verbs.VERBS])
    filter = JobFilterBody()
    params = JobParamsBody(required=False)


class DispatchFilterBody(FilterBody):
    filters = DispatchFilters


class DispatchesBulkBody(BulkBody):
    verb = Choice(choices=[*dispatch_verbs.VERBS])
    filter = DispatchFilterBody()


class OnceTaskFilterBody(FilterBody):
    filters = OnceTaskFilters


class RotateTaskFilterBody(FilterBody):
    filters = RotateTaskFilters


class TaskParamsBody(StrictSerializer):
    shift_seconds = Integer(
        min_value=-verbs.MAX_SHIFT_SECONDS, max_value=verbs.MAX_SHIFT_SECONDS, required=False
    )
    priority = Integer(min_value=LOWEST_PRIORITY, max_value=HIGHEST_PRIORITY, required=False)
    end_at = Instant(required=False)
    version = Integer(
        min_value=1,
        max_value=task_verbs.MAX_VERSION,
        required=False,
        help_text="Of version: the version that each has then of its own template.",
    )


class OnceTasksBulkBody(BulkBody):
    verb = Choice(choices=[*task_verbs.NAMES])
    filter = OnceTaskFilterBody()
    params = TaskParamsBody(required=False)


class RotateTasksBulkBody(BulkBody):
    verb = Choice(choices=[*task_verbs.NAMES])
    filter = RotateTaskFilterBody()
    params = TaskParamsBody(required=False)
