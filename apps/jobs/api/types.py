"""Job types over REST."""

from __future__ import annotations

from typing import Any

from rest_framework.request import Request

from apps.access.bindings import actor_of, job_types_of, masks_payload, unmask
from apps.access.rules.clients import Binding
from apps.common.api.paging import KeysetPage, PageQuery
from apps.common.api.serializer_fields import (
    Boolean,
    Choice,
    Instant,
    Integer,
    JsonObject,
    Name,
    Names,
    Number,
    Text,
)
from apps.common.api.serializers import StrictSerializer
from apps.common.api.views import ApiView, JsonAnswer, NoContent
from apps.common.errors import Forbidden, Invalid
from apps.common.masking.names import secret_properties
from apps.jobs.api.shapes import JobTypeOut
from apps.jobs.models import JobType
from apps.jobs.rules import type_settings
from apps.jobs.rules.key_limit import MAX_PATH
from apps.jobs.rules.type_snapshot import FREE_STAGES, RANGES
from apps.jobs.services import types

_DEFAULTS = JobType()


def _setting(name: str, **kwargs: Any) -> dict[str, Any]:
    """Arguments of an optional field with the default of the model."""
    return {"required": False, "default": getattr(_DEFAULTS, name), **kwargs}


def _whole(name: str, **kwargs: Any) -> Integer:
    low, high = RANGES[name]
    return Integer(min_value=int(low), max_value=int(high), **_setting(name, **kwargs))


def _open(name: str) -> Integer:
    return _whole(name, allow_null=True)


def _number(name: str, **kwargs: Any) -> Number:
    low, high = RANGES[name]
    return Number(min_value=low, max_value=high, **_setting(name, **kwargs))


class Stages(Names):
    """Names, or the sign of free ones alone."""

    def to_internal_value(self, data: Any) -> list[str]:
        return [FREE_STAGES] if data == [FREE_STAGES] else super().to_internal_value(data)


class BreakerBody(StrictSerializer):
    enabled = Boolean(**_setting("breaker_enabled"))
    failure_rate = _number("breaker_failure_rate")
    window_seconds = _whole("breaker_window_seconds")
    min_calls = _whole("breaker_min_calls")
    open_seconds = _whole("breaker_open_seconds")


class SettingsBody(StrictSerializer):
    title = Text(max_length=type_settings.MAX_TITLE, allow_blank=True, **_setting("title"))
    handler = Name(
        max_length=type_settings.MAX_NAME,
        allow_blank=True,
        help_text="The function that runs its jobs in-house. Empty: workers over HTTP run them.",
        **_setting("handler"),
    )
    lane = Choice(choices=JobType.Lane.choices, **_setting("lane"))
    stages = Stages(
        max_items=type_settings.MAX_LISTED,
        max_length=64,
        required=False,
        default=list,
        help_text='In order; ["*"] for any in any order.',
    )
    params_schema = JsonObject(
        required=False,
        default=dict,
        help_text="JSON Schema 2020-12 of the context, of type object. Empty: any context.",
    )
    weight = _whole("weight", help_text="Share of the slots when several types have work.")
    batch_limit = _whole("batch_limit")
    lease_seconds = _whole("lease_seconds")
    max_processing_seconds = _whole("max_processing_seconds")
    max_attempts = _whole("max_attempts")
    retry_delay_seconds = _number("retry_delay_seconds")
    retry_multiplier = _number("retry_multiplier")
    retry_max_seconds = _number("retry_max_seconds")
    retry_jitter = _number("retry_jitter")
    expires_after_seconds = _open("expires_after_seconds")
    default_priority = _whole("default_priority")
    max_running = _open("max_running")
    rate_per_minute = _open("rate_per_minute")
    limit_by = Text(
        max_length=MAX_PATH,
        allow_blank=True,
        help_text="What jobs are limited by: key, user_id, or a path such as context.customer.",
        **_setting("limit_by"),
    )
    limit_running = _open("limit_running")
    limit_per_minute = _open("limit_per_minute")
    limit_burst = _open("limit_burst")
    origin = Choice(choices=JobType.Origin.choices, **_setting("origin"))
    origin_grace_seconds = _whole("origin_grace_seconds")
    allowed_hosts = Names(
        max_items=type_settings.MAX_LISTED,
        max_length=type_settings.MAX_HOST,
        required=False,
        default=list,
    )
    unique = Choice(choices=JobType.Unique.choices, **_setting("unique"))
    pool = Boolean(
        help_text="Its jobs go by their scores; see the addresses of pools.", **_setting("pool")
    )
    settle = Choice(choices=JobType.Settle.choices, **_setting("settle"))
    retention_days = _open("retention_days")
    paused = Boolean(**_setting("paused"))
    pause_reason = Text(
        max_length=type_settings.MAX_REASON, allow_blank=True, **_setting("pause_reason")
    )
    paused_until = Instant(**_setting("paused_until", allow_null=True))
    breaker = BreakerBody(required=False, default=lambda: BreakerBody.check({}))


