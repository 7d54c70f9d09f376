"""The JSON of jobs, their journal and job types."""

from __future__ import annotations

from typing import ClassVar

from rest_framework import serializers

from apps.common.api.serializer_fields import Instant, StoredObject, StoredTexts
from apps.common.api.serializers import Answer, UndoableOut
from apps.jobs.models import Job, JobType
from apps.jobs.rules.submission import TWIN


class JobOut(Answer):
    payload: ClassVar[tuple[str, ...]] = ("memo", "result")

    id = serializers.CharField(source="pk", help_text="A decimal string.")
    type = serializers.CharField()
    key = serializers.CharField()
    user_id = serializers.CharField()
    status = serializers.ChoiceField(choices=Job.Status.choices)
    stage = serializers.CharField()
    priority = serializers.IntegerField()
    run_at = Instant(help_text="When it may run next.")
    attempts = serializers.IntegerField(help_text="In this stage, since the last manual retry.")
    max_attempts = serializers.IntegerField()
    holds = serializers.IntegerField(help_text="How often workers have held it in total.")
    progress = serializers.IntegerField(source="percent", allow_null=True)
    cancel_requested = serializers.BooleanField()
    worker = serializers.CharField()
    host = serializers.CharField()
    held_at = Instant(allow_null=True)
    lease_until = Instant(allow_null=True)
    memo = serializers.CharField()
    result = serializers.JSONField(allow_null=True)
    created_at = Instant()
    started_at = Instant(allow_null=True, help_text="When it was first held.")
    finished_at = Instant(allow_null=True)
    trace_id = serializers.CharField()
    version = serializers.IntegerField()


class FollowUpOut(Answer):
    id = serializers.CharField(source="pk", help_text="A decimal string.")
    type = serializers.CharField()
    key = serializers.CharField()
    status = serializers.ChoiceField(choices=Job.Status.choices)


class ListedJobOut(JobOut):
    archived_at = Instant(allow_null=True, help_text="When it went to the archive.")
    part_of = serializers.CharField(
        allow_null=True, help_text="The step of a flow that it is one of."
    )
    parent = serializers.CharField(  # type: ignore[assignment]
        allow_null=True, help_text="The job that submitted it with its end."
    )
    together = serializers.CharField(
        allow_null=True, help_text="The first of the jobs that were submitted everywhere with it."
    )


class JobDetailOut(ListedJobOut):
    payload = (*JobOut.payload, "context", "checkpoint")

    context = StoredObject()  # type: ignore[assignment]
    checkpoint = serializers.JSONField(allow_null=True)
    order_key = serializers.IntegerField(
        allow_null=True, help_text="The lowest of a type is held first. Null in the archive."
    )
    affinity_host = serializers.CharField(help_text="The only host that may run it. Empty: any.")
    affinity_until = Instant(allow_null=True)
    follow_ups = FollowUpOut(many=True, help_text="The jobs that it submitted with its end.")


class JobActOut(UndoableOut, JobDetailOut):
    pass


class SubmittedOut(Answer):
    id = serializers.CharField(help_text="A decimal string.")
    created = serializers.BooleanField(
        help_text="False: the id is that of the job that has this key."
    )
    status = serializers.ChoiceField(choices=Job.Status.choices)
    twin = serializers.ChoiceField(
        choices=["", *TWIN],
        help_text="What was done to the job that has this key: it was returned as it is, replaced "
        "or moved. Empty: this one was made.",
    )


class SubmittedThereOut(SubmittedOut):
    host = serializers.CharField(
        help_text="With `everywhere` the only host that may run it, else empty."
    )


class SubmittedManyOut(Answer):
    jobs = SubmittedThereOut(many=True)


class EntryOut(Answer):
    payload = ("reason", "error", "data")

    id = serializers.CharField(source="pk")
    at = Instant()
    event = serializers.CharField()
    from_state = serializers.CharField()
    to_state = serializers.CharField()
    attempt = serializers.IntegerField(allow_null=True)
    worker = serializers.CharField()
    host = serializers.CharField()
    actor = serializers.CharField()
    reason = serializers.CharField()
    wait_ms = serializers.IntegerField(allow_null=True)
    run_ms = serializers.IntegerField(allow_null=True)
    error = serializers.CharField()
    data = StoredObject(allow_null=True)  # type: ignore[assignment]


class LineOut(Answer):
    at = Instant(allow_null=True)
    text = serializers.CharField()


class AttemptLogOut(Answer):
    attempt = serializers.IntegerField(help_text="As in the journal; it begins anew with a retry.")
    hold = serializers.IntegerField(help_text="Which hold of the job it was, in total.")
    lines = LineOut(many=True)
    left_out = serializers.IntegerField(help_text="Further lines that were not kept.")


class LogOut(Answer):
    attempts = AttemptLogOut(many=True)
    after = serializers.CharField(help_text="Where to go on: give it as after the next time.")
    more = serializers.BooleanField(help_text="Whether there is more already.")
    status = serializers.ChoiceField(choices=Job.Status.choices)


class BreakerOut(Answer):
    failure_rate = serializers.FloatField(source="breaker_failure_rate")
    window_seconds = serializers.IntegerField(source="breaker_window_seconds")
    min_calls = serializers.IntegerField(source="breaker_min_calls")
    open_seconds = serializers.IntegerField(source="breaker_open_seconds")
    enabled = serializers.BooleanField(source="breaker_enabled")


class JobTypeOut(Answer):
    payload = ("pause_reason",)

    name = serializers.CharField()
    title = serializers.CharField()
    handler = serializers.CharField()
    lane = serializers.ChoiceField(choices=JobType.Lane.choices)
    unique = serializers.ChoiceField(choices=JobType.Unique.choices)
    pool = serializers.BooleanField(help_text="Always unique, whatever unique says.")
    origin = serializers.ChoiceField(choices=JobType.Origin.choices)
    settle = serializers.ChoiceField(choices=JobType.Settle.choices)
    stages = StoredTexts()
    params_schema = StoredObject()
    weight = serializers.IntegerField()
    batch_limit = serializers.IntegerField()
    lease_seconds = serializers.IntegerField()
    max_processing_seconds = serializers.IntegerField()
    max_attempts = serializers.IntegerField()
    retry_delay_seconds = serializers.FloatField()
    retry_multiplier = serializers.FloatField()
    retry_max_seconds = serializers.FloatField()
    retry_jitter = serializers.FloatField()
    expires_after_seconds = serializers.IntegerField(allow_null=True)
    default_priority = serializers.IntegerField()
    max_running = serializers.IntegerField(allow_null=True)
    rate_per_minute = serializers.IntegerField(allow_null=True)
    limit_by = serializers.CharField(
        help_text="What jobs are limited by: key, user_id, or a path of the context."
    )
    limit_running = serializers.IntegerField(
        allow_null=True, help_text="Jobs of one key that may be ready or running at once."
    )
    limit_per_minute = serializers.IntegerField(
        allow_null=True, help_text="Jobs of one key that may become ready in a minute."
    )
    limit_burst = serializers.IntegerField(
        allow_null=True, help_text="How many of these may come at once. Null: those of a second."
    )
    origin_grace_seconds = serializers.IntegerField()
    retention_days = serializers.IntegerField(allow_null=True)
    allowed_hosts = StoredTexts()
    paused = serializers.BooleanField()
    pause_reason = serializers.CharField()
    paused_until = Instant(allow_null=True)
    breaker = BreakerOut(source="*")
    version = serializers.IntegerField()
    created_at = Instant()
    updated_at = Instant()
