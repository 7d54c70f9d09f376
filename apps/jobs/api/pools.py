"""Pools: keys with scores, which workers hold by the bucket."""

from __future__ import annotations

import math
from typing import Any, ClassVar

from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers
from rest_framework.exceptions import ErrorDetail, ValidationError
from rest_framework.request import Request

from apps.access.bindings import actor_of, unmask
from apps.access.rules.clients import Binding
from apps.common import clock
from apps.common.api.serializer_fields import (
    Boolean,
    Choice,
    Instant,
    Integer,
    JsonObject,
    Name,
    Names,
    StoredObject,
    Text,
)
from apps.common.api.serializers import Answer, StrictSerializer
from apps.common.api.views import ApiView, JsonAnswer
from apps.common.errors import FieldError, Invalid, PlatformError, refusal
from apps.common.json.text import BATCH_ITEMS
from apps.common.json_rules import check_json
from apps.common.masking import kind_of, quote
from apps.common.messages import wire_time
from apps.common.readers import is_key
from apps.jobs.api.work import MAX_ERROR, WorkerName, WorkView, caller_of
from apps.jobs.rules import transitions as t
from apps.jobs.rules.order import MAX_SCORE, score_key
from apps.jobs.rules.outcome import RETRY_BY_POLICY, RETRY_NEVER
from apps.jobs.rules.submission import MAX_KEY
from apps.jobs.rules.type_settings import MAX_HOST
from apps.jobs.services import outside, pool, register
from apps.jobs.services.pool_rebuild import rebuild
from apps.jobs.services.pool_status import status_of

_NO_KEY = f"is no key: use 1 to {MAX_KEY} letters, digits and _ . : @ / + -"


# --- what is sent ---------------------------------------------------------------------------------
class _ByKey(JsonObject):
    """An object of at most 1,000 keys of a pool, whose values `read` checks one by one."""

    def to_internal_value(self, data: Any) -> dict[str, Any]:
        if not isinstance(data, dict):
            raise self.refuse(f"{quote(data)} is not a JSON object; write {{…}}.")
        wrong: dict[str, list[ErrorDetail]] = {}
        for key, value in data.items():
            try:
                if not is_key(key, MAX_KEY):
                    raise Invalid(f"{quote(key)} {_NO_KEY}")
                self.read(value)
            except PlatformError as error:
                wrong[key] = [ErrorDetail(error.detail, error.code)]
        if wrong:
            raise ValidationError(wrong)
        return data

    def read(self, value: Any) -> None:
        """PlatformError when it is no value."""
        raise NotImplementedError(f"{type(self).__name__} must define read()")


@extend_schema_field(
    {
        "type": "object",
        "additionalProperties": {"type": "number"},
        "maxProperties": BATCH_ITEMS,
        "example": {"point-7": 12.5},
    }
)
class Scores(_ByKey):
    def read(self, value: Any) -> None:
        if type(value) not in (int, float):
            raise Invalid(f"{quote(value)} is not a number; write one like 0.5.")
        try:
            score_key(value)
        except ValueError as error:
            raise Invalid(
                f"{quote(value)} is no score: use at most three decimals, and less than "
                f"{MAX_SCORE} on both sides of 0."
            ) from error


@extend_schema_field(
    {
        "type": "object",
        "additionalProperties": {"type": "object"},
        "maxProperties": BATCH_ITEMS,
        "example": {"point-7": {"shop": 7}},
    }
)
class Contexts(_ByKey):
    def read(self, value: Any) -> None:
        if not isinstance(value, dict):
            raise Invalid(f"{kind_of(value)} is not a JSON object; write {{…}}.")
        check_json(value)


class AssignBody(StrictSerializer):
    worker = WorkerName()
    limit = Integer(
        min_value=1,
        max_value=pool.MAX_LIMIT,
        required=False,
        default=pool.DEFAULT_LIMIT,
        help_text="How many keys the bucket is to hold.",
    )
    host = Name(max_length=MAX_HOST, required=False, allow_blank=True, default="")


