"""Reading the log of hand-outs, and cancelling one."""

from __future__ import annotations

from typing import Any

from rest_framework.request import Request

from apps.access.bindings import actor_of, executors_of, masks_payload
from apps.access.rules.clients import Binding
from apps.common import logs
from apps.common.api.filter_fields import FilterQuery
from apps.common.api.paging import MAX_EXAMINED, KeysetPage, PageQuery
from apps.common.api.serializer_fields import Boolean, ReasonText, Text
from apps.common.api.serializers import StrictSerializer
from apps.common.api.views import ApiView, JsonAnswer
from apps.common.errors import NotFound
from apps.common.readers import read_id
from apps.dispatch.api.shapes import DispatchDetailOut, EndedOut
from apps.dispatch.models import AnyDispatch, ArchivedDispatch, Dispatch
from apps.dispatch.rules import names
from apps.dispatch.services import ending, executors
from apps.dispatch.services.filtered import RestArchiveFilters, RestDispatchFilters
from apps.dispatch.services.find import existing_dispatch
from apps.dispatch.services.handing import ask_again, hand_over


class DispatchQuery(FilterQuery, PageQuery):
    filters, archive = RestDispatchFilters, RestArchiveFilters

    archived = Boolean(
        required=False,
        help_text="true: the dispatches of the archive, by executor, by source and task, by "
        "part_of, by where, and by the time of the hand-out.",
    )


class CancelBody(StrictSerializer):
    reason = ReasonText(max_length=500)


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
        wanted = DispatchQuery.wanted(self.query)
        rows_of: Any = ArchivedDispatch.objects if self.query.get("archived") else Dispatch.objects
        first = RestDispatchFilters.indexed(wanted) | {*RestDispatchFilters.period}
        # By a join, MariaDB might begin with the executors and sort the dispatches of all of them.
        within = RestDispatchFilters.narrow(
            rows_of.prefetch_related("executor"), wanted.only(first)
        )
        found = RestDispatchFilters.narrow(within, wanted.without(*first))
        bound = executors_of(request)
        if bound is not None:
            found = found.within(bound)
        if wanted.given.keys() <= first and bound is None:
            rows = page.rows(found)
        else:
            rows = page.rows_among(within, found, limit=MAX_EXAMINED)
        masks = masks_payload(request)
        return JsonAnswer(page.answer([DispatchDetailOut.of(row, masks=masks) for row in rows]))


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


class HandOverBody(StrictSerializer):
    executor = Text(max_length=names.MAX_CHARACTERS, help_text="The user who gets it.")
    reason = Text(required=False, allow_blank=True, default="", max_length=500)


class HandOverView(ApiView):
    """Give an open dispatch to another user: it ends as released, and the answer is the one that
    the user gets, with a new deadline. A pull of that user answers it. 409 says why the user cannot
    have it, or that it has ended."""

    scopes = {"POST": "operate"}
    bindings = frozenset({Binding.EXECUTORS})
    bodies = {"post": HandOverBody}
    answers = {"post": DispatchDetailOut}
    problems = (404, 409)

    def post(self, request: Request, number: str) -> JsonAnswer:
        body = self.read_body()
        given = hand_over(
            dispatch=_find(request, number),
            to=executors.find(body["executor"], bound=executors_of(request)),
            actor=actor_of(request),
            reason=body["reason"],
        )
        return JsonAnswer(
            DispatchDetailOut.of(existing_dispatch(given.pk), masks=masks_payload(request))
        )


class AskAgainBody(StrictSerializer):
    reason = Text(required=False, allow_blank=True, default="", max_length=500)


class AskAgainView(ApiView):
    """Ask the user of an ended dispatch again: the answer is a new one of the same occurrence, to
    which the place in the quota goes over. A pull of the user answers it. 409 says why the user
    cannot have it; a cancelled one stays final."""

    scopes = {"POST": "operate"}
    bindings = frozenset({Binding.EXECUTORS})
    bodies = {"post": AskAgainBody}
    answers = {"post": DispatchDetailOut}
    problems = (404, 409)

    def post(self, request: Request, number: str) -> JsonAnswer:
        body = self.read_body()
        given = ask_again(
            dispatch=_find(request, number), actor=actor_of(request), reason=body["reason"]
        )
        return JsonAnswer(
            DispatchDetailOut.of(existing_dispatch(given.pk), masks=masks_payload(request))
        )


def _find(request: Request, number: str) -> AnyDispatch:
    pk = read_id(number)
    if pk is None:
        raise NotFound(f"There is no dispatch {number[:40]!r}.")
    logs.note(dispatch=number)
    return existing_dispatch(pk, bound=executors_of(request))
