"""The register of workers: its list, and what programs on other machines say to it."""

from __future__ import annotations

from typing import Any

from rest_framework import serializers
from rest_framework.request import Request

from apps.access.bindings import key_of
from apps.access.rules.clients import Binding
from apps.common import clock
from apps.common.api.paging import KeysetPage, PageQuery
from apps.common.api.serializer_fields import (
    Boolean,
    Instant,
    Integer,
    Name,
    Names,
    StoredTexts,
    Text,
)
from apps.common.api.serializers import Answer, StrictSerializer
from apps.common.api.views import ApiView, JsonAnswer
from apps.common.errors import NotFound
from apps.common.messages import Message as _
from apps.common.messages import wire_time
from apps.jobs.api.work import MAX_TYPES, WorkerName, WorkView, caller_of
from apps.jobs.models import Worker
from apps.jobs.rules.type_settings import MAX_HOST, MAX_NAME
from apps.jobs.services import outside, register
from apps.jobs.services.living import is_lost
from apps.jobs.services.slices import shards_of

MAX_VERSION = 64
MAX_CAPACITY = 100_000


class RegisterBody(StrictSerializer):
    name = WorkerName()
    host = Name(max_length=MAX_HOST, required=False, allow_blank=True, default="")
    types = Names(max_items=MAX_TYPES, max_length=MAX_NAME, required=False, default=list)
    capacity = Integer(
        min_value=1,
        max_value=MAX_CAPACITY,
        required=False,
        default=1,
        help_text="How many jobs it can run at once.",
    )
    version = Text(max_length=MAX_VERSION, required=False, allow_blank=True, default="")


class WorkerBeatBody(StrictSerializer):
    name = WorkerName()
    running = Integer(min_value=0, max_value=MAX_CAPACITY, required=False, default=0)
    stopping = Boolean(required=False, default=False, help_text="It ends what it has.")


class LeaveBody(StrictSerializer):
    name = WorkerName()


class RegisteredOut(Answer):
    name = serializers.CharField()
    shards = serializers.ListField(
        child=serializers.IntegerField(), help_text="The shards whose jobs it is given first."
    )
    epoch = serializers.IntegerField(help_text="Of the slices; 0 without.")
    heartbeat_seconds = serializers.FloatField()
    stop = serializers.BooleanField(help_text="Whether it is to hold nothing for now.")
    now = Instant()


class LeftOut(Answer):
    name = serializers.CharField()
    released = serializers.IntegerField(help_text="Jobs it still held; their attempts count.")
    now = Instant()


class WorkerOut(Answer):
    name = serializers.CharField()
    client = serializers.CharField(help_text="The API key that it uses; empty in-house.")
    kind = serializers.CharField(help_text="celery: in-house; http: over HTTP.")
    host = serializers.CharField()
    state = serializers.ChoiceField(choices=Worker.State.choices)
    quiet = serializers.BooleanField(source="is_quiet", help_text="It takes nothing new.")
    lost = serializers.BooleanField(help_text="It promised heartbeats, and they are overdue.")
    types = StoredTexts()
    running = serializers.IntegerField()
    capacity = serializers.IntegerField(help_text="How many jobs it can run at once.")
    version = serializers.CharField()
    started_at = Instant()
    last_heartbeat_at = Instant(help_text="Or its last call.")


class WorkersView(ApiView):
    """The workers that have not left, in-house and over HTTP, newest first. A key that is bound to
    executors or job types sees none, because they work for others, too."""

    scopes = {"GET": "read"}
    bindings = frozenset[Binding]()
    queries = {"get": PageQuery}
    answers = {"get": WorkerOut(many=True)}

    def get(self, request: Request) -> JsonAnswer:
        page, now = KeysetPage(request, self.query), clock.now()
        found = Worker.objects.filter(state__in=register.LIVING)
        rows: list[Any] = page.rows(found.none() if key_of(request).bindings else found)
        for row in rows:
            row.lost = is_lost(row, now)
        return JsonAnswer(page.answer([WorkerOut.of(row) for row in rows]))


class RegisterView(WorkView):
    """Announce a worker that will send heartbeats; one of the same name is taken over."""

    operations = {"post": "register_worker"}
    bodies = {"post": RegisterBody}
    answers = {"post": RegisteredOut}

    def post(self, request: Request) -> JsonAnswer:
        body = self.read_body()
        caller = caller_of(request)
        types = [name for name in body.pop("types") if caller.may_use(name)]
        worker = register.register(client=caller.client, kind=Worker.Kind.HTTP, types=types, **body)
        return _answer(worker)


class WorkerHeartbeatView(WorkView):
    """Say that the worker is alive; 404 when it has to register again."""

    operations = {"post": "heartbeat_worker"}
    bodies = {"post": WorkerBeatBody}
    answers = {"post": RegisteredOut}
    problems = (404,)

    def post(self, request: Request) -> JsonAnswer:
        body = self.read_body()
        worker = register.beat(client=caller_of(request).client, drains={}, **body)
        if worker is None:
            raise NotFound(
                _(
                    "Worker {name} is not registered, or it counted as offline; register it.",
                    name=body["name"],
                )
            )
        return _answer(worker)


class LeaveView(WorkView):
    """The worker ends: jobs that it still holds are taken from it at once."""

    operations = {"post": "leave_worker"}
    bodies = {"post": LeaveBody}
    answers = {"post": LeftOut}

    def post(self, request: Request) -> JsonAnswer:
        name = self.read_body()["name"]
        released = outside.leave(caller_of(request), name)
        return JsonAnswer({"name": name, "released": released, "now": wire_time(clock.now())})


def _answer(worker: Worker) -> JsonAnswer:
    epoch, shards = shards_of(worker.client, worker.name)
    values: dict[str, Any] = {
        "name": worker.name,
        "shards": shards,
        "epoch": epoch,
        "heartbeat_seconds": register.BEAT_SECONDS,
        "stop": worker.is_quiet,
        "now": wire_time(clock.now()),
    }
    return JsonAnswer(values)
