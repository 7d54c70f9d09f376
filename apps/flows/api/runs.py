"""Runs of flows over REST: starting, reading, and what operators do."""

from __future__ import annotations

from typing import Any, ClassVar

from rest_framework.request import Request

from apps.access.bindings import actor_of, client_of, key_of, masks_payload, unmask
from apps.access.rules.clients import Binding, Scope
from apps.common import logs
from apps.common.api import paging
from apps.common.api.filter_fields import FilterQuery
from apps.common.api.paging import MAX_EXAMINED, KeysetPage, PageQuery
from apps.common.api.serializer_fields import (
    Boolean,
    DecimalId,
    Integer,
    Json,
    JsonObject,
    Name,
    ReasonText,
    Text,
)
from apps.common.api.serializers import StrictSerializer
from apps.common.api.views import ApiView, JsonAnswer
from apps.common.errors import Forbidden, Invalid, NotFound
from apps.common.readers import read_id
from apps.flows.api.flows import bounds_of
from apps.flows.api.shapes import (
    Definition,
    FlowJobOut,
    FlowResultsOut,
    FlowRunDetailOut,
    FlowRunOut,
    FlowStartedOut,
    unmask_definition,
)
from apps.flows.models import MAX_KEY, MAX_NAME, MAX_TRACE, FlowRun
from apps.flows.services import control
from apps.flows.services.filters import RunFilters
from apps.flows.services.programs import BLOCK, page_of
from apps.flows.services.results import find_step_with_results
from apps.flows.services.start import find_run, start_once
from apps.jobs.rules.type_settings import MAX_REASON
from apps.jobs.services.request import Request as Repeatable

MAX_REQUEST = 64


class FlowStartBody(StrictSerializer):
    never = {
        "anyOf": [
            {"required": ["flow", "definition"]},
            {"not": {"anyOf": [{"required": ["flow"]}, {"required": ["definition"]}]}},
        ]
    }

    flow = Name(max_length=MAX_NAME, required=False, help_text="Either this or definition.")
    definition = Definition(
        required=False, help_text="Of this run alone; needs a key with the scope operate."
    )
    params = JsonObject(required=False)
    key = Name(
        max_length=MAX_KEY,
        required=False,
        allow_blank=True,
        help_text="Start no second run while one of this flow and key is open.",
    )
    trace_id = Name(max_length=MAX_TRACE, required=False, allow_blank=True)
    request_id = Name(
        max_length=MAX_REQUEST,
        required=False,
        help_text="A repeat with the same one within a day gets the first answer and starts no "
        "other run, whatever has become of the first.",
    )


class RunQuery(FilterQuery, PageQuery):
    filters = RunFilters


class ResultsQuery(StrictSerializer):
    after = DecimalId(required=False, help_text="From `after` of the answer before.")
    limit = Integer(min_value=1, max_value=BLOCK, default=BLOCK)


class FlowWhyBody(StrictSerializer):
    reason = Text(max_length=MAX_REASON, required=False, help_text="Kept in the journal.")


class FlowCancelBody(StrictSerializer):
    reason = ReasonText(max_length=MAX_REASON)
    force = Boolean(
        required=False,
        default=False,
        help_text="Cancel running jobs and open dispatches without waiting for them.",
    )


class FlowSkipBody(StrictSerializer):
    reason = ReasonText(max_length=MAX_REASON)
    result = Json(required=False, allow_null=True, help_text="In place of its own.")


class FlowFinishBody(FlowWhyBody):
    result = Json(required=False, allow_null=True, help_text="What steps after it get of it.")


