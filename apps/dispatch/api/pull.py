"""The clients' side: pull, call back, extend, release."""

from __future__ import annotations

from typing import Any

from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework.request import Request

from apps.access.bindings import executors_of
from apps.access.rules.clients import Binding
from apps.common import logs
from apps.common.api.serializer_fields import Choice, DecimalId, Integer, JsonObject, Text
from apps.common.api.serializers import StrictSerializer
from apps.common.api.views import ApiView, JsonAnswer, NoContent
from apps.dispatch.api.shapes import CallbackOut, DispatchOut, EndedOut
from apps.dispatch.models import Dispatch
from apps.dispatch.services import pull


def retry_after(status: int, *, required: bool) -> OpenApiParameter:
    """The header on that answer, for OpenAPI."""
    return OpenApiParameter(
        "Retry-After",
        int,
        OpenApiParameter.HEADER,
        response=[status],
        required=required,
        description="Seconds to wait.",
    )


class PullBody(StrictSerializer):
    uid = Text(max_length=255, help_text="The user executor that pulls.")


class CallbackBody(PullBody):
    number = DecimalId()
    outcome = Choice(choices=pull.OUTCOMES)
    result = JsonObject(required=False, allow_null=True, default=None)
    message = Text(required=False, allow_blank=True, default="", max_length=pull.MAX_MESSAGE)


class CallbackQuery(StrictSerializer):
    next = Choice(choices=["1"], required=False, help_text="1: answer with the next task, too.")


class ExtendBody(PullBody):
    number = DecimalId()
    seconds = Integer(min_value=1, max_value=pull.MAX_EXTENSION)


class ReleaseBody(PullBody):
    number = DecimalId()
    reason = Text(required=False, allow_blank=True, default="", max_length=500)


class UserView(ApiView):
    """A view whose body names the user executor that it acts for."""

    scopes = {"POST": "pull"}
    bindings = frozenset({Binding.EXECUTORS})

    def read_body(self) -> dict[str, Any]:
        """The body with the names that the client may act for, as `bound`."""
        body = super().read_body()
        logs.note(executor=body["uid"])
        if "number" in body:
            logs.note(dispatch=str(body["number"]))
        return {**body, "bound": executors_of(self.request)}


class PullView(UserView):
    """Ask for work: the open task again, the next due one, or 204 and when to ask again."""

    operations = {"post": "pull"}
    bodies = {"post": PullBody}
    answers = {"post": {200: DispatchOut, 204: None}}
    problems = (404, 409)

    @extend_schema(parameters=[retry_after(204, required=True)])
    def post(self, request: Request) -> JsonAnswer | NoContent:
        taken = pull.answer_pull(**self.read_body())
        if isinstance(taken, pull.Nothing):
            return NoContent(headers={"Retry-After": str(taken.retry_after)})
        logs.note(dispatch=str(taken.pk))
        return JsonAnswer(DispatchOut.of(taken))


class CallbackView(UserView):
    """Report the outcome of the open task; repeats get the first answer."""

    operations = {"post": "callback"}
    bodies = {"post": CallbackBody}
    queries = {"post": CallbackQuery}
    answers = {"post": CallbackOut}
    problems = (404, 409, 422)

    @extend_schema(parameters=[retry_after(200, required=False)])
    def post(self, request: Request) -> JsonAnswer:
        body = self.read_body()
        following: Dispatch | pull.Nothing | None = None
        if self.query.get("next"):
            ended, following = pull.call_back_and_pull(**body)
        else:
            ended = pull.call_back(**body)
        headers = {}
        if isinstance(following, pull.Nothing):
            headers, following = {"Retry-After": str(following.retry_after)}, None
        answer = {
            "number": ended.pk,
            "state": ended.state,
            "finished_at": ended.finished_at,
            "next": following,
        }
        return JsonAnswer(CallbackOut.of(answer), headers=headers)


class ExtendView(UserView):
    """Move the deadline of the open task."""

    bodies = {"post": ExtendBody}
    answers = {"post": DispatchOut}
    problems = (404, 409)

    def post(self, request: Request) -> JsonAnswer:
        return JsonAnswer(DispatchOut.of(pull.extend(**self.read_body())))


class ReleaseView(UserView):
    """Give the open task back unfinished."""

    bodies = {"post": ReleaseBody}
    answers = {"post": EndedOut}
    problems = (404, 409)

    def post(self, request: Request) -> JsonAnswer:
        return JsonAnswer(EndedOut.of(pull.release(**self.read_body())))
