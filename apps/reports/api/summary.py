"""The figures of the report pages as JSON."""

from __future__ import annotations

from datetime import timedelta
from functools import cached_property
from typing import Any

from django.conf import settings
from rest_framework import serializers
from rest_framework.request import Request

from apps.access.bindings import executors_of, is_bound_to_executors, job_types_of
from apps.access.rules.clients import Binding
from apps.common import clock
from apps.common.api.serializer_fields import Choice, Instant, Text
from apps.common.api.serializers import Answer, StrictSerializer
from apps.common.api.views import ApiView, JsonAnswer
from apps.common.errors import Forbidden
from apps.common.messages import wire_time
from apps.common.zones import parse_zone
from apps.reports.rules.outcomes import DISPATCH, JOB, SOURCES
from apps.reports.services.summary import (
    GROUPINGS,
    Figures,
    Period,
    summarise,
    users_within,
)

USUAL = timedelta(days=7)


class SummaryQuery(StrictSerializer):
    """`from` and `to` beside; a word of Python cannot be declared like a field."""

    source = Choice(choices=SOURCES)  # type: ignore[assignment]
    by = Choice(
        choices=GROUPINGS,
        help_text="Of jobs type, host and worker, of dispatches task and executor, of flows flow, "
        "of steps step (`flow/step`); hour and day.",
    )
    time_zone = Text(
        max_length=64,
        required=False,
        help_text="Where hours and days begin, as Asia/Shanghai; the server's when it is absent.",
    )

    def get_fields(self) -> dict[str, Any]:
        period = {
            "from": Instant(required=False, help_text="7 days before `to`, when it is absent."),
            "to": Instant(required=False, help_text="Not included; now, when it is absent."),
        }
        return {**super().get_fields(), **period}


class PercentilesOut(Answer):
    """Milliseconds, off by 2 % at most; null of nothing."""

    p50 = serializers.IntegerField(allow_null=True)
    p95 = serializers.IntegerField(allow_null=True)
    p99 = serializers.IntegerField(allow_null=True)


class FiguresOut(Answer):
    group = serializers.CharField(
        help_text="The type, task, flow, step, executor, host, worker, hour or day."
    )
    start = Instant(allow_null=True, help_text="Of an hour or a day.")
    total = serializers.IntegerField(
        help_text="Ends of dispatches, of attempts at jobs, of runs or steps."
    )
    succeeded = serializers.IntegerField()
    failed = serializers.IntegerField(help_text="For good.")
    retried = serializers.IntegerField(
        help_text="Attempts that another follows; hand-outs that repeat one without success."
    )
    timed_out = serializers.IntegerField(
        help_text="Final: the deadline of the last attempt passed."
    )
    expired = serializers.IntegerField()
    released = serializers.IntegerField()
    cancelled = serializers.IntegerField()
    stage_done = serializers.IntegerField(help_text="Attempts that ended a stage of a job.")
    success_rate = serializers.FloatField(
        allow_null=True,
        help_text="succeeded / (succeeded + failed + timed_out + expired); null of nothing.",
    )
    wait = PercentilesOut(help_text="From due to begun.")
    run = PercentilesOut(help_text="From begun to ended.")

    def to_representation(self, instance: Figures) -> dict[str, Any]:
        # The hours of 400 days are 9,600 rows, for which the base class takes most of a second.
        shown = {name: getattr(instance, name) for name in self._names}
        shown["start"] = instance.start and wire_time(instance.start)
        for name in ("wait", "run"):
            times = shown[name]
            shown[name] = {"p50": times.p50, "p95": times.p95, "p99": times.p99}
        return shown

    @cached_property
    def _names(self) -> list[str]:
        return list(self.fields)


class SummaryOut(Answer):
    rows = FiguresOut(
        many=True,
        help_text="In order of time, or the greatest total first. Of very many groups in a long "
        "period only the first ones have wait and run.",
    )
    total = FiguresOut(help_text="Of the whole period; its group is empty.")
    start = Instant(help_text="`from`, at a minute; long ago at an hour or day.")
    as_of = Instant(help_text="Where the figures end: `to`, or the last minute that is added up.")


def _is_bound(request: Request) -> bool:
    return executors_of(request) is not None or job_types_of(request) is not None


class SummaryView(ApiView):
    """Count the ends of a period, by type, task, flow, step, executor, host, worker, hour or
    day, with their times.

    A bound key sees its own executors (dispatch) or job types (job), hours and days of them only. A
    key that is bound to executors sees no figures of jobs, and a bound key none of flows and steps.
    """

    scopes = {"GET": "read"}
    bindings = frozenset(Binding)
    queries = {"get": SummaryQuery}
    answers = {"get": SummaryOut}

    def get(self, request: Request) -> JsonAnswer:
        query = self.query
        zone = parse_zone(query.get("time_zone") or settings.TIME_ZONE)
        end = query.get("to") or clock.now()
        start = query.get("from") or end - USUAL
        is_job = query["source"] == JOB
        if is_job and is_bound_to_executors(request):
            raise Forbidden(
                "Figures of jobs are not kept by user; use a key that is not bound to executors."
            )
        within = job_types_of(request) if is_job else users_within(executors_of(request))
        if query["source"] not in (JOB, DISPATCH) and _is_bound(request):
            raise Forbidden("A flow has parts of many; use a key that is bound to nothing.")
        summary = summarise(
            query["source"],
            query["by"],
            Period(start, end, zone),
            within=within,
        )
        return JsonAnswer(SummaryOut.of(summary))
