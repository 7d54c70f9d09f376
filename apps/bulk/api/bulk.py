"""Changing all rows that a filter means: the plan, the start, and what became of each row."""

from __future__ import annotations

import re
from typing import Any, ClassVar

from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers
from rest_framework.request import Request

from apps.access.bindings import actor_of
from apps.access.rules.clients import Binding, Client
from apps.bulk.models import BulkRow, BulkRun
from apps.bulk.rules.settings import MAX_RATE, MAX_REASON, RATE
from apps.bulk.services import runs, starter
from apps.bulk.services.plan import Plan, plan
from apps.bulk.services.targets import check, target_of
from apps.common import clock
from apps.common.errors import FieldError, Invalid, NotFound
from apps.common.paging import KeysetPage, PageQuery
from apps.common.serializers import (
    Answer,
    Boolean,
    Choice,
    Instant,
    Integer,
    Name,
    Names,
    StrictSerializer,
    Text,
)
from apps.common.views import ApiView, JsonAnswer
from apps.dispatch.models import Dispatch, OnceTask, Source
from apps.dispatch.rules import task_filter, task_verbs
from apps.dispatch.rules import verbs as dispatch_verbs
from apps.jobs.api.control import ReasonBody
from apps.jobs.models import Bounds, Job
from apps.jobs.rules import verbs
from apps.jobs.rules.job_filter import MAX_IDS, MAX_NAME, MAX_TEXT
from apps.jobs.rules.order import HIGHEST_PRIORITY, LOWEST_PRIORITY
from apps.jobs.rules.type_settings import MAX_HOST
from apps.jobs.rules.type_snapshot import RANGES

MAX_REQUEST = 100
_MOST = 2**31 - 1
_MIN_ATTEMPTS, _MAX_ATTEMPTS = (int(each) for each in RANGES["max_attempts"])


@extend_schema_field(
    {"oneOf": [{"type": "string"}, {"type": "array", "items": {"type": "string"}}]}
)
class OneOrMore(Names):
    """A name, or a list of some of which one is enough."""

    def to_internal_value(self, data: Any) -> list[str]:
        return super().to_internal_value([data] if isinstance(data, str) else data)


class JobFilterBody(StrictSerializer):
    ids = OneOrMore(max_items=MAX_IDS, required=False)
    type = OneOrMore(max_items=MAX_IDS, required=False)
    lane = Name(max_length=8, required=False)
    status = OneOrMore(max_items=len(Job.Status.values), required=False)
    key = Name(max_length=MAX_NAME, required=False)
    user_id = Name(max_length=MAX_NAME, required=False)
    host = Name(max_length=MAX_NAME, required=False)
    worker = Name(max_length=MAX_NAME, required=False)
    client = Name(max_length=MAX_NAME, required=False)
    stage = Name(max_length=MAX_NAME, required=False)
    error_key = Name(max_length=MAX_NAME, required=False)
    priority_from = Integer(min_value=LOWEST_PRIORITY, max_value=HIGHEST_PRIORITY, required=False)
    priority_to = Integer(min_value=LOWEST_PRIORITY, max_value=HIGHEST_PRIORITY, required=False)
    created_after = Instant(required=False)
    created_before = Instant(required=False)
    run_after = Instant(required=False)
    run_before = Instant(required=False)
    finished_after = Instant(required=False)
    finished_before = Instant(required=False)


class JobParamsBody(StrictSerializer):
    priority = Integer(min_value=LOWEST_PRIORITY, max_value=HIGHEST_PRIORITY, required=False)
    run_at = Instant(required=False, help_text="Of time: the same instant for all.")
    shift_seconds = Integer(
        min_value=-verbs.MAX_SHIFT_SECONDS,
        max_value=verbs.MAX_SHIFT_SECONDS,
        required=False,
        help_text="Of time: later by so much, or earlier.",
    )
    max_attempts = Integer(min_value=_MIN_ATTEMPTS, max_value=_MAX_ATTEMPTS, required=False)
    host = Name(
        max_length=MAX_HOST, required=False, allow_blank=True, help_text="Of move; empty: any."
    )
    succeeded = Boolean(required=False, help_text="Of retry: succeeded jobs, too.")


class BulkBody(StrictSerializer):
    """Some fields belong to kinds of rows: each kind adds verb, filter and params."""

    reason = Text(max_length=MAX_REASON, required=False, help_text="Required to start.")
    dry_run = Boolean(required=False, default=False, help_text="Only say what would change.")
    at_most = Integer(
        min_value=1,
        max_value=_MOST,
        required=False,
        help_text="If more rows match, nothing is changed. Required unless all is true.",
    )
    all = Boolean(required=False, default=False, help_text="However many match.")
    rate = Integer(
        min_value=1, max_value=MAX_RATE, default=RATE, help_text="Rows per second at most."
    )
    request_id = Name(
        max_length=MAX_REQUEST, required=False, help_text="A repeat gets the first run."
    )


class JobsBulkBody(BulkBody):
    verb = Choice(choices=[*verbs.PARAMS])
    filter = JobFilterBody()
    params = JobParamsBody(required=False)


