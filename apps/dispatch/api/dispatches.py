"""Reading the log of hand-outs, and cancelling one."""

from __future__ import annotations

from collections.abc import Collection
from datetime import timedelta
from typing import Any

from rest_framework.request import Request

from apps.access.bindings import actor_of, executors_of, masks_payload
from apps.access.rules.clients import Binding
from apps.common import ids, logs
from apps.common.conditions import Where
from apps.common.errors import FieldError, Invalid, NotFound
from apps.common.json_search import holding
from apps.common.paging import MAX_EXAMINED, KeysetPage, PageQuery
from apps.common.readers import read_id
from apps.common.serializer_fields import Boolean, Choice, Instant, Integer, Reason, Text
from apps.common.serializers import StrictSerializer
from apps.common.views import ApiView, JsonAnswer
from apps.dispatch.api.shapes import DispatchDetailOut, EndedOut
from apps.dispatch.models import AnyDispatch, ArchivedDispatch, Dispatch, Executor, Source
from apps.dispatch.models.dispatch import DispatchQuerySet
from apps.dispatch.rules import names
from apps.dispatch.rules.dispatch_filter import PAYLOAD, read
from apps.dispatch.services import ending
from apps.dispatch.services.find import existing_dispatch

# An id is made after the instant its row names, and waiting for locks may lie between the two.
_ID_SLACK = ids.lowest_id_at(ids.EPOCH + timedelta(minutes=10))


class DispatchQuery(PageQuery):
    executor = Text(max_length=names.MAX_CHARACTERS, required=False)
    state = Choice(choices=Dispatch.State.choices, required=False)
    source = Choice(choices=Source.choices, required=False)  # type: ignore[assignment]
    task = Integer(min_value=1, max_value=2**63 - 1, required=False)
    dispatched_after = Instant(required=False)
    dispatched_before = Instant(required=False)
    where = Where(PAYLOAD)
    archived = Boolean(
        required=False,
        help_text="true: the dispatches of the archive, by executor, by source and task, by where, "
        "and by the time of the hand-out.",
    )


_PAGE = {"limit", "cursor"}
_TIMES = {"dispatched_after", "dispatched_before"}
# What an index has in the order of the list; where both are asked for, the first.
_INDEXED = ({"executor"}, {"source", "task"})
_IN_ARCHIVE = _PAGE | _TIMES | {"archived", "executor", "source", "task", "where"}


class CancelBody(StrictSerializer):
    reason = Reason(max_length=500)


class DispatchesView(ApiView):
    """The dispatches, newest first.

    A page of a filtered list may be short or empty although `next` is not null: then nothing
    matched among the dispatches examined so far. Dispatches that ended long ago are in the archive,
    a list of its own.
    """

    scopes = {"GET": "read"}
    bindings = frozenset({Binding.EXECUTORS})
    queries = {"get": DispatchQuery}
    answers = {"get": DispatchDetailOut(many=True)}

    def get(self, request: Request) -> JsonAnswer:
        page = KeysetPage(request, self.query)
        is_archive = self.query.get("archived", False)
        if is_archive:
            _require_archive(self.query)
        rows_of: Any = ArchivedDispatch.objects if is_archive else Dispatch.objects
        given = self.query.keys() - _PAGE - {"archived"}
        named = next((each for each in _INDEXED if each <= given), set[str]())
        # By a join, MariaDB might begin with the executors and sort the dispatches of all of them.
        dispatches = _handed_out_between(rows_of.prefetch_related("executor"), self.query)
        within = _equal(dispatches, self.query, named)
        where = read({"where": self.query.get("where")}).where
        found = holding(_equal(within, self.query, given - named - _TIMES - {"where"}), where)
        bound = executors_of(request)
        if bound is not None:
            found = found.within(bound)
        if given <= named | _TIMES and bound is None:
            rows = page.rows(found)
        else:
            rows = page.rows_among(within, found, limit=MAX_EXAMINED)
        masks = masks_payload(request)
        return JsonAnswer(page.answer([DispatchDetailOut.of(row, masks=masks) for row in rows]))


def _require_archive(query: dict[str, Any]) -> None:
    """Invalid for filters that the archive does not have."""
    errors = [
        FieldError(name, "invalid", f"The archive is not filtered by {name}.")
        for name in sorted(query.keys() - _IN_ARCHIVE)
    ]
    if errors:
        raise Invalid(f"{errors[0].field}: {errors[0].message}", errors=errors)


def _equal(
    dispatches: DispatchQuerySet, query: dict[str, Any], asked: Collection[str]
) -> DispatchQuerySet:
    """Those with the values that the query has under these names."""
    values = {name: query[name] for name in asked}
    if "executor" in values:
        name = values.pop("executor")
        # As a number, because a join might begin anywhere.
        known = Executor.objects.filter(name=name).values_list("pk", flat=True)
        values["executor_id"] = (names.is_name(name) and known.first()) or 0
    return dispatches.filter(**values)


def _handed_out_between(dispatches: DispatchQuerySet, query: dict[str, Any]) -> DispatchQuerySet:
    # The bound on the id is what keeps the scan short; no index has the instant.
    after, before = query.get("dispatched_after"), query.get("dispatched_before")
    if after is not None:
        floor = ids.lowest_id_at(after) - _ID_SLACK
        dispatches = dispatches.filter(id__gte=floor, dispatched_at__gte=after)
    if before is not None:
        ceiling = ids.lowest_id_at(before) + _ID_SLACK
        dispatches = dispatches.filter(id__lt=ceiling, dispatched_at__lt=before)
    return dispatches


class DispatchView(ApiView):
    """One dispatch by its number."""

    scopes = {"GET": "read"}
    bindings = frozenset({Binding.EXECUTORS})
    answers = {"get": DispatchDetailOut}
    problems = (404,)

    def get(self, request: Request, number: str) -> JsonAnswer:
        return JsonAnswer(
            DispatchDetailOut.of(_find(request, number), masks=masks_payload(request))
        )


class CancelView(ApiView):
    """Take an open dispatch away for good."""

    scopes = {"POST": "operate"}
    bindings = frozenset({Binding.EXECUTORS})
    bodies = {"post": CancelBody}
    answers = {"post": EndedOut}
    problems = (404, 409)

    def post(self, request: Request, number: str) -> JsonAnswer:
        body = self.read_body()
        ended = ending.cancel(
            dispatch=_find(request, number), actor=actor_of(request), reason=body["reason"]
        )
        return JsonAnswer(EndedOut.of(ended))


def _find(request: Request, number: str) -> AnyDispatch:
    pk = read_id(number)
    if pk is None:
        raise NotFound(f"There is no dispatch {number[:40]!r}.")
    logs.note(dispatch=number)
    return existing_dispatch(pk, bound=executors_of(request))