class KeysBody(StrictSerializer):
    worker = WorkerName()
    keys = Names(max_items=BATCH_ITEMS, max_length=MAX_KEY)


class FailBody(KeysBody):
    error = Text(max_length=MAX_ERROR, required=False, allow_blank=True, default="")
    retry = Choice(choices=(RETRY_BY_POLICY, RETRY_NEVER), required=False, default=RETRY_BY_POLICY)


class RebuildBody(StrictSerializer):
    items = Scores(help_text="The keys that are wanted with their scores, lower ones first.")
    contexts = Contexts(required=False, default=dict, help_text="Of some of the keys.")
    epoch = Integer(
        min_value=1,
        max_value=2**63 - 1,
        required=False,
        help_text="The items are a chunk of the rebuild of this number. Without: the whole pool.",
    )
    last = Boolean(
        required=False,
        help_text="With an epoch: withdraw what none of its chunks has named.",
    )


# --- what is answered -----------------------------------------------------------------------------
class ScoreOut(serializers.FloatField):
    """A score as it was given, without decimals when it has none."""

    def to_representation(self, value: Any) -> Any:
        return value


class PoolItemOut(Answer):
    key = serializers.CharField()
    id = serializers.CharField(help_text="Of the job, a decimal string.")
    lease_token = serializers.CharField(source="token")
    score = ScoreOut()
    context = StoredObject()  # type: ignore[assignment]
    lease_until = Instant()


class AssignedOut(Answer):
    items = PoolItemOut(many=True, help_text="All that is in the bucket.")
    retry_after = serializers.FloatField(help_text="Seconds; 0 when there are items.")
    now = Instant()


class CheckedOut(Answer):
    match = serializers.BooleanField()
    missing = serializers.ListField(child=serializers.CharField(), help_text="Held, not named.")
    extra = serializers.ListField(child=serializers.CharField(), help_text="Named, not held.")
    now = Instant()


class _ReportOut(Answer):
    refused = serializers.ListField(child=serializers.CharField())
    reasons = serializers.DictField(
        child=serializers.CharField(),
        help_text="The codes of the refused keys: not_found, lease_lost, conflict.",
    )
    now = Instant()


class DoneOut(_ReportOut):
    done = serializers.ListField(child=serializers.CharField())


class FailedOut(_ReportOut):
    failed = serializers.ListField(child=serializers.CharField())


class ReleasedOut(_ReportOut):
    released = serializers.ListField(child=serializers.CharField())


class RebuiltOut(Answer):
    added = serializers.IntegerField()
    withdrawn = serializers.IntegerField(help_text="Waiting keys that were not named.")
    held = serializers.IntegerField(help_text="Named keys that workers hold.")
    unchanged = serializers.IntegerField()
    moved = serializers.IntegerField(help_text="Waiting keys with a new score.")
    more = serializers.BooleanField(help_text="There was not enough time: repeat the call.")
    now = Instant()


class HoldingOut(Answer):
    client = serializers.CharField(help_text="The id of its API key; empty: in-house.")
    worker = serializers.CharField()
    held = serializers.IntegerField()
    oldest_lease_until = Instant()


class PoolOut(Answer):
    waiting = serializers.IntegerField()
    held = serializers.IntegerField()
    epoch = serializers.IntegerField(help_text="Of the latest rebuild; 0 before the first.")
    workers = HoldingOut(many=True)
    now = Instant()


# --- views ----------------------------------------------------------------------------------------
class AssignView(WorkView):
    """Fill the worker's bucket up to the limit, lowest scores first, and return all of it."""

    operations = {"post": "assign_keys"}
    bodies = {"post": AssignBody}
    answers = {"post": AssignedOut}
    problems = (404,)

    def post(self, request: Request, name: str) -> JsonAnswer:
        body, caller = self.read_body(), caller_of(request)
        items = pool.assign(pool=pool.find_pool(name, caller), caller=caller, **body)
        wait = 0.0 if items else round(outside.retry_after(), 3)
        return _answer(
            {"items": [PoolItemOut.of(each) for each in items], "retry_after": wait}, wait=wait
        )


