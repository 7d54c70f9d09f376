"""What a call gives to change all rows that a filter means."""

from __future__ import annotations

from typing import Any

from drf_spectacular.utils import extend_schema_field

from apps.bulk.rules.settings import MAX_RATE, MAX_REASON, RATE
from apps.common.conditions import Where
from apps.common.serializer_fields import (
    Boolean,
    Choice,
    Instant,
    Integer,
    Name,
    Names,
    Reason,
    Text,
)
from apps.common.serializers import StrictSerializer
from apps.dispatch.models import Dispatch, Source, Task
from apps.dispatch.rules import dispatch_filter, task_filter, task_verbs
from apps.dispatch.rules import verbs as dispatch_verbs
from apps.jobs.models import Job
from apps.jobs.rules import verbs
from apps.jobs.rules.job_filter import MAX_IDS, MAX_NAME, MAX_TEXT, PAYLOAD
from apps.jobs.rules.order import HIGHEST_PRIORITY, LOWEST_PRIORITY
from apps.jobs.rules.type_settings import MAX_HOST
from apps.jobs.rules.type_snapshot import RANGES

MAX_REQUEST = 100
_MOST = 2**31 - 1
_MIN_ATTEMPTS, _MAX_ATTEMPTS = (int(each) for each in RANGES["max_attempts"])


@extend_schema_field(
    {"oneOf": [{"type": "string"}, {"type": "array", "items": {"type": "string"}}]}
)
class OneOrMore(Names):
    """A name, or a list of some of which one is enough."""

    def to_internal_value(self, data: Any) -> list[str]:
        return super().to_internal_value([data] if isinstance(data, str) else data)


class FilterBody(StrictSerializer):
    ids = OneOrMore(max_items=MAX_IDS, required=False)
    run = Name(
        max_length=19, required=False, help_text="Rows that the bulk run with this id has changed."
    )


class JobFilterBody(FilterBody):
    type = OneOrMore(max_items=MAX_IDS, required=False)
    lane = Name(max_length=8, required=False)
    status = OneOrMore(max_items=len(Job.Status.values), required=False)
    key = Name(max_length=MAX_NAME, required=False)
    user_id = Name(max_length=MAX_NAME, required=False)
    host = Name(max_length=MAX_NAME, required=False)
    worker = Name(max_length=MAX_NAME, required=False)
    client = Name(max_length=MAX_NAME, required=False)
    stage = Name(max_length=MAX_NAME, required=False)
    error_key = Name(max_length=MAX_NAME, required=False)
    priority_from = Integer(min_value=LOWEST_PRIORITY, max_value=HIGHEST_PRIORITY, required=False)
    priority_to = Integer(min_value=LOWEST_PRIORITY, max_value=HIGHEST_PRIORITY, required=False)
    created_after = Instant(required=False)
    created_before = Instant(required=False)
    run_after = Instant(required=False)
    run_before = Instant(required=False)
    finished_after = Instant(required=False)
    finished_before = Instant(required=False)
    where = Where(PAYLOAD)


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
    reason = Reason(max_length=MAX_REASON, required=False, help_text="Required to start.")
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
    executor = Name(
        max_length=MAX_NAME, required=False, help_text="A user; a group stands for its members."
    )
    state = OneOrMore(max_items=len(Dispatch.State.values), required=False)
    source = Choice(choices=Source.choices, required=False)  # type: ignore[assignment]
    task = Integer(min_value=1, max_value=2**63 - 1, required=False)
    dispatched_after = Instant(required=False)
    dispatched_before = Instant(required=False)
    where = Where(dispatch_filter.PAYLOAD)


class DispatchesBulkBody(BulkBody):
    verb = Choice(choices=[*dispatch_verbs.VERBS])
    filter = DispatchFilterBody()


class TaskFilterBody(FilterBody):
    executor = Name(
        max_length=MAX_NAME, required=False, help_text="Whom they reach, also by a group."
    )
    status = OneOrMore(max_items=len(task_filter.STATUSES), required=False)
    mode = Choice(choices=Task.Mode.choices, required=False)
    text = Text(max_length=MAX_TEXT, required=False, help_text="Parts of the title.")
    where = Where(task_filter.PAYLOAD)


class OnceTaskFilterBody(TaskFilterBody):
    start_after = Instant(required=False)
    start_before = Instant(required=False)


class RotateTaskFilterBody(TaskFilterBody):
    runs_after = Instant(required=False, help_text="Those that do not end by then.")
    runs_before = Instant(required=False, help_text="Those that start before it.")


class TaskParamsBody(StrictSerializer):
    shift_seconds = Integer(
        min_value=-verbs.MAX_SHIFT_SECONDS, max_value=verbs.MAX_SHIFT_SECONDS, required=False
    )
    priority = Integer(min_value=LOWEST_PRIORITY, max_value=HIGHEST_PRIORITY, required=False)
    end_at = Instant(required=False)


class OnceTasksBulkBody(BulkBody):
    verb = Choice(choices=[*task_verbs.NAMES])
    filter = OnceTaskFilterBody()
    params = TaskParamsBody(required=False)


class RotateTasksBulkBody(BulkBody):
    verb = Choice(choices=[*task_verbs.NAMES])
    filter = RotateTaskFilterBody()
    params = TaskParamsBody(required=False)