class DispatchFilterBody(StrictSerializer):
    ids = OneOrMore(max_items=MAX_IDS, required=False)
    executor = Name(
        max_length=MAX_NAME, required=False, help_text="A user; a group stands for its members."
    )
    state = OneOrMore(max_items=len(Dispatch.State.values), required=False)
    source = Choice(choices=Source.choices, required=False)  # type: ignore[assignment]
    task = Integer(min_value=1, max_value=2**63 - 1, required=False)
    dispatched_after = Instant(required=False)
    dispatched_before = Instant(required=False)


class DispatchesBulkBody(BulkBody):
    verb = Choice(choices=[*dispatch_verbs.VERBS])
    filter = DispatchFilterBody()


class TaskFilterBody(StrictSerializer):
    ids = OneOrMore(max_items=MAX_IDS, required=False)
    executor = Name(
        max_length=MAX_NAME, required=False, help_text="Whom they reach, also by a group."
    )
    status = OneOrMore(max_items=len(task_filter.STATUSES), required=False)
    mode = Choice(choices=OnceTask.Mode.choices, required=False)
    start_after = Instant(required=False)
    start_before = Instant(required=False)
    text = Text(max_length=MAX_TEXT, required=False, help_text="Part of the title.")


class TaskParamsBody(StrictSerializer):
    shift_seconds = Integer(
        min_value=-verbs.MAX_SHIFT_SECONDS, max_value=verbs.MAX_SHIFT_SECONDS, required=False
    )
    priority = Integer(min_value=LOWEST_PRIORITY, max_value=HIGHEST_PRIORITY, required=False)
    end_at = Instant(required=False)


class OnceTasksBulkBody(BulkBody):
    verb = Choice(choices=[*task_verbs.VERBS])
    filter = TaskFilterBody()
    params = TaskParamsBody(required=False)


class CountedOut(Answer):
    reason = serializers.CharField()
    count = serializers.IntegerField()


class SampleOut(Answer):
    id = serializers.CharField(help_text="A decimal string.")
    change = serializers.CharField(help_text="What becomes of it; empty if it is left out.")
    why = serializers.CharField(help_text="Why it is left out.")


class PlanOut(Answer):
    matches = serializers.IntegerField()
    eligible = serializers.IntegerField(help_text="Of those that match, how many change.")
    exact = serializers.BooleanField(
        help_text="False: these are figures of the newest `looked` rows only."
    )
    looked = serializers.IntegerField(allow_null=True)
    ineligible = CountedOut(many=True)
    samples = SampleOut(many=True)
    seconds = serializers.IntegerField(help_text="How long a run takes at the rate.")


class BulkRunOut(Answer):
    id = serializers.CharField(source="pk", help_text="A decimal string.")
    state = serializers.ChoiceField(choices=BulkRun.State.choices)
    job_id = serializers.CharField(source="job", help_text="The job that carries it out.")
    kind = serializers.CharField()
    verb = serializers.CharField()
    params = serializers.DictField()
    filter = serializers.DictField()
    at_most = serializers.IntegerField(allow_null=True)
    rate = serializers.IntegerField()
    reason = serializers.CharField()
    actor = serializers.CharField()
    why = serializers.CharField(help_text="Why it stopped or failed by itself.")
    collected = serializers.IntegerField(help_text="Rows that match.")
    done = serializers.IntegerField()
    skipped = serializers.IntegerField()
    failed = serializers.IntegerField()
    created_at = Instant()
    ended_at = Instant(allow_null=True)


class BulkRowOut(Answer):
    id = serializers.CharField(source="target", help_text="Of the job: a decimal string.")
    outcome = serializers.CharField(help_text="Empty: its turn has not come.")
    why = serializers.CharField()


class RowsQuery(PageQuery):
    outcome = Choice(choices=["waiting", *filter(None, BulkRow.Outcome.values)], required=False)


class BulkView(ApiView):
    """The base of the endpoints that start runs over one kind of rows."""

    scopes = {"POST": "operate"}
    bindings = frozenset(Binding)
    answers = {"post": {200: PlanOut, 202: BulkRunOut}}
    problems = (409, 422)
    kind: ClassVar[str]

    def post(self, request: Request) -> JsonAnswer:
        body, target = self.read_body(), target_of(self.kind)
        wanted = _wanted(target, body["filter"])
        params = body.get("params", {})
        bounds = _bounds(request)
        if body["dry_run"]:
            check(target, body["verb"], params, clock.now())
            found = plan(target, body["verb"], params, wanted, bounds=bounds, rate=body["rate"])
            return JsonAnswer(PlanOut.of(_figures(found)))
        _require(body)
        run = runs.start(
            kind=self.kind,
            verb=body["verb"],
            params=params,
            wanted=wanted,
            at_most=None if body["all"] else body["at_most"],
            rate=body["rate"],
            reason=body["reason"],
            actor=actor_of(request),
            bounds=bounds,
            request_id=_request_id(request, body.get("request_id")),
        )
        place = {"Location": f"/api/v1/bulk/{run.pk}/"}
        return JsonAnswer(BulkRunOut.of(run), status=202, headers=place)


