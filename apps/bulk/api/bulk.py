"""Changing all rows that a filter means: the plan, the start, and what became of each row."""

from __future__ import annotations

from typing import Any, ClassVar

from django.utils.translation import gettext_lazy as _
from rest_framework import serializers
from rest_framework.request import Request

from apps.access.bindings import actor_of, key_of, masks_payload
from apps.access.rules.clients import Binding
from apps.bulk.api.bodies import (
    DispatchesBulkBody,
    JobsBulkBody,
    OnceTasksBulkBody,
    RotateTasksBulkBody,
    UndoBody,
)
from apps.bulk.models import BulkRow, BulkRun
from apps.bulk.services import runs, starter, undo
from apps.bulk.services.plan import Plan, known_matches, plan
from apps.bulk.services.selection import CHANGED_BY, Selection, changed_by, stored
from apps.bulk.services.targets import Target, check, target_of
from apps.common import clock
from apps.common.api.filter_fields import FilterQuery
from apps.common.api.paging import KeysetPage, PageQuery
from apps.common.api.serializer_fields import SAY_WHY, Instant, StoredObject
from apps.common.api.serializers import Answer
from apps.common.api.views import ApiView, JsonAnswer
from apps.common.errors import FieldError, Forbidden, Invalid, NotFound
from apps.common.filtersets import Choice, RowFilters
from apps.common.json.search import require_unmasked
from apps.common.messages import joined
from apps.common.readers import read_id
from apps.jobs.api.control import ReasonBody
from apps.jobs.models import Bounds

# The beginning of an act that is a bulk run.
OF_RUN = "bulk:"


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
    payload: ClassVar[tuple[str, ...]] = ("reason", "why")

    id = serializers.CharField(source="pk", help_text="A decimal string.")
    state = serializers.ChoiceField(choices=BulkRun.State.choices)
    job_id = serializers.CharField(source="job", help_text="The job that carries it out.")
    kind = serializers.CharField()
    verb = serializers.CharField()
    params = StoredObject()
    filter = serializers.SerializerMethodField()
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
    undo = serializers.SerializerMethodField(
        help_text="For ten minutes from its end on, `POST /undo/{undo}/` takes back what it "
        "changed. Null: nothing can be."
    )

    def get_undo(self, run: BulkRun) -> str | None:
        return None if undo.why_not(run) else f"{OF_RUN}{run.pk}"

    def get_filter(self, run: BulkRun) -> dict[str, Any]:
        return stored(target_of(run.kind), run.filter).masked().wire()


class NotRestoredOut(Answer):
    id = serializers.CharField(help_text="Of the row: a decimal string.")
    why = serializers.CharField()


class UndoneOut(Answer):
    restored = serializers.IntegerField(help_text="Rows that have what they had.")
    left = NotRestoredOut(many=True, help_text="Rows that stay as they are, such as changed ones.")


class BulkRowOut(Answer):
    payload = ("why",)

    id = serializers.CharField(source="target", help_text="Of the job: a decimal string.")
    outcome = serializers.CharField(help_text="Empty: its turn has not come.")
    why = serializers.CharField()


def _with_outcome(rows: Any, column: str, outcome: str) -> Any:
    return rows.filter(**{column: "" if outcome == "waiting" else outcome})


class BulkRowFilters(RowFilters):
    """The rows of one run, by their outcome."""

    outcome = Choice(
        [(value or "waiting", label) for value, label in BulkRow.Outcome.choices],
        label=_("outcome"),
        method=_with_outcome,
    )


class RowsQuery(FilterQuery, PageQuery):
    filters = BulkRowFilters


class BulkView(ApiView):
    """The base of the endpoints that start runs over one kind of rows."""

    scopes = {"POST": "operate"}
    bindings = frozenset(Binding)
    answers = {"post": {200: PlanOut, 202: BulkRunOut}}
    problems = (409, 422)
    kind: ClassVar[str]

    def post(self, request: Request) -> JsonAnswer:
        body, target = self.read_body(), target_of(self.kind)
        selection = _selection(request, target, body["filter"])
        params = body.get("params", {})
        bounds = _bounds(request)
        if body["dry_run"]:
            check(target, body["verb"], params, clock.now())
            found = plan(selection, body["verb"], params, bounds=bounds, rate=body["rate"])
            runs.require_room(body.get("at_most"), found.matches if found.is_exact else None)
            return JsonAnswer(PlanOut.of(_figures(found)))
        _require(body)
        at_most = None if body["all"] else body["at_most"]
        run = runs.start(
            selection=selection,
            verb=body["verb"],
            params=params,
            at_most=at_most,
            rate=body["rate"],
            reason=body["reason"],
            actor=actor_of(request),
            bounds=bounds,
            request_id=body.get("request_id"),
            known=None if at_most is None else known_matches(selection, bounds),
        )
        return _started(request, run)


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


class RotateTasksBulkView(BulkView):
    """Change all rotations that a filter means, or with dry_run only say which.

    The answer to a start has the address of the run, which changes them in the background.
    """

    bindings = frozenset({Binding.EXECUTORS})
    bodies = {"post": RotateTasksBulkBody}
    kind = "rotate-tasks"


