"""Recurring jobs over REST."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, ClassVar

from rest_framework.request import Request

from apps.access.bindings import (
    actor_of,
    is_bound_to_executors,
    job_types_of,
    masks_payload,
    unmask,
)
from apps.access.rules.clients import Binding
from apps.common.api.filter_fields import FilterQuery
from apps.common.api.paging import KeysetPage, PageQuery
from apps.common.api.serializer_fields import Choice, Instant, Integer, JsonObject, Name, Text
from apps.common.api.serializers import StrictSerializer
from apps.common.api.views import ApiView, JsonAnswer, NoContent
from apps.dispatch.api.rule_body import RuleBody, ZoneName
from apps.jobs.models import Bounds
from apps.jobs.rules.order import HIGHEST_PRIORITY, LOWEST_PRIORITY
from apps.jobs.rules.type_settings import MAX_NAME, MAX_REASON
from apps.jobs.rules.type_snapshot import RANGES
from apps.schedules.api.shapes import ScheduleOut, ScheduleRunOut
from apps.schedules.models import Schedule
from apps.schedules.rules.limits import MAX_TITLE, MISFIRES
from apps.schedules.services import schedules
from apps.schedules.services.filters import RestScheduleFilters

_MIN_ATTEMPTS, _MAX_ATTEMPTS = (int(each) for each in RANGES["max_attempts"])


class ScheduleQuery(FilterQuery, PageQuery):
    filters = RestScheduleFilters


class ScheduleBody(StrictSerializer):
    """The fields that a planner sets."""

    title = Text(max_length=MAX_TITLE)
    job_type = Name(max_length=MAX_NAME)
    context = JsonObject(required=False)  # type: ignore[assignment]
    priority = Integer(
        min_value=LOWEST_PRIORITY,
        max_value=HIGHEST_PRIORITY,
        required=False,
        allow_null=True,
        help_text="null: the type's.",
    )
    max_attempts = Integer(
        min_value=_MIN_ATTEMPTS,
        max_value=_MAX_ATTEMPTS,
        required=False,
        allow_null=True,
        help_text="null: the type's.",
    )
    rule = RuleBody(required=False, allow_null=True, help_text="null: once, at its start.")
    time_zone = ZoneName(max_length=64, required=False, help_text="TIME_ZONE, when absent.")
    start_at = Instant(required=False, help_text="A new schedule starts now when it is absent.")
    end_at = Instant(required=False, allow_null=True)
    misfire = Choice(
        choices=Schedule.Misfire.choices,
        required=False,
        help_text="Which runs are caught up that were missed while no sweep ran.",
    )
    misfire_limit = Integer(min_value=MISFIRES[0], max_value=MISFIRES[1], required=False)
    overlap = Choice(
        choices=Schedule.Overlap.choices,
        required=False,
        help_text="skip: no run begins while a job of the schedule is open.",
    )


class ScheduleChanges(ScheduleBody):
    version = Integer(
        min_value=1,
        max_value=2**31 - 1,
        required=False,
        help_text="As read before: 409 when somebody has changed it since.",
    )


class WhyBody(StrictSerializer):
    reason = Text(max_length=MAX_REASON, required=False, help_text="Kept in the journal.")


def _types(request: Request) -> Collection[str] | None:
    """The job types whose schedules the key may reach; None for all.

    Jobs of schedules are nobody's, so a key that is bound to executors reaches none.
    """
    return () if is_bound_to_executors(request) else job_types_of(request)


def _find(request: Request, pk: int) -> Schedule:
    return schedules.find_schedule(pk, types=_types(request))


def _answer(request: Request, schedule: Schedule, *, status: int = 200) -> JsonAnswer:
    return JsonAnswer(_json(request, schedule), status=status)


def _json(request: Request, schedule: Schedule) -> dict[str, Any]:
    return ScheduleOut.of(schedule, masks=masks_payload(request))


class SchedulesView(ApiView):
    """The schedules that are not deleted, newest first; or a new one."""

    scopes = {"GET": "read", "POST": "operate"}
    bindings = frozenset({Binding.JOB_TYPES})
    queries = {"get": ScheduleQuery}
    bodies = {"post": ScheduleBody}
    answers = {"get": ScheduleOut(many=True), "post": {201: ScheduleOut}}

    def get(self, request: Request) -> JsonAnswer:
        page = KeysetPage(request, self.query)
        found = Schedule.objects.not_deleted().within(_types(request))
        rows = page.rows(RestScheduleFilters.narrow(found, ScheduleQuery.wanted(self.query)))
        return JsonAnswer(page.answer([_json(request, row) for row in rows]))

    def post(self, request: Request) -> JsonAnswer:
        body = self.read_body()
        unmask(request, body, "context")
        made = schedules.create_schedule(
            **body, actor=actor_of(request), bounds=Bounds(types=_types(request))
        )
        return _answer(request, made, status=201)


class ScheduleView(ApiView):
    """One schedule by id; DELETE marks it deleted."""

    scopes = {"GET": "read", "PATCH": "operate", "DELETE": "operate"}
    bindings = frozenset({Binding.JOB_TYPES})
    bodies = {"patch": ScheduleChanges}
    answers = {"get": ScheduleOut, "patch": ScheduleOut, "delete": {204: None}}
    problems = (404, 409)

    def get(self, request: Request, pk: int) -> JsonAnswer:
        return _answer(request, _find(request, pk))

    def patch(self, request: Request, pk: int) -> JsonAnswer:
        schedule, body = _find(request, pk), self.read_body()
        version = body.pop("version", None)
        unmask(request, body, "context", schedule.context)
        changed = schedules.update_schedule(
            schedule=schedule,
            changes=body,
            version=version,
            actor=actor_of(request),
            bounds=Bounds(types=_types(request)),
        )
        return _answer(request, changed)

    def delete(self, request: Request, pk: int) -> NoContent:
        schedules.delete_schedule(schedule=_find(request, pk), actor=actor_of(request))
        return NoContent()


class ScheduleActView(ApiView):
    """Base of what is done to one schedule."""

    scopes = {"POST": "operate"}
    bindings = frozenset({Binding.JOB_TYPES})
    bodies = {"post": WhyBody}
    answers: ClassVar[dict[str, Any]] = {"post": ScheduleOut}
    problems = (404, 409)
    act: ClassVar[Any]

    def post(self, request: Request, pk: int) -> JsonAnswer:
        schedule, body = _find(request, pk), self.read_body()
        type(self).act(schedule=schedule, actor=actor_of(request), **body)
        return _answer(request, _find(request, pk))


class PauseScheduleView(ScheduleActView):
    """Make no jobs until it is resumed."""

    act = staticmethod(schedules.pause)


class ResumeScheduleView(ScheduleActView):
    """Make jobs again, none for the time of the pause."""

    act = staticmethod(schedules.resume)


class RunScheduleView(ScheduleActView):
    """Make one job at once, beside those of the rule."""

    answers = {"post": {201: ScheduleRunOut}}

    def post(self, request: Request, pk: int) -> JsonAnswer:
        schedule, body = _find(request, pk), self.read_body()
        run = schedules.run_now(
            schedule=schedule,
            actor=actor_of(request),
            bounds=Bounds(types=_types(request)),
            **body,
        )
        return JsonAnswer(ScheduleRunOut.of(run), status=201)


class ScheduleRunsView(ApiView):
    """The runs of a schedule, newest first: each with its job, or why there is none."""

    scopes = {"GET": "read"}
    bindings = frozenset({Binding.JOB_TYPES})
    queries = {"get": PageQuery}
    answers = {"get": ScheduleRunOut(many=True)}
    problems = (404,)

    def get(self, request: Request, pk: int) -> JsonAnswer:
        page = KeysetPage(request, self.query)
        rows = page.rows(_find(request, pk).runs.all())
        masks = masks_payload(request)
        return JsonAnswer(page.answer([ScheduleRunOut.of(row, masks=masks) for row in rows]))