class JobsBulkView(BulkView):
    """Change all jobs that a filter means, or with dry_run only say which; never archived ones.

    The answer to a start has the address of the run, which changes the jobs in the background.
    """

    bodies = {"post": JobsBulkBody}
    kind = "jobs"


class DispatchesBulkView(BulkView):
    """End all dispatches that a filter means, or with dry_run only say which.

    The answer to a start has the address of the run, which ends them in the background.
    """

    bindings = frozenset({Binding.EXECUTORS})
    bodies = {"post": DispatchesBulkBody}
    kind = "dispatches"


class OnceTasksBulkView(BulkView):
    """Change all once tasks that a filter means, or with dry_run only say which.

    The answer to a start has the address of the run, which changes them in the background.
    """

    bindings = frozenset({Binding.EXECUTORS})
    bodies = {"post": OnceTasksBulkBody}
    kind = "once-tasks"


class BulkRunView(ApiView):
    """A bulk run: how far it is."""

    scopes = {"GET": "read"}
    bindings = frozenset(Binding)
    answers = {"get": BulkRunOut}
    problems = (404,)

    def get(self, request: Request, number: str) -> JsonAnswer:
        return JsonAnswer(BulkRunOut.of(_find(request, number)))


class BulkRowsView(ApiView):
    """The rows of a bulk run and what became of each, in the order in which they are changed."""

    scopes = {"GET": "read"}
    bindings = frozenset(Binding)
    queries = {"get": RowsQuery}
    answers = {"get": BulkRowOut(many=True)}
    problems = (404,)

    def get(self, request: Request, number: str) -> JsonAnswer:
        page = KeysetPage(request, self.query, ascending=True)
        rows = BulkRow.objects.filter(run=_find(request, number))
        if asked := self.query.get("outcome"):
            rows = rows.filter(outcome="" if asked == "waiting" else asked)
        return JsonAnswer(page.answer([BulkRowOut.of(row) for row in page.rows(rows)]))


class StopView(ApiView):
    """Change no further rows of a bulk run; what is changed stays."""

    scopes = {"POST": "operate"}
    bindings = frozenset(Binding)
    bodies = {"post": ReasonBody}
    answers = {"post": BulkRunOut}
    problems = (404, 409)

    def post(self, request: Request, number: str) -> JsonAnswer:
        run, body = _find(request, number), self.read_body()
        stopped = runs.stop(run=run, actor=actor_of(request), reason=body["reason"])
        return JsonAnswer(BulkRunOut.of(stopped))


class ContinueView(ApiView):
    """Go on with the rows of a stopped bulk run that are left."""

    scopes = {"POST": "operate"}
    bindings = frozenset(Binding)
    bodies = {"post": ReasonBody}
    answers = {"post": BulkRunOut}
    problems = (404, 409)

    def post(self, request: Request, number: str) -> JsonAnswer:
        run, body = _find(request, number), self.read_body()
        going = runs.resume(run=run, actor=actor_of(request), reason=body["reason"])
        return JsonAnswer(BulkRunOut.of(going))


def _client(request: Request) -> Client:
    client: Client = request.auth  # type: ignore[assignment]
    return client


def _bounds(request: Request) -> Bounds:
    return starter.bounds_of_key(_client(request))


def _request_id(request: Request, given: str | None) -> str | None:
    # Keys choose theirs apart from each other.
    return f"{_client(request).client_id}:{given}"[-128:] if given else None


def _find(request: Request, number: str) -> BulkRun:
    """The run; a bound key finds those only that change nothing beyond its bounds."""
    is_number = re.fullmatch(r"[1-9][0-9]{0,18}", number) and int(number) < 2**63
    run = BulkRun.objects.filter(pk=int(number)).first() if is_number else None
    if run is None or not starter.covers(_bounds(request), starter.read(run.bound)):
        raise NotFound(f"There is no bulk run {number[:40]!r}.")
    found: BulkRun = run
    return found


def _wanted(target: Any, given: dict[str, Any]) -> Any:
    try:
        return target.read(given)
    except Invalid as error:
        errors = [FieldError(f"filter.{e.field}", e.code, e.message) for e in error.errors]
        raise Invalid(error.detail, errors=errors) from error


def _require(body: dict[str, Any]) -> None:
    """Invalid unless the body says how many rows may change, and why."""
    errors = []
    if body["all"] == ("at_most" in body):
        text = 'Give at_most, or "all": true for however many match; not both.'
        errors.append(FieldError("at_most", "invalid", text))
    if "reason" not in body:
        errors.append(FieldError("reason", "invalid", "Say why; the journal keeps it."))
    if errors:
        raise Invalid(errors[0].message, errors=errors)


def _figures(found: Plan) -> dict[str, Any]:
    return {
        "matches": found.matches,
        "eligible": found.eligible,
        "exact": found.is_exact,
        "looked": None if found.is_exact else found.looked,
        "ineligible": [{"reason": why, "count": count} for why, count in found.left_out],
        "samples": [
            {"id": str(each.number), "change": each.change, "why": each.why}
            for each in found.samples
        ],
        "seconds": found.seconds,
    }
