"""A rule of occurrences and its time zone in a body: of repeating tasks and of schedules."""

from __future__ import annotations

from typing import Any

from apps.common.api.serializer_fields import Integer, Text
from apps.common.api.serializers import StrictSerializer
from apps.common.zones import parse_zone
from apps.dispatch.api.shapes import require
from apps.dispatch.rules.recurrence import DAYS, MINUTES, parse_rule


class EveryMinutesBody(StrictSerializer):
    every_minutes = Integer(min_value=MINUTES[0], max_value=MINUTES[1])


class EveryDaysBody(StrictSerializer):
    every_days = Integer(min_value=DAYS[0], max_value=DAYS[1])
    at = Text(max_length=8, help_text="Local time of day: 09:30 or 09:30:00.")


class CronBody(StrictSerializer):
    cron = Text(max_length=100, help_text="Five fields: 0 9 * * 1-5")


class RuleBody(StrictSerializer):
    """Exactly one of every_minutes, every_days with at, and cron."""

    shapes = (EveryMinutesBody, EveryDaysBody, CronBody)

    def to_internal_value(self, data: Any) -> dict[str, Any]:
        rule = super().to_internal_value(data)
        require(parse_rule, rule, field="rule")
        return rule


class ZoneName(Text):
    """The name of a time zone."""

    def to_internal_value(self, data: Any) -> str:
        name = super().to_internal_value(data)
        require(parse_zone, name, field="time_zone")
        return name
