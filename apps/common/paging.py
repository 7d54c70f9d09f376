"""Pages of lists that may hold millions of rows: no count of all, no deep offset."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar
from urllib.parse import urlencode

from django.core.paginator import EmptyPage, Page, Paginator
from django.core.signing import BadSignature, Signer
from django.db.models import Min, Model, QuerySet
from django.http import HttpRequest
from django.utils.functional import cached_property
from django.utils.translation import gettext as _
from rest_framework.request import Request

from apps.common.errors import Invalid
from apps.common.serializers import Integer, StrictSerializer, Text

M = TypeVar("M", bound=Model)

MAX_PAGES = 100
# Rows that one request for a filtered list looks at, where no index has them in its order.
MAX_EXAMINED = 20_000


class PageQuery(StrictSerializer):
    """The query parameters of every list; a list with filters derives its own."""

    limit = Integer(
        min_value=1, max_value=100, default=50, help_text="Rows in one answer, 1 to 100."
    )
    cursor = Text(max_length=400, required=False, help_text="From `next` of the answer before.")


class KeysetPage:
    """One page of an API list, by primary key: newest first, or oldest first if `ascending`.

    The cursor is signed together with path and filters: altered, or moved to another list, it is
    refused. It stays valid for ever, and rows made meanwhile never shift a page.
    """

    def __init__(
        self, request: Request, query: Mapping[str, Any], *, ascending: bool = False
    ) -> None:
        """`query` is what a PageQuery (or a subclass) made of the query parameters."""
        self._path = request.path
        self._parameters = request.query_params.dict()
        cursor = self._parameters.pop("cursor", "")
        filters = sorted((k, v) for k, v in self._parameters.items() if k != "limit")
        self._signer = Signer(salt=f"page {self._path}?{urlencode(filters)}")
        self._limit: int = query["limit"]
        self._last: Any = self._unsign(cursor) if cursor else None
        self._order, self._beyond = ("pk", "pk__gt") if ascending else ("-pk", "pk__lt")
        self._next: str | None = None

    def _unsign(self, cursor: str) -> Any:
        try:
            return self._signer.unsign_object(cursor)
        except BadSignature as error:
            raise Invalid.field(
                "cursor",
                "This cursor was altered or belongs to another list; start again without it.",
            ) from error

    def rows(self, queryset: QuerySet[M]) -> list[M]:
        """The rows of this page; reads one more to know whether another page follows."""
        rows = list(self._following(queryset)[: self._limit + 1])
        if len(rows) > self._limit:
            rows.pop()
            self._go_on_after(rows[-1].pk)
        return rows

    def rows_among(self, examined: QuerySet[M], queryset: QuerySet[M], *, limit: int) -> list[M]:
        """The rows of this page, newest first, found by examining `limit` rows of `examined`.

        For filters without an index: a page may then be short, or empty, and yet have a next one.
        """
        following = self._following(examined)
        last = following[:limit].aggregate(last=Min("pk"))["last"]
        if last is None or not following.filter(pk__lt=last).exists():
            return self.rows(queryset)
        rows = self.rows(queryset.filter(pk__gte=last))
        if self._next is None:
            self._go_on_after(last)
        return rows

    def _following(self, queryset: QuerySet[M]) -> QuerySet[M]:
        if self._last is not None:
            queryset = queryset.filter(**{self._beyond: self._last})
        return queryset.order_by(self._order)

    def _go_on_after(self, last: Any) -> None:
        cursor = self._signer.sign_object(last)
        self._next = f"{self._path}?{urlencode({**self._parameters, 'cursor': cursor})}"

    def answer(self, results: Any) -> dict[str, Any]:
        """`{"next": address of the next page without host, or null, "results": […]}`."""
        return {"next": self._next, "results": results}


class CountFreePaginator(Paginator):  # type: ignore[type-arg]
    """A paginator that knows its current page and whether another follows, and no more.

    `count` is what has been seen so far: the rows before this page, those on it, and one if there
    is more. Django's change list asks for nothing else.
    """

    def __init__(self, object_list: QuerySet[Any], per_page: int, *, number: int) -> None:
        super().__init__(object_list, per_page)
        self.number = min(max(number, 1), MAX_PAGES)

    @cached_property
    def _rows(self) -> list[Any]:
        start = (self.number - 1) * self.per_page
        return list(self.object_list[start : start + self.per_page + 1])

    @cached_property
    def has_more(self) -> bool:
        """True when rows follow the current page."""
        return len(self._rows) > self.per_page

    @cached_property
    def count(self) -> int:
        seen = (self.number - 1) * self.per_page + len(self._rows)
        return min(seen, MAX_PAGES * self.per_page)

    def page(self, number: int | str) -> Page[Any]:
        if self.validate_number(number) != self.number:
            raise EmptyPage(
                _("Only the first %(pages)d pages are shown; narrow the list by filters.")
                % {"pages": MAX_PAGES}
            )
        return Page(self._rows[: self.per_page], self.number, self)


class CountFreeAdminMixin:
    """Put before ModelAdmin: a change list that never counts its table.

    It has no "show all", and pages past the hundredth are refused like any wrong page number.
    """

    show_full_result_count = False
    list_max_show_all = 0

    def get_paginator(
        self,
        request: HttpRequest,
        queryset: QuerySet[Any],
        per_page: int,
        orphans: int = 0,
        allow_empty_first_page: bool = True,
    ) -> CountFreePaginator:
        asked = request.GET.get("p", "1")
        number = int(asked) if asked.isascii() and asked.isdigit() and len(asked) < 9 else 1
        return CountFreePaginator(queryset, per_page, number=number)
