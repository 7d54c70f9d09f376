"""The JSON of schedules and their runs."""

from __future__ import annotations

from typing import ClassVar

from rest_framework import serializers

from apps.common.api.serializer_fields import Instant, JsonObject
from apps.common.api.serializers import Answer
from apps.dispatch.api.shapes import RuleOut
from apps.schedules.models import Schedule
from apps.schedules.services.filters import STATUSES


class ScheduleOut(Answer):
    payload: ClassVar[tuple[str, ...]] = ("context",)

    id = serializers.IntegerField()
    title = serializers.CharField()
    job_type = serializers.CharField()
    context = JsonObject()  # type: ignore[assignment]
    priority = serializers.IntegerField(allow_null=True, help_text="null: the type's.")
    max_attempts = serializers.IntegerField(allow_null=True, help_text="null: the type's.")
    rule = RuleOut(allow_null=True, help_text="null: once, at its start.")
    summary = serializers.CharField(help_text="The rule in plain words.")
    time_zone = serializers.CharField()
    start_at = Instant()
    end_at = Instant(allow_null=True)
    misfire = serializers.ChoiceField(choices=Schedule.Misfire.choices)
    misfire_limit = serializers.IntegerField()
    overlap = serializers.ChoiceField(choices=Schedule.Overlap.choices)
    status = serializers.ChoiceField(choices=STATUSES)
    next_due = serializers.ListField(
        child=Instant(), help_text="The next ten runs; none while it is paused or has ended."
    )
    last_job = serializers.CharField(allow_null=True, help_text="A decimal string.")
    version = serializers.IntegerField()
    created_at = Instant()
    updated_at = Instant()


class ScheduleRunOut(Answer):
    payload = ("why",)

    id = serializers.IntegerField()
    at = Instant(help_text="When it was planned for.")
    by_hand = serializers.BooleanField()
    job = serializers.CharField(allow_null=True, help_text="A decimal string; null: none was made.")
    why = serializers.CharField(help_text="Why no job was made.")