class CheckView(WorkView):
    """Compare the keys that a worker knows of with its bucket."""

    operations = {"post": "check_keys"}
    bodies = {"post": KeysBody}
    answers = {"post": CheckedOut}
    problems = (404,)

    def post(self, request: Request, name: str) -> JsonAnswer:
        body, caller = self.read_body(), caller_of(request)
        found = pool.find_pool(name, caller)
        register.touch(client=caller.client, name=body["worker"])
        checked = pool.check(pool=found, caller=caller, **body)
        return _answer({"match": not any(checked), **checked._asdict()})


class ReportView(WorkView):
    """Base of the endpoints that end keys of a bucket as `end`; the answer calls them `word`."""

    bodies = {"post": KeysBody}
    problems = (404,)
    end: ClassVar[str]
    word: ClassVar[str]

    def post(self, request: Request, name: str) -> JsonAnswer:
        body, caller = self.read_body(), caller_of(request)
        found = pool.find_pool(name, caller)
        register.touch(client=caller.client, name=body["worker"])
        ended, refused = pool.report(pool=found, caller=caller, end=self.end, **body)
        return _answer({self.word: ended, "refused": [*refused], "reasons": refused})


class DoneView(ReportView):
    """Report keys of the bucket as done; the others stay."""

    operations = {"post": "mark_keys_done"}
    answers = {"post": DoneOut}
    end, word = t.END_SUCCEEDED, "done"


class FailView(ReportView):
    """Report keys of the bucket as failed: they are tried again as the type says."""

    operations = {"post": "fail_keys"}
    bodies = {"post": FailBody}
    answers = {"post": FailedOut}
    end, word = t.END_FAILED, "failed"


class ReleaseView(ReportView):
    """Give keys of the bucket back to the pool, with their scores and uncounted."""

    operations = {"post": "release_keys"}
    answers = {"post": ReleasedOut}
    end, word = t.END_RELEASED, "released"


class RebuildView(ApiView):
    """Say which keys are wanted, at once or in chunks; 409 once a later rebuild has begun.

    Keys that are not named leave the pool, held ones when their workers give them up.
    """

    scopes = {"POST": "operate"}
    bindings = frozenset({Binding.JOB_TYPES})
    body_limit = "batch"
    item_maps = ("items", "contexts")
    bodies = {"post": RebuildBody}
    answers = {"post": RebuiltOut}
    problems = (404, 409)

    def post(self, request: Request, name: str) -> JsonAnswer:
        body = self.read_body()
        _check_rebuild(body)
        for key in body["contexts"]:
            unmask(request, body["contexts"], key, field=f"contexts.{key}")
        found = pool.find_pool(name, caller_of(request))
        return _answer(vars(rebuild(pool=found, actor=actor_of(request), **body)))


class PoolView(ApiView):
    """How many keys wait, and who holds how many."""

    scopes = {"GET": "read"}
    bindings = frozenset({Binding.JOB_TYPES})
    answers = {"get": PoolOut}
    problems = (404,)

    def get(self, request: Request, name: str) -> JsonAnswer:
        found = status_of(pool.find_pool(name, caller_of(request)).name)
        workers = [HoldingOut.of(each) for each in found.workers]
        return _answer({**found._asdict(), "workers": workers})


def _check_rebuild(body: dict[str, Any]) -> None:
    if "last" in body and "epoch" not in body:
        raise Invalid.field("last", "Only a rebuild with an epoch has a last chunk.")
    if not body["items"] and "epoch" not in body:
        raise Invalid.field(
            "items", 'items is empty; to withdraw everything, send "last": true with an epoch'
        )
    strange = [key for key in body["contexts"] if key not in body["items"]]
    if strange:
        wrong = [
            FieldError(f"contexts.{key}", "invalid", f"{quote(key)} is not among the items.")
            for key in strange
        ]
        raise refusal(wrong)


def _answer(values: dict[str, Any], *, wait: float = 0.0) -> JsonAnswer:
    headers = {"Retry-After": str(math.ceil(wait))} if wait else None
    return JsonAnswer({**values, "now": wire_time(clock.now())}, headers=headers)
