"""The JSON of jobs, their journal and job types, and how OpenAPI tells of it."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from rest_framework import serializers

from apps.common.messages import wire_time
from apps.jobs.models import Job, JobType
from apps.jobs.rules.type_settings import SETTINGS
from apps.jobs.services.submit import Submitted
from apps.journal.models import JournalEntry

BREAKER = "breaker_"


def _wire(at: datetime | None) -> str | None:
    return None if at is None else wire_time(at)


def job_shape(job: Job) -> dict[str, Any]:
    """JOB of the wire contract."""
    return {
        "id": str(job.pk),
        "type": job.type,
        "key": job.key,
        "user_id": job.user_id,
        "status": job.status,
        "stage": job.stage,
        "priority": job.priority,
        "run_at": wire_time(job.run_at),
        "attempts": job.attempts,
        "max_attempts": job.max_attempts,
        "holds": job.holds,
        "progress": job.percent,
        "cancel_requested": job.cancel_requested,
        "worker": job.worker,
        "host": job.host,
        "held_at": _wire(job.held_at),
        "lease_until": _wire(job.lease_until),
        "memo": job.memo,
        "result": job.result,
        "created_at": wire_time(job.created_at),
        "started_at": _wire(job.started_at),
        "finished_at": _wire(job.finished_at),
        "trace_id": job.trace_id,
        "version": job.version,
    }


def job_detail_shape(job: Job) -> dict[str, Any]:
    """JOB and what is too long for a list."""
    return {
        **job_shape(job),
        "context": job.context,
        "checkpoint": job.checkpoint,
        "order_key": job.order_key,
        "affinity_host": job.affinity_host,
        "affinity_until": _wire(job.affinity_until),
    }


def submitted_shape(submitted: Submitted) -> dict[str, Any]:
    return {
        "id": str(submitted.id),
        "created": submitted.created,
        "status": submitted.status,
    }


def entry_shape(entry: JournalEntry) -> dict[str, Any]:
    return {
        "id": str(entry.pk),
        "at": wire_time(entry.at),
        "event": entry.event,
        "from_state": entry.from_state,
        "to_state": entry.to_state,
        "attempt": entry.attempt,
        "worker": entry.worker,
        "host": entry.host,
        "actor": entry.actor,
        "reason": entry.reason,
        "wait_ms": entry.wait_ms,
        "run_ms": entry.run_ms,
        "error": entry.error,
        "data": entry.data,
    }


def job_type_shape(job_type: JobType) -> dict[str, Any]:
    """JOBTYPE of the wire contract."""
    settings = {name: getattr(job_type, name) for name in SETTINGS}
    breaker = {
        name.removeprefix(BREAKER): settings.pop(name)
        for name in SETTINGS
        if name.startswith(BREAKER)
    }
    settings["paused_until"] = _wire(settings["paused_until"])
    return {
        "name": job_type.name,
        **settings,
        "breaker": breaker,
        "version": job_type.version,
        "created_at": wire_time(job_type.created_at),
        "updated_at": wire_time(job_type.updated_at),
    }


def settings_of(body: dict[str, Any]) -> dict[str, Any]:
    """The settings as services know them: the breaker's are not nested there."""
    breaker = body.pop("breaker", {})
    return {**body, **{f"{BREAKER}{name}": value for name, value in breaker.items()}}


class JobOut(serializers.Serializer[Any]):
    id = serializers.CharField(help_text="A decimal string.")
    type = serializers.CharField()
    key = serializers.CharField()
    user_id = serializers.CharField()
    status = serializers.ChoiceField(choices=Job.Status.choices)
    stage = serializers.CharField()
    priority = serializers.IntegerField()
    run_at = serializers.DateTimeField(help_text="When it may run next.")
    attempts = serializers.IntegerField(help_text="Of this stage, since the last retry by hand.")
    max_attempts = serializers.IntegerField()
    holds = serializers.IntegerField(help_text="How often a worker took it, ever.")
    progress = serializers.IntegerField(allow_null=True)
    cancel_requested = serializers.BooleanField()
    worker = serializers.CharField()
    host = serializers.CharField()
    held_at = serializers.DateTimeField(allow_null=True)
    lease_until = serializers.DateTimeField(allow_null=True)
    memo = serializers.CharField()
    result = serializers.JSONField(allow_null=True)
    created_at = serializers.DateTimeField()
    started_at = serializers.DateTimeField(allow_null=True, help_text="When it was first held.")
    finished_at = serializers.DateTimeField(allow_null=True)
    trace_id = serializers.CharField()
    version = serializers.IntegerField()


class JobDetailOut(JobOut):
    context = serializers.DictField()  # type: ignore[assignment]
    checkpoint = serializers.JSONField(allow_null=True)
    order_key = serializers.IntegerField(help_text="The lowest of a type is held first.")
    affinity_host = serializers.CharField(help_text="The only host that may hold it; empty: any.")
    affinity_until = serializers.DateTimeField(allow_null=True)


class SubmittedOut(serializers.Serializer[Any]):
    id = serializers.CharField(help_text="A decimal string.")
    created = serializers.BooleanField(help_text="False: this is the open twin's id.")
    status = serializers.ChoiceField(choices=Job.Status.choices)


class SubmittedManyOut(serializers.Serializer[Any]):
    jobs = SubmittedOut(many=True)


class EntryOut(serializers.Serializer[Any]):
    id = serializers.CharField()
    at = serializers.DateTimeField()
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
    data = serializers.DictField(allow_null=True)  # type: ignore[assignment]


class BreakerOut(serializers.Serializer[Any]):
    enabled = serializers.BooleanField()
    failure_rate = serializers.FloatField()
    window_seconds = serializers.IntegerField()
    min_calls = serializers.IntegerField()
    open_seconds = serializers.IntegerField()


class JobTypeOut(serializers.Serializer[Any]):
    name = serializers.CharField()
    title = serializers.CharField()
    handler = serializers.CharField()
    lane = serializers.ChoiceField(choices=JobType.Lane.choices)
    unique = serializers.ChoiceField(choices=JobType.Unique.choices)
    origin = serializers.ChoiceField(choices=JobType.Origin.choices)
    settle = serializers.ChoiceField(choices=JobType.Settle.choices)
    stages = serializers.ListField(child=serializers.CharField())
    params_schema = serializers.DictField()
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
    origin_grace_seconds = serializers.IntegerField()
    retention_days = serializers.IntegerField(allow_null=True)
    allowed_hosts = serializers.ListField(child=serializers.CharField())
    paused = serializers.BooleanField()
    pause_reason = serializers.CharField()
    paused_until = serializers.DateTimeField(allow_null=True)
    breaker = BreakerOut()
    version = serializers.IntegerField()
    created_at = serializers.DateTimeField()
    updated_at = serializers.DateTimeField()
