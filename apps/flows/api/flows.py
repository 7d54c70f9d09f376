"""Saved flows over REST."""

from __future__ import annotations

from rest_framework.request import Request

from apps.access.bindings import actor_of, key_of, masks_payload
from apps.access.rules.clients import Binding
from apps.common.api.paging import KeysetPage, PageQuery
from apps.common.api.serializer_fields import Name, Text
from apps.common.api.serializers import StrictSerializer
from apps.common.api.views import ApiView, JsonAnswer, NoContent
from apps.flows.api.shapes import Definition, FlowCheckedOut, FlowOut, unmask_definition
from apps.flows.models import MAX_NAME, MAX_TITLE, Flow
from apps.flows.services import flows
from apps.flows.services.check import check
from apps.jobs.models import Bounds
from apps.journal.services.versions import set_status


class FlowDefinitionBody(StrictSerializer):
    definition = Definition()


class FlowVersionBody(FlowDefinitionBody):
    title = Text(max_length=MAX_TITLE, required=False, allow_blank=True)


class FlowBody(FlowVersionBody):
    name = Name(max_length=MAX_NAME)


def bounds_of(request: Request) -> Bounds:
    """The job types and executors that the key may reach."""
    return Bounds.of_key(key_of(request))


class FlowsView(ApiView):
    """The newest version of every flow, listed by its first one; or a new flow.

    To a key that is bound, a page may be short or empty although `next` is not null.
    """

    scopes = {"GET": "read", "POST": "operate"}
    bindings = frozenset(Binding)
    queries = {"get": PageQuery}
    bodies = {"post": FlowBody}
    answers = {"get": FlowOut(many=True), "post": {201: FlowOut}}
    problems = (409,)

    def get(self, request: Request) -> JsonAnswer:
        page, masks = KeysetPage(request, self.query), masks_payload(request)
        bounds = bounds_of(request)

        def shown(rows: list[Flow]) -> list[Flow | None]:
            newest = Flow.objects.newest().filter(name__in=[row.name for row in rows])
            return newest.within(bounds).in_place_of(rows)

        # By the first version, so that nothing is left out that gets another one meanwhile.
        rows = page.rows(Flow.objects.oldest().only("name"), shown)
        return JsonAnswer(page.answer([FlowOut.of(row, masks=masks) for row in rows]))

    def post(self, request: Request) -> JsonAnswer:
        body = self.read_body()
        unmask_definition(request, body)
        made = flows.put_flow(**body, actor=actor_of(request), new=True, bounds=bounds_of(request))
        return JsonAnswer(FlowOut.of(made, masks=masks_payload(request)), status=201)


class FlowView(ApiView):
    """One flow by name; PUT makes its next version, DELETE retires it. Runs go on as they began."""

    scopes = {"GET": "read", "PUT": "operate", "DELETE": "operate"}
    bindings = frozenset(Binding)
    bodies = {"put": FlowVersionBody}
    answers = {"get": FlowOut, "put": FlowOut, "delete": {204: None}}
    problems = (404, 409)

    def get(self, request: Request, name: str) -> JsonAnswer:
        return self._answer(request, flows.find_flow(name, bounds=bounds_of(request)))

    def put(self, request: Request, name: str) -> JsonAnswer:
        bounds, body = bounds_of(request), self.read_body()
        before = flows.find_flow(name, bounds=bounds)
        unmask_definition(request, body, before.definition)
        made = flows.put_flow(name=name, **body, actor=actor_of(request), bounds=bounds)
        return self._answer(request, made)

    def delete(self, request: Request, name: str) -> NoContent:
        found = flows.find_flow(name, bounds=bounds_of(request))
        set_status(found, Flow.Status.RETIRED, actor=actor_of(request))
        return NoContent()

    def _answer(self, request: Request, flow: Flow) -> JsonAnswer:
        return JsonAnswer(FlowOut.of(flow, masks=masks_payload(request)))


class CheckFlowView(ApiView):
    """Check a definition and save nothing: its levels, or all that is wrong with it."""

    operations = {"post": "check_flow"}
    scopes = {"POST": "operate"}
    bindings = frozenset(Binding)
    bodies = {"post": FlowDefinitionBody}
    answers = {"post": FlowCheckedOut}

    def post(self, request: Request) -> JsonAnswer:
        body = self.read_body()
        return JsonAnswer(FlowCheckedOut.of(check(body["definition"], bounds=bounds_of(request))))