class BulkRunView(ApiView):
    """A bulk run: how far it is."""

    scopes = {"GET": "read"}
    bindings = frozenset(Binding)
    answers = {"get": BulkRunOut}
    problems = (404,)

    def get(self, request: Request, number: str) -> JsonAnswer:
        return _answer(request, _find(request, number))


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
        rows = BulkRowFilters.narrow(rows, RowsQuery.wanted(self.query))
        masks = masks_payload(request)
        return JsonAnswer(page.answer([BulkRowOut.of(row, masks=masks) for row in page.rows(rows)]))


class RunActView(ApiView):
    """Base of what is done to one bulk run."""

    scopes = {"POST": "operate"}
    bindings = frozenset(Binding)
    bodies = {"post": ReasonBody}
    answers = {"post": BulkRunOut}
    problems = (404, 409)
    act: ClassVar[Any]

    def post(self, request: Request, number: str) -> JsonAnswer:
        run, body = _find(request, number), self.read_body()
        return _answer(request, type(self).act(run=run, **body, actor=actor_of(request)))


class StopView(RunActView):
    """Change no further rows of a bulk run; what is changed stays."""

    act = staticmethod(runs.stop)


class ContinueView(RunActView):
    """Go on with the rows of a stopped bulk run that are left."""

    act = staticmethod(runs.resume)


class UndoView(ApiView):
    """Take back an act of this key, or what a bulk run has changed, in rows that have not changed
    since; within ten minutes.

    `act` is what the answer to it has as `undo`. Of a bulk run it starts another run (202).
    """

    operations = {"post": "undo"}
    scopes = {"POST": "operate"}
    bindings = frozenset(Binding)
    bodies = {"post": UndoBody}
    answers = {"post": {200: UndoneOut, 202: BulkRunOut}}
    problems = (404, 409)

    def post(self, request: Request, act: str) -> JsonAnswer:
        bounds, actor, reason = _bounds(request), actor_of(request), self.read_body()["reason"]
        if act.startswith(OF_RUN):
            run = _find(request, act.removeprefix(OF_RUN))
            return _started(request, undo.undo_run(run, actor=actor, bounds=bounds, reason=reason))
        number = read_id(act)
        deed = None if number is None else undo.deed_of_key(number, actor, bounds)
        if deed is None:
            raise NotFound(f"There is no act {act[:40]!r} of this key to undo.")
        found = undo.undo(deed, actor=actor, bounds=bounds, reason=reason)
        left = [{"id": str(row), "why": why} for row, why in found.left.items()]
        return JsonAnswer(UndoneOut.of({"restored": found.done, "left": left}))


def _started(request: Request, run: BulkRun) -> JsonAnswer:
    place = {"Location": f"/api/v1/bulk/{run.pk}/"}
    return _answer(request, run, status=202, headers=place)


def _answer(request: Request, run: BulkRun, **kwargs: Any) -> JsonAnswer:
    return JsonAnswer(BulkRunOut.of(run, masks=masks_payload(request)), **kwargs)


def _bounds(request: Request) -> Bounds:
    return Bounds.of_key(key_of(request))


def _find(request: Request, number: str) -> BulkRun:
    """The run; NotFound for none."""
    pk = read_id(number)
    run = None if pk is None else _covered(request, pk)
    if run is None:
        raise NotFound(f"There is no bulk run {number[:40]!r}.")
    return run


def _covered(request: Request, number: int) -> BulkRun | None:
    """A bound key finds those runs only that change nothing beyond its bounds."""
    run: BulkRun | None = BulkRun.objects.filter(pk=number).first()
    if run is None or not starter.covers(_bounds(request), starter.read(run.bound)):
        return None
    return run


def _selection(request: Request, target: Target, given: dict[str, Any]) -> Selection:
    names = {**given}
    try:
        earlier = changed_by(
            target, names.pop(CHANGED_BY, None), lambda number: _covered(request, number)
        )
        selection = Selection(target, target.filters.read(names), earlier)
        require_unmasked(selection.wanted.where)
        if unknown := [*target.unknown(selection.wanted, _bounds(request))]:
            raise Invalid(joined(error.message for error in unknown), errors=unknown)
    except Invalid as error:
        errors = [FieldError(f"filter.{e.field}", e.code, e.message) for e in error.errors]
        raise Invalid(error.detail, errors=errors) from error
    client = key_of(request)
    if missing := target.scopes(selection.wanted) - client.scopes:
        raise Forbidden(
            f"The key {client.client_id} lacks the scope {' and '.join(sorted(missing))}, which "
            "the filter where needs; ask an operator to add it."
        )
    return selection


def _require(body: dict[str, Any]) -> None:
    """Invalid unless the body says how many rows may change, and why."""
    errors = []
    if body["all"] == ("at_most" in body):
        text = 'Give at_most, or "all": true for however many match; not both.'
        errors.append(FieldError("at_most", "invalid", text))
    if "reason" not in body:
        errors.append(FieldError("reason", "invalid", SAY_WHY))
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
