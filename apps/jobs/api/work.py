"""Work for programs on other machines: hold, settle, heartbeat."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any

from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework import serializers
from rest_framework.request import Request

from apps.access.bindings import client_of, job_types_of, key_of
from apps.access.rules.clients import Binding, Scope
from apps.common import clock
from apps.common.api.serializer_fields import (
    Choice,
    DecimalId,
    Instant,
    Integer,
    Items,
    Json,
    JsonObject,
    Name,
    Names,
    Number,
    Text,
)
from apps.common.api.serializers import Answer, StrictSerializer
from apps.common.api.views import ApiView, JsonAnswer
from apps.common.errors import Invalid, PlatformError
from apps.common.json.text import BATCH_ITEMS
from apps.common.messages import wire_time
from apps.jobs.api.held import HeldOut, held_json
from apps.jobs.api.jobs import JobBody, submission_of
from apps.jobs.api.log import LOG, LogBody, log_lines_in
from apps.jobs.models import Job
from apps.jobs.rules.caller import Caller
from apps.jobs.rules.order import HIGHEST_PRIORITY, LOWEST_PRIORITY
from apps.jobs.rules.outcome import OUTCOMES, RETRY_BY_POLICY, RETRY_NEVER, Outcome
from apps.jobs.rules.submission import MAX_DELAY, MAX_STAGE
from apps.jobs.rules.type_settings import MAX_HOST, MAX_NAME
from apps.jobs.rules.type_snapshot import DAY, YEAR
from apps.jobs.services import outside, register
from apps.jobs.services.leases import NOTHING, Heartbeat, Renewed, renew
from apps.jobs.services.outside import HoldAnswer, HoldRequest
from apps.jobs.services.settle import settle
from apps.jobs.services.slices import slice_map

MAX_WORKER = 100
MAX_TYPES = 100
MAX_REQUEST = 64
MAX_TOKEN = 64
MAX_ERROR = 15_000
MAX_MEMO = 2_000
MAX_PATH = 200
_DEFAULT_LIMIT = 100
_MAX_DELAY = int(MAX_DELAY.total_seconds())
# The fields that belong to some outcomes only.
_FIELDS: Mapping[str, frozenset[str]] = {
    "succeeded": frozenset({"result", "submit"}),
    "failed": frozenset({"error", "retry", "retry_after", "exception", "summary"}),
    "stage_done": frozenset({"stage", "context", "priority", "run_at", "delay"}),
    "released": frozenset(),
    "yielded": frozenset({"stage", "context", "priority", "run_at", "delay"}),
    "interrupted": frozenset({"run_at", "delay"}),
    "cancelled": frozenset(),
}
_ALWAYS = frozenset({"id", "lease_token", "outcome", "memo", "checkpoint", *LOG})


# --- what is sent ---------------------------------------------------------------------------------
class WorkerName(Name):
    def __init__(self, **kwargs: Any) -> None:
        super().__init__(
            max_length=MAX_WORKER, help_text="What this process calls itself.", **kwargs
        )


class WishBody(StrictSerializer):
    types = Names(
        max_items=MAX_TYPES,
        max_length=MAX_NAME,
        min_length=1,
        error_messages={"min_length": "Name at least one job type."},
    )
    host = Name(max_length=MAX_HOST, required=False, allow_blank=True, default="")
    limit = Integer(min_value=1, max_value=BATCH_ITEMS, required=False, default=_DEFAULT_LIMIT)
    lease_seconds = Integer(
        min_value=1,
        max_value=DAY,
        required=False,
        help_text="How long it wants to be believed without a heartbeat.",
    )
    request_id = Name(
        max_length=MAX_REQUEST,
        required=False,
        help_text="A repeat with the same one gets the same jobs while their leases last.",
    )


class HoldBody(WishBody):
    worker = WorkerName()


class OutcomeBody(LogBody):
    id = DecimalId()
    lease_token = Text(max_length=MAX_TOKEN, allow_blank=True)
    outcome = Choice(choices=OUTCOMES)
    memo = Text(max_length=MAX_MEMO, required=False, allow_blank=True)
    checkpoint = Json(required=False, allow_null=True)
    result = Json(required=False, allow_null=True, help_text="Of a success.")
    submit = Items(
        child=JobBody(),
        max_items=BATCH_ITEMS,
        required=False,
        help_text="Jobs that are made with the success, or not at all; needs the scope submit.",
    )
    error = Text(max_length=MAX_ERROR, required=False, allow_blank=True, help_text="Of a failure.")
    exception = Text(
        max_length=MAX_PATH, required=False, allow_blank=True, help_text="The path of its class."
    )
    summary = Text(
        max_length=MAX_MEMO,
        required=False,
        allow_blank=True,
        help_text="Its class and first line, by which errors are grouped; "
        "without it, that is looked for in error.",
    )
    retry = Choice(choices=(RETRY_BY_POLICY, RETRY_NEVER), required=False)
    retry_after = Number(
        min_value=0, max_value=YEAR, required=False, help_text="Seconds; instead of the backoff."
    )
    stage = Name(
        max_length=MAX_STAGE, required=False, help_text="The next one, of stage_done or yielded."
    )
    context = JsonObject(required=False)  # type: ignore[assignment]
    priority = Integer(min_value=LOWEST_PRIORITY, max_value=HIGHEST_PRIORITY, required=False)
    run_at = Instant(required=False, help_text="Either this or delay.")
    delay = Number(min_value=0, max_value=_MAX_DELAY, required=False, help_text="Seconds.")


class SettleBody(StrictSerializer):
    never = {"not": {"anyOf": [{"required": ["outcomes"]}, {"required": ["hold"]}]}}

    worker = WorkerName()
    outcomes = Items(child=OutcomeBody(), max_items=BATCH_ITEMS, required=False, default=list)
    hold = WishBody(required=False)


class SignBody(LogBody):
    id = DecimalId()
    lease_token = Text(max_length=MAX_TOKEN, allow_blank=True)
    checkpoint = Json(required=False, allow_null=True)
    sequence = Integer(min_value=0, max_value=2**63 - 1, required=False)
    progress = Number(min_value=0, max_value=100, required=False)
    lease_seconds = Integer(min_value=1, max_value=DAY, required=False)


class BeatBody(StrictSerializer):
    worker = WorkerName()
    leases = Items(child=SignBody(), max_items=BATCH_ITEMS)


# --- what is answered -----------------------------------------------------------------------------
class GivenOut(Answer):
    jobs = HeldOut(many=True)
    unknown = serializers.ListField(
        child=serializers.CharField(),
        help_text="Types that are not there, or not this key's; and pools, which assign gives.",
    )
    retry_after = serializers.FloatField(help_text="Seconds; 0 when there are jobs.")
    now = Instant()


class ResultOut(Answer):
    id = serializers.CharField(help_text="A decimal string.")
    ok = serializers.BooleanField()
    status = serializers.ChoiceField(choices=Job.Status.choices, required=False)
    code = serializers.CharField(required=False)
    message = serializers.CharField(required=False)


class SettledOut(Answer):
    results = ResultOut(many=True, help_text="In the order of the outcomes.")
    now = Instant()
    jobs = HeldOut(many=True, required=False, help_text="With hold, as are the next two.")
    unknown = serializers.ListField(child=serializers.CharField(), required=False)
    retry_after = serializers.FloatField(required=False)


class LeaseOut(Answer):
    id = serializers.CharField(help_text="A decimal string.")
    ok = serializers.BooleanField(help_text="Whether the lease lasts; if not, stop the work.")
    lease_until = Instant(allow_null=True)
    cancel_requested = serializers.BooleanField()
    code = serializers.CharField(required=False, help_text="With ok: of the refused checkpoint.")
    message = serializers.CharField(required=False)


class BeatOut(Answer):
    leases = LeaseOut(many=True)
    now = Instant()
    epoch = serializers.IntegerField(help_text="Of the slices; 0 without.")


_RETRY_AFTER = OpenApiParameter(
    "Retry-After",
    int,
    OpenApiParameter.HEADER,
    response=[200],
    description="Seconds, when there are no jobs.",
)


# --- views ----------------------------------------------------------------------------------------
def caller_of(request: Request) -> Caller:
    """The caller, with the job types that its key is bound to."""
    return Caller(client_of(request), job_types_of(request))


class WorkView(ApiView):
    """The common base of the views for workers."""

    scopes = {"POST": "hold"}
    bindings = frozenset({Binding.JOB_TYPES})
    body_limit = "batch"


class HoldView(WorkView):
    """Take due jobs under a lease; an empty list when nothing is due. Pools have an address of
    their own."""

    bodies = {"post": HoldBody}
    answers = {"post": GivenOut}
    problems = (404, 422)

    @extend_schema(parameters=[_RETRY_AFTER])
    def post(self, request: Request) -> JsonAnswer:
        body = self.read_body()
        worker = body.pop("worker")
        hold_answer = outside.hold_for(caller_of(request), worker, _hold_request(body, worker))
        return _answer(_hold_answer(hold_answer), hold_answer)


class SettleView(WorkView):
    """Report what became of held jobs, each on its own; with `hold` take the next ones."""

    bodies = {"post": SettleBody}
    answers = {"post": SettledOut}
    problems = (422,)

    @extend_schema(parameters=[_RETRY_AFTER])
    def post(self, request: Request) -> JsonAnswer:
        body = self.read_body()
        caller, worker, wanted = caller_of(request), body["worker"], body.get("hold")
        if not (body["outcomes"] or wanted):
            raise Invalid.field("outcomes", "Report an outcome, or ask for jobs by hold.")
        may_submit = Scope.SUBMIT in key_of(request).scopes
        reports = [_outcome(each, may_submit) for each in body["outcomes"]]
        fit = [each for each in reports if isinstance(each, Outcome)]
        hold_answer = None
        if wanted is None:
            register.touch(client=caller.client, name=worker)
            answers = settle(outcomes=fit, caller=caller)
        else:
            answers, hold_answer = outside.settle_and_hold(
                caller, worker, fit, _hold_request(wanted, worker)
            )
        settled = iter(answers)
        results = [
            _result(sent["id"], next(settled) if isinstance(report, Outcome) else report)
            for sent, report in zip(body["outcomes"], reports, strict=True)
        ]
        return _answer(
            {"results": results, **(_hold_answer(hold_answer) if hold_answer else {})}, hold_answer
        )


class HeartbeatView(WorkView):
    """Renew leases; a checkpoint or progress moves the deadline of the attempt."""

    bodies = {"post": BeatBody}
    answers = {"post": BeatOut}

    def post(self, request: Request) -> JsonAnswer:
        body = self.read_body()
        _check_once(body["leases"])
        caller = caller_of(request)
        register.touch(client=caller.client, name=body["worker"])
        heartbeats = [_heartbeat(each) for each in body["leases"]]
        renewed = renew(heartbeats=heartbeats, caller=caller)
        leases = [
            _lease(heartbeat.id, each) for heartbeat, each in zip(heartbeats, renewed, strict=True)
        ]
        return _answer({"leases": leases, "epoch": slice_map().epoch})


def _answer(values: dict[str, Any], hold_answer: HoldAnswer | None = None) -> JsonAnswer:
    wait = hold_answer.retry_after if hold_answer else 0.0
    headers = {"Retry-After": str(math.ceil(wait))} if wait else None
    return JsonAnswer({**values, "now": wire_time(clock.now())}, headers=headers)


def _hold_request(body: Mapping[str, Any], worker: str) -> HoldRequest:
    seconds = body.get("lease_seconds")
    return HoldRequest(
        types=body["types"],
        limit=body["limit"],
        host=body["host"],
        lease=None if seconds is None else timedelta(seconds=seconds),
        request_id=body.get("request_id", ""),
        content={**body, "worker": worker},
    )


def _hold_answer(hold_answer: HoldAnswer) -> dict[str, Any]:
    return {
        "jobs": held_json(hold_answer.rows),
        "unknown": hold_answer.unknown,
        "retry_after": hold_answer.retry_after,
    }


def _outcome(body: Mapping[str, Any], may_submit: bool) -> Outcome | PlatformError:
    """The reported outcome, or why it cannot be one."""
    end = body["outcome"]
    if misplaced := sorted(body.keys() - _ALWAYS - _FIELDS[end]):
        return Invalid(f"{', '.join(misplaced)} cannot be said of {end}; leave it out.")
    if end == "stage_done" and "stage" not in body:
        return Invalid("Name the next stage.")
    if "run_at" in body and "delay" in body:
        return Invalid("Give run_at or delay, not both.")
    if "submit" in body and not may_submit:
        return Invalid("This key may not submit jobs; give it the scope submit, or leave that out.")
    values = {name: body[name] for name in body.keys() - {"id", "lease_token", "outcome", *LOG}}
    if "submit" in values:
        values["submit"] = tuple(map(submission_of, values["submit"]))
    for name in values.keys() & {"retry_after", "delay"}:
        values[name] = timedelta(seconds=values[name])
    return Outcome(
        id=body["id"], token=body["lease_token"], end=end, log=log_lines_in(body), **values
    )


def _result(number: int, answer: str | PlatformError) -> dict[str, Any]:
    if isinstance(answer, PlatformError):
        return {"id": str(number), "ok": False, "code": answer.code, "message": answer.detail}
    return {"id": str(number), "ok": True, "status": answer}


def _check_once(leases: Sequence[Mapping[str, Any]]) -> None:
    """Invalid when a lease is named twice: which of two checkpoints should be kept?"""
    named = set()
    for position, each in enumerate(leases):
        key = each["id"], each["lease_token"]
        if key in named:
            wrong = f"The lease of job {each['id']} occurs twice in the list; name it once."
            raise Invalid.field(f"leases[{position}].id", wrong)
        named.add(key)


def _heartbeat(body: Mapping[str, Any]) -> Heartbeat:
    seconds = body.get("lease_seconds")
    return Heartbeat(
        id=body["id"],
        token=body["lease_token"],
        checkpoint=body.get("checkpoint", NOTHING),
        sequence=body.get("sequence"),
        progress=body.get("progress"),
        log=log_lines_in(body),
        lease=None if seconds is None else timedelta(seconds=seconds),
    )


def _lease(number: int, renewed: Renewed | PlatformError) -> dict[str, Any]:
    if isinstance(renewed, PlatformError):
        refused: PlatformError | None = renewed
        lease: dict[str, Any] = {"ok": False, "lease_until": None, "cancel_requested": False}
    else:
        refused = renewed.refused
        until, is_wanted = wire_time(renewed.until), renewed.cancel_requested
        lease = {"ok": True, "lease_until": until, "cancel_requested": is_wanted}
    why = {"code": refused.code, "message": refused.detail} if refused else {}
    return {"id": str(number), **lease, **why}
