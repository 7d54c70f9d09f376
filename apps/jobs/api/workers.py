"""The register of workers for programs on other machines."""

from __future__ import annotations

from typing import Any

from rest_framework import serializers
from rest_framework.request import Request

from apps.common import clock
from apps.common.api.serializer_fields import Boolean, Instant, Integer, Name, Names, Text
from apps.common.api.serializers import Answer, StrictSerializer
from apps.common.api.views import JsonAnswer
from apps.common.errors import NotFound
from apps.common.messages import Message as _
from apps.common.messages import wire_time
from apps.jobs.api.work import MAX_TYPES, WorkerName, WorkView, caller_of
from apps.jobs.models import Worker
from apps.jobs.rules.type_settings import MAX_HOST, MAX_NAME
from apps.jobs.services import outside, register
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
                _("Worker {name} is not registered, or it counted as lost.", name=body["name"])
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
