"""Lists of millions of rows, newest first, in which every page reads a limited number of rows.

A page continues below the row that `before` names, so there is neither a count nor an offset. A
filtered page examines `max_examined` rows, or MAX_MASKED texts that have to be masked, or fewer
that take long, and shows that; the next page continues there. So rare rows are found step by step.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, ClassVar

from django.contrib.admin.views.main import PAGE_VAR
from django.core.paginator import Paginator
from django.db.models import QuerySet
from django.http import HttpRequest

from apps.common import ids
from apps.common.admin.actions import CustomUrls
from apps.common.admin.base import PlatformModelAdmin
from apps.common.admin.changelist import BEFORE, PlatformChangeList, tidy_search
from apps.common.admin.display import plain_time
from apps.common.admin.export import export_view
from apps.common.admin.filters import DayFilter
from apps.common.admin.list_head import MAX_COUNTED
from apps.common.admin.payload_filter import PAYLOAD
from apps.common.db import only_compared
from apps.common.masking.search import MAX_MASKED, end_of_masked
from apps.common.readers import read_number
from apps.common.time_limit import in_time

# How many rows stand above the newest ones.
MAX_FIRST = 25


@dataclass(frozen=True, kw_only=True)
class Examined:
    """The rows that a filtered page has examined: how many, and back to when."""

    rows: int
    since: datetime

    @property
    def shown_since(self) -> str:
        return plain_time(self.since)


class KeysetChangeList(PlatformChangeList):
    """The list of a KeysetAdmin. `older` is the row that the next page begins below, None on the
    last."""

    older: int | None = None
    examined: Examined | None = None

    def __init__(self, request: HttpRequest, *args: Any, **kwargs: Any) -> None:
        read_page = super().__init__

        def examine(most: int) -> None:
            self._most = most
            read_page(request, *args, **kwargs)

        listing = next(each for each in args if isinstance(each, KeysetAdmin))
        in_time(listing.max_examined, examine)

    def get_queryset(self, request: HttpRequest, *args: Any, **kwargs: Any) -> QuerySet[Any]:
        for given in (self.params, self.filter_params):
            # Links and forms that change the filters begin at the newest row.
            given.pop(BEFORE, None)
            given.pop(PAGE_VAR, None)
        rows = self._found(request, super().get_queryset(request, *args, **kwargs))
        if (last := end_of_masked(rows)) is None:
            return rows
        self.older = last
        self.examined = Examined(rows=MAX_MASKED, since=ids.made_at(last))
        return rows.filter(pk__gte=last)

    def _found(self, request: HttpRequest, rows: QuerySet[Any]) -> QuerySet[Any]:
        before = self._before(request)
        self.examined = None
        if before is not None:
            rows = rows.filter(pk__lt=before)
        if not self._is_narrowed() or rows.query.is_empty():
            return rows
        given, term = self.given, tidy_search(self.query).strip()
        found = self.model_admin.found_by_index(self.root_queryset, given, term)
        if found is not None:
            return rows.filter(pk__in=found)
        among = self.model_admin.examined_rows(given)
        if self.model_admin.has_index_in_order(given, term):
            if PAYLOAD not in given:
                return rows
            among = self.model_admin.in_order(among, given, term)
        return self._examined(request, rows, among, before)

    @staticmethod
    def _before(request: HttpRequest) -> int | None:
        return read_number(request.GET.get(BEFORE, ""))

    def _is_narrowed(self) -> bool:
        """Whether the list is filtered by more than bounds of the id."""
        bounds = {
            name
            for spec in self.filter_specs
            if isinstance(spec, DayFilter)
            for name in spec.parameters
        }
        is_limited = bool(self.root_queryset.query.where)
        return is_limited or bool(self.given.keys() - bounds)

    def _examined(
        self,
        request: HttpRequest,
        rows: QuerySet[Any],
        among: QuerySet[Any],
        before: int | None,
    ) -> QuerySet[Any]:
        limit = self._most
        # Not only what this person may see: that can be rare.
        examined = among.order_by("-pk")
        for spec in self.filter_specs:
            if isinstance(spec, DayFilter):
                examined = spec.queryset(request, examined)
        if before is not None:
            examined = examined.filter(pk__lt=before)
        edge = list(examined.values_list("pk", flat=True)[limit - 1 : limit + 1])
        rows = only_compared(rows, among)
        if len(edge) < 2:
            # There are no older rows.
            return rows
        last = edge[0]
        self.examined = Examined(rows=limit, since=ids.made_at(last))
        self.older = last
        return rows.filter(pk__gte=last)

    def get_results(self, request: HttpRequest) -> None:
        first = []
        if self._before(request) is None and not self.is_narrowed:
            first = self.model_admin.first_rows(request, self.queryset)
        keys, limit = {row.pk for row in first}, self.list_per_page
        # Rows shown above the newest ones come again at the place of their time, on a later page.
        rows = [row for row in self.queryset[: limit + 1] if row.pk not in keys]
        if len(keys) + len(rows) > limit:
            del rows[limit - len(keys) :]
            self.older = rows[-1].pk
            # The full page ends before the last examined row.
            self.examined = None
        rows = [*first, *rows]
        self.result_list = rows
        self.result_count = self.full_result_count = len(rows)
        self.show_full_result_count = False
        self.show_admin_actions = True
        self.can_show_all = self.multi_page = False
        self.paginator = Paginator(rows, self.list_per_page)
        self.paginator.template_name = "admin/pagination_keyset.html"
        self.is_first = self._before(request) is None

    @property
    def is_at_the_start(self) -> bool:
        return self.is_first

    @property
    def has_further_rows(self) -> bool:
        return self.older is not None

    @property
    def is_full(self) -> bool:
        # All that matches among the examined rows is on the page.
        return self.has_further_rows and self.examined is None

    @property
    def newest_url(self) -> str:
        return str(self.get_query_string())

    @property
    def older_url(self) -> str:
        return str(self.get_query_string({BEFORE: self.older}))


class KeysetAdmin(PlatformModelAdmin):
    """Before the other bases: rows with ids that grow with time, newest first."""

    ordering = ("-pk",)
    sortable_by = ()
    list_disable_select_all = True
    # Maximum number of rows that one page of a filtered list examines.
    max_examined: ClassVar[int] = 20_000
    # Maximum number of rows that are looked up by an index and sorted.
    max_indexed: ClassVar[int] = 1_000
    # The columns of an export of the list: the name of each, and the attribute of the row.
    export_columns: ClassVar[Sequence[tuple[str, str]]]

    def get_custom_urls(self) -> CustomUrls:
        return (*super().get_custom_urls(), ("export/", self.url_name("export"), export_view))

    def list_context(self, request: HttpRequest, changelist: PlatformChangeList) -> dict[str, Any]:
        return super().list_context(request, changelist) | {"export_url": self.url("export")}

    def get_changelist(self, request: HttpRequest, **kwargs: Any) -> type[PlatformChangeList]:
        return KeysetChangeList

    def first_rows(self, request: HttpRequest, rows: QuerySet[Any]) -> list[Any]:
        """The rows of the whole list that stand above the newest ones: fewer than a page."""
        return []

    def newest_first(self, rows: QuerySet[Any], keys: Collection[int]) -> list[Any]:
        """The newest rows of those with these keys, for `first_rows`; none when they are too many
        to sort."""
        if not keys or len(keys) > MAX_COUNTED:
            return []
        newest = sorted(keys, reverse=True)[:MAX_FIRST]
        return list(rows.filter(pk__in=newest).order_by("-pk"))

    def found_by_index(
        self, rows: QuerySet[Any], given: Mapping[str, str], term: str
    ) -> Sequence[int] | None:
        """All keys that can match, if an index finds them and they are few.

        `given` are the values of the filters by parameter, `term` what is searched for.
        """
        return None

    def examined_rows(self, given: Mapping[str, str]) -> QuerySet[Any]:
        """The rows that the pages of a filtered list examine in steps, in an order that an index
        has; `given` as for `found_by_index`."""
        rows: QuerySet[Any] = self.model._default_manager.all()
        return rows

    def few(self, rows: QuerySet[Any]) -> Sequence[int] | None:
        """The keys of the rows; None when they are more than `max_indexed`."""
        keys = list(rows.order_by().values_list("pk", flat=True)[: self.max_indexed + 1])
        return keys if len(keys) <= self.max_indexed else None

    def has_index_in_order(self, given: Mapping[str, str], term: str) -> bool:
        """Whether an index returns the matching rows in order of their id.

        `given` and `term` as for `found_by_index`.
        """
        return False

    def in_order(self, rows: QuerySet[Any], given: Mapping[str, str], term: str) -> QuerySet[Any]:
        """The rows that the index of `has_index_in_order` returns."""
        return rows