class FlowRunsView(ApiView):
    """List runs, newest first; or start one.

    A run makes what its definition says, so a key that is bound to job types or executors starts
    only runs that stay within them.
    """

    operations = {"post": "start_flow"}
    scopes = {"GET": "read", "POST": "submit"}
    bindings = frozenset(Binding)
    queries = {"get": RunQuery}
    bodies = {"post": FlowStartBody}
    answers = {"get": FlowRunOut(many=True), "post": {201: FlowStartedOut, 200: FlowStartedOut}}
    problems = (409, 422)

    def get(self, request: Request) -> JsonAnswer:
        page, wanted = KeysetPage(request, self.query), RunQuery.wanted(self.query)
        masks = masks_payload(request)
        rows, bounds = FlowRun.objects.defer("params", "definition"), bounds_of(request)
        found: Any = RunFilters.narrow(rows, wanted)
        if bounds.are_open and len(wanted.given) <= 1:
            shown = page.rows(found)
        else:
            shown = page.rows_among(rows, found.within(bounds), limit=MAX_EXAMINED)
        return JsonAnswer(page.answer([FlowRunOut.of(row, masks=masks) for row in shown]))

    def post(self, request: Request) -> JsonAnswer:
        body = self.read_body()
        asked = Repeatable(client_of(request), body.pop("request_id", ""), body)
        if ("flow" in body) == ("definition" in body):
            raise Invalid.field("flow", "Give either flow or definition.")
        if "definition" in body and Scope.OPERATE not in key_of(request).scopes:
            raise Forbidden(
                f"The key {client_of(request)} lacks the scope operate, which a definition of its "
                "own needs; save it as a flow, or ask an operator to add the scope."
            )
        unmask_definition(request, body)
        unmask(request, body, "params")
        made = start_once(asked, **body, by=actor_of(request), bounds=bounds_of(request))
        return JsonAnswer(FlowStartedOut.of(made), status=201 if made.created else 200)


def _number(number: str) -> int:
    pk = read_id(number)
    if pk is None:
        raise NotFound(f"There is no flow run {number[:40]!r}.")
    logs.note(flow_run=number)
    return pk


def _find(request: Request, number: str) -> FlowRun:
    return find_run(_number(number), bounds=bounds_of(request))


def _answer(request: Request, run: Any) -> JsonAnswer:
    rows = {row.name: row for row in run.steps.all()}
    run.in_order = [rows[step["name"]] for step in run.definition["steps"]]
    return JsonAnswer(FlowRunDetailOut.of(run, masks=masks_payload(request)))


class FlowRunView(ApiView):
    """One run with its steps."""

    scopes = {"GET": "read"}
    bindings = frozenset(Binding)
    answers = {"get": FlowRunDetailOut}
    problems = (404,)

    def get(self, request: Request, number: str) -> JsonAnswer:
        return _answer(request, _find(request, number))


class StepResultsView(ApiView):
    """The results of the jobs of a step in the order of its items, up to 500 at a time, fewer
    where they are large; also for a key that is bound to their type, or to one whose jobs the flow
    gives a handle of them."""

    operations = {"get": "step_results"}
    scopes = {"GET": "read"}
    bindings = frozenset(Binding)
    queries = {"get": ResultsQuery}
    answers = {"get": FlowResultsOut}
    problems = (404,)

    def get(self, request: Request, number: str, step: str) -> JsonAnswer:
        row = find_step_with_results(_number(number), step, bounds=bounds_of(request))
        after, limit = self.query.get("after", 0), self.query["limit"]
        page, more = page_of(row, after=after, limit=limit, letters=paging.MAX_LETTERS)
        masks = masks_payload(request)
        shown = [FlowJobOut.of(each, masks=masks) for each in page]
        follows = str(page[-1].id) if more and page else None
        return JsonAnswer({"results": shown, "after": follows})


class RunActView(ApiView):
    """Base of what is done to one run."""

    scopes = {"POST": "operate"}
    bindings = frozenset(Binding)
    bodies = {"post": FlowWhyBody}
    answers: ClassVar[dict[str, Any]] = {"post": FlowRunDetailOut}
    problems = (404, 409)
    act: ClassVar[Any]

    def post(self, request: Request, number: str, **step: str) -> JsonAnswer:
        run, body = _find(request, number), self.read_body()
        unmask(request, body, "result")
        acted = type(self).act(run=run, **step, **body, actor=actor_of(request))
        return _answer(request, acted)


class CancelRunView(RunActView):
    """Begin nothing more and cancel what is open."""

    bodies = {"post": FlowCancelBody}
    act = staticmethod(control.cancel)


class PauseRunView(RunActView):
    """Begin no more steps; what is active goes on."""

    act = staticmethod(control.pause)


class ResumeRunView(RunActView):
    """Begin steps again."""

    act = staticmethod(control.resume)


class RetryRunView(RunActView):
    """Try again what has failed, and go on from there."""

    act = staticmethod(control.retry)


class SkipStepView(RunActView):
    """Go on without a step."""

    operations = {"post": "skip_step"}
    bodies = {"post": FlowSkipBody}
    act = staticmethod(control.skip)


class FinishStepView(RunActView):
    """End a step that waits, with a result."""

    operations = {"post": "finish_step"}
    bodies = {"post": FlowFinishBody}
    act = staticmethod(control.finish)
