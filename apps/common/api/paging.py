"""Pages of API lists with millions of rows: no count, no deep offset."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeVar
from urllib.parse import urlencode

from django.core.signing import BadSignature, Signer
from django.db.models import Min, Model, QuerySet
from rest_framework.request import Request

from apps.common.api.serializer_fields import Integer, Text
from apps.common.api.serializers import StrictSerializer
from apps.common.db import only_compared
from apps.common.errors import Invalid
from apps.common.masking.search import end_of_masked
from apps.common.time_limit import in_time

M = TypeVar("M", bound=Model)

# Maximum number of rows that a request for a filtered list reads without an index.
MAX_EXAMINED = 20_000
# The letters of the rows of one page, though the first may have more: 100,000 take a processor up
# to half a second, because secrets are masked. Each value and key counts as so many more.
MAX_LETTERS = 500_000
_PART_WEIGHT = 10


class PageQuery(StrictSerializer):
    """The query parameters of every list; a list with filters derives its own."""

    limit = Integer(
        min_value=1,
        max_value=100,
        default=50,
        help_text="Rows in one answer, 1 to 100; of rows with large payloads there are fewer.",
    )
    cursor = Text(max_length=400, required=False, help_text="From `next` of the answer before.")


class KeysetPage:
    """One page of an API list, by primary key: newest first, or oldest first if `ascending`.

    The cursor is signed together with path and filters, so it fits this list only. It never
    expires, and new rows never shift a page.
    """

    def __init__(
        self, request: Request, query: Mapping[str, Any], *, ascending: bool = False
    ) -> None:
        """`query` holds the parameters that a PageQuery (or a subclass) has checked."""
        self._path = request.path
        given = [(name, v) for name, values in request.query_params.lists() for v in values]
        self._parameters = [(name, v) for name, v in given if name != "cursor"]
        cursor = request.query_params.get("cursor", "")
        filters = sorted((name, v) for name, v in self._parameters if name != "limit")
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

    def rows(
        self, queryset: QuerySet[M], shown: Callable[[list[M]], list[M | None]] | None = None
    ) -> list[M]:
        """The rows of this page; reads one more to know whether another page follows.

        Of a list of rows that stand for others, `shown` has what each stands for, or None.
        """
        rows = list(self._following(queryset)[: self._limit + 1])
        if len(rows) > self._limit:
            rows.pop()
            self._go_on_after(rows[-1].pk)
        return self._bounded(rows, rows if shown is None else shown(rows))

    def _bounded(self, rows: list[M], shown: Sequence[M | None]) -> list[M]:
        """What is shown of the first of these rows, of which MAX_LETTERS make a page."""
        left = MAX_LETTERS
        for position, row in enumerate(shown):
            left -= _weight_of(vars(row)) if row else _PART_WEIGHT
            if left < 0 and position:
                self._go_on_after(rows[position - 1].pk)
                shown = shown[:position]
                break
        return [row for row in shown if row is not None]

    def rows_among(self, examined: QuerySet[M], queryset: QuerySet[M], *, limit: int) -> list[M]:
        """The rows of this page, newest first, found by examining `limit` rows of `examined`, fewer
        where texts of theirs have to be masked or that takes too long.

        For filters without an index. A page may be short, or empty, and still have a next one.
        """
        queryset = only_compared(queryset, examined)
        return in_time(limit, lambda most: self._rows_among(examined, queryset, most))

    def _rows_among(self, examined: QuerySet[M], queryset: QuerySet[M], limit: int) -> list[M]:
        following = self._following(examined)
        last = following[:limit].aggregate(last=Min("pk"))["last"]
        if last is not None and not following.filter(pk__lt=last).exists():
            last = None
        within = queryset if last is None else queryset.filter(pk__gte=last)
        last = end_of_masked(self._following(within)) or last
        if last is None:
            return self.rows(queryset)
        rows = self.rows(queryset.filter(pk__gte=last))
        if self._next is None:
            self._go_on_after(last)
        return rows

    def rows_kept(
        self, queryset: QuerySet[M], keep: Callable[[list[M]], list[M]], *, limit: int
    ) -> list[M]:
        """The rows of this page that `keep` leaves of the next `limit` rows, in their order.

        For what only code can tell. A page may be short, or empty, and still have a next one.
        """
        examined = list(self._following(queryset)[: limit + 1])
        more = len(examined) > limit
        examined = examined[:limit]
        rows = keep(examined)
        if len(rows) > self._limit:
            rows = rows[: self._limit]
            self._go_on_after(rows[-1].pk)
        elif more:
            self._go_on_after(examined[-1].pk)
        return self._bounded(rows, rows)

    def _following(self, queryset: QuerySet[M]) -> QuerySet[M]:
        if self._last is not None:
            queryset = queryset.filter(**{self._beyond: self._last})
        return queryset.order_by(self._order)

    def _go_on_after(self, last: Any) -> None:
        cursor = self._signer.sign_object(last)
        self._next = f"{self._path}?{urlencode([*self._parameters, ('cursor', cursor)])}"

    def answer(self, results: Any) -> dict[str, Any]:
        """`{"next": address of the next page without host, or null, "results": […]}`."""
        return {"next": self._next, "results": results}


def left_out(values: Iterable[Any]) -> list[bool]:
    """Which of the values are beyond what one answer has, with those before them; None never is."""
    left, answers = MAX_LETTERS, []
    for value in values:
        left -= 0 if value is None else _weight_of(value)
        answers.append(left < 0 and value is not None)
    return answers


def _weight_of(value: Any) -> int:
    """What the value counts for: its letters, and some for each of its parts."""
    if isinstance(value, str):
        return len(value) + _PART_WEIGHT
    if isinstance(value, dict):
        return sum(_weight_of(key) + _weight_of(below) for key, below in value.items())
    return sum(map(_weight_of, value)) if isinstance(value, list) else _PART_WEIGHT
