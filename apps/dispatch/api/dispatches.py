"""Reading the log of hand-outs, and cancelling one."""

from __future__ import annotations

from typing import Any, ClassVar

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
        return _answer(request, _find(request, number))


class DispatchActView(ApiView):
    """Base of what is done to one dispatch."""

    scopes = {"POST": "operate"}
    bindings = frozenset({Binding.EXECUTORS})
    answers: ClassVar[dict[str, Any]] = {"post": DispatchDetailOut}
    problems = (404, 409)


class CancelView(DispatchActView):
    """Take an open dispatch away for good."""

    bodies = {"post": CancelBody}
    answers = {"post": EndedOut}

    def post(self, request: Request, number: str) -> JsonAnswer:
        body, row = self.read_body(), _find(request, number)
        return JsonAnswer(EndedOut.of(ending.cancel(dispatch=row, actor=actor_of(request), **body)))


class AskAgainBody(StrictSerializer):
    reason = Text(required=False, allow_blank=True, default="", max_length=500)


class HandOverBody(AskAgainBody):
    executor = Text(max_length=names.MAX_CHARACTERS, help_text="The user who gets it.")


class HandOverView(DispatchActView):
    """Give an open dispatch to another user: it ends as released, and the answer is the one that
    the user gets, with a new deadline. A pull of that user answers it. 409 says why the user cannot
    have it, or that it has ended."""

    bodies = {"post": HandOverBody}

    def post(self, request: Request, number: str) -> JsonAnswer:
        body, row = self.read_body(), _find(request, number)
        to = executors.find(body.pop("executor"), bound=executors_of(request))
        given = hand_over(dispatch=row, to=to, actor=actor_of(request), **body)
        return _answer(request, existing_dispatch(given.pk))


class AskAgainView(DispatchActView):
    """Ask the user of an ended dispatch again: the answer is a new one of the same occurrence, to
    which the place in the quota goes over. A pull of the user answers it. 409 says why the user
    cannot have it; a cancelled one stays final."""

    bodies = {"post": AskAgainBody}

    def post(self, request: Request, number: str) -> JsonAnswer:
        body, row = self.read_body(), _find(request, number)
        given = ask_again(dispatch=row, actor=actor_of(request), **body)
        return _answer(request, existing_dispatch(given.pk))


def _answer(request: Request, row: AnyDispatch) -> JsonAnswer:
    return JsonAnswer(DispatchDetailOut.of(row, masks=masks_payload(request)))


def _find(request: Request, number: str) -> AnyDispatch:
    pk = read_id(number)
    if pk is None:
        raise NotFound(f"There is no dispatch {number[:40]!r}.")
    logs.note(dispatch=number)
    return existing_dispatch(pk, bound=executors_of(request))