class TypeBody(SettingsBody):
    name = Name(max_length=type_settings.MAX_NAME)


class TypeChanges(SettingsBody):
    version = Integer(
        min_value=1,
        max_value=2**31 - 1,
        required=False,
        help_text="As read before. 409 if somebody has changed the type since.",
    )


class WholeType(TypeChanges):
    """The body of PUT, with `paused`: without it a paused type would go on."""

    paused = Boolean()


class JobTypesView(ApiView):
    """List job types, newest first; create one."""

    scopes = {"GET": "read", "POST": "operate"}
    bindings = frozenset({Binding.JOB_TYPES})
    queries = {"get": PageQuery}
    bodies = {"post": TypeBody}
    answers = {"get": JobTypeOut(many=True), "post": {201: JobTypeOut}}
    problems = (409,)

    def get(self, request: Request) -> JsonAnswer:
        page = KeysetPage(request, self.query)
        bound = job_types_of(request)
        found = JobType.objects.all() if bound is None else JobType.objects.filter(name__in=bound)
        masks = masks_payload(request)
        return JsonAnswer(
            page.answer([JobTypeOut.of(row, masks=masks) for row in page.rows(found)])
        )

    def post(self, request: Request) -> JsonAnswer:
        body = _flat(self.read_body())
        unmask(request, body, "pause_reason")
        bound = job_types_of(request)
        if bound is not None and body["name"] not in bound:
            raise Invalid.field("name", f"This API key is not bound to the type {body['name']}.")
        _keep_handler(request, "", body["handler"])
        _keep_secrets(request, {}, body["params_schema"])
        made = types.create_type(**body, actor=actor_of(request))
        return _answer(request, made, status=201)


class JobTypeView(ApiView):
    """One job type by name. DELETE needs a type without jobs, which no active flow and no schedule
    names."""

    scopes = {"GET": "read", "PUT": "operate", "PATCH": "operate", "DELETE": "operate"}
    bindings = frozenset({Binding.JOB_TYPES})
    bodies = {"put": WholeType, "patch": TypeChanges}
    answers = {"get": JobTypeOut, "put": JobTypeOut, "patch": JobTypeOut, "delete": {204: None}}
    problems = (404, 409)

    def get(self, request: Request, name: str) -> JsonAnswer:
        return _answer(request, types.find(name, bound=job_types_of(request)))

    def put(self, request: Request, name: str) -> JsonAnswer:
        return self.patch(request, name)

    def patch(self, request: Request, name: str) -> JsonAnswer:
        job_type = types.find(name, bound=job_types_of(request))
        body = self.read_body()
        unmask(request, body, "pause_reason", job_type.pause_reason)
        if "handler" in body:
            _keep_handler(request, job_type.handler, body["handler"])
        if "params_schema" in body:
            _keep_secrets(request, job_type.params_schema, body["params_schema"])
        changed = types.update_type(
            job_type=job_type,
            version=body.pop("version", None),
            changes=_flat(body),
            actor=actor_of(request),
        )
        return _answer(request, changed)

    def delete(self, request: Request, name: str) -> NoContent:
        job_type = types.find(name, bound=job_types_of(request))
        _keep_handler(request, job_type.handler, "")
        _keep_secrets(request, job_type.params_schema, {})
        types.delete_type(job_type=job_type, actor=actor_of(request))
        return NoContent()


def _answer(request: Request, job_type: JobType, **kwargs: Any) -> JsonAnswer:
    return JsonAnswer(JobTypeOut.of(job_type, masks=masks_payload(request)), **kwargs)


def _keep_handler(request: Request, handler: str, wanted: str) -> None:
    """Forbidden when a key that is bound to job types would change what code they run."""
    if job_types_of(request) is not None and wanted != handler:
        raise Forbidden(
            "A key that is bound to job types chooses no handler, because it decides what runs on "
            "the workers; use a key without that binding."
        )


def _keep_secrets(request: Request, schema: Any, wanted: Any) -> None:
    """Forbidden when a key would change what is masked, of which it may not decide: the names that
    a type declares count in all jobs and tasks."""
    before, after = secret_properties(schema), secret_properties(wanted)
    if job_types_of(request) is not None and before != after:
        raise Forbidden(
            'A key that is bound to job types keeps what their schemas declare "secret": true, '
            "because it is masked in all jobs and tasks; use a key without that binding."
        )
    if masks_payload(request) and (shown := before - after):
        raise Forbidden(
            f'Without "secret": true the values of {min(shown)} would be shown; use a key with the '
            "scope payload."
        )


def _flat(body: dict[str, Any]) -> dict[str, Any]:
    """The settings by the names of their columns: on the wire those of the breaker are nested."""
    breaker = body.pop("breaker", {})
    return {**body, **{f"breaker_{name}": value for name, value in breaker.items()}}
