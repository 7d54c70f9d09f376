"""List pages that accept any address, and their pages without a count."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from django.contrib import messages
from django.contrib.admin.options import IS_POPUP_VAR, TO_FIELD_VAR, IncorrectLookupParameters
from django.contrib.admin.templatetags.admin_list import result_headers
from django.contrib.admin.views.main import (
    ERROR_FLAG,
    ORDER_VAR,
    PAGE_VAR,
    SEARCH_VAR,
    ChangeList,
)
from django.core.paginator import EmptyPage, Page, Paginator
from django.db.models import QuerySet
from django.http import HttpRequest, QueryDict
from django.utils.functional import cached_property
from django.utils.safestring import SafeString
from django.utils.text import capfirst
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from apps.common.admin import columns, list_head, list_rows
from apps.common.admin.columns import COLUMNS
from apps.common.admin.display import filled
from apps.common.admin.filters import FormFilter
from apps.common.readers import read_number

# The row that a page of a KeysetAdmin begins below.
BEFORE = "before"
# The one value says that no view is wanted, not even the one that the person begins with.
VIEW = "_view"
NO_VIEW = "none"
MAX_SEARCH = 100
MAX_PARAMETER = 500
MAX_PAGES = 100
_LEAVES_ALL = {COLUMNS, VIEW, ORDER_VAR, ERROR_FLAG, IS_POPUP_VAR, TO_FIELD_VAR}


def tidy_search(term: str) -> str:
    """The part of a search term that is used: without NUL, at most 100 characters."""
    return term.replace("\0", "")[:MAX_SEARCH]


def tidied(query: QueryDict) -> str | None:
    """The query string to go to instead of this one; None when this one is fine.

    An over-long search is cut, so that the links of the page, which all repeat it, stay short; any
    other over-long parameter leads to the plain list and its notice. The columns that a form has
    sent one by one become one parameter.
    """
    for name, values in query.lists():
        if name != SEARCH_VAR and any(
            len(text) > MAX_PARAMETER or "\0" in text for text in (name, *values)
        ):
            return f"{ERROR_FLAG}=1"
    better = query.copy()
    if SEARCH_VAR in query:
        better[SEARCH_VAR] = tidy_search(query.get(SEARCH_VAR, ""))
    if COLUMNS in query:
        better[COLUMNS] = ",".join(columns.asked_for(query))
    return None if better == query else better.urlencode(safe=",")


class Chip(NamedTuple):
    """A filter that is on, and the address of the list without it."""

    text: str
    url: str


class PlatformChangeList(ChangeList):
    """Filters only by what `list_filter` and `date_hierarchy` declare.

    Django accepts any lookup on a column of the model, such as a regular expression or the year
    99999, which fails only in the database. Here unknown parameters and invalid values lead to the
    unfiltered list with `?e=1`.
    """

    model_admin: Any

    def __init__(self, request: HttpRequest, *args: Any, **kwargs: Any) -> None:
        self.request = request
        try:
            super().__init__(request, *args, **kwargs)
            # Extreme dates fail only here; unhandled, they would fail inside the template.
            self.model_admin.prepare_page(request, list(self.result_list))
            if self.model_admin.is_exported:
                return
            # Django's "Select … to change" says what the page is for, and hides what it shows.
            self.title = capfirst(str(self.opts.verbose_name_plural))
            if not self.are_columns_chosen:
                self.list_display = columns.without_empty(self)
        except (ValueError, OverflowError) as error:
            if not request.GET:
                raise
            raise IncorrectLookupParameters(error) from error

    def url_for_result(self, result: Any) -> str:
        return str(self.model_admin.row_url(result.pk))

    @property
    def is_narrowed(self) -> bool:
        """Whether the address filters the list."""
        return not self.request.GET.keys() <= _LEAVES_ALL | {self.model_admin.list_place}

    @cached_property
    def given(self) -> dict[str, str]:
        """The filters of the list and its search, by parameter."""
        found = {
            name: str(text)
            for spec in self.filter_specs
            for name, text in spec.used_parameters.items()
            if text
        }
        return found | ({SEARCH_VAR: self.query} if self.query else {})

    @property
    def are_columns_chosen(self) -> bool:
        """Whether the address names columns."""
        return bool(columns.chosen_columns(self.model_admin.list_columns, self.request.GET))

    @cached_property
    def column_choices(self) -> list[columns.ColumnChoice]:
        """The columns that people can choose from; none where they cannot."""
        return columns.choices(self)

    @property
    def mobile_lines(self) -> list[list[str]]:
        """The columns of a row on a narrow screen."""
        return columns.mobile_lines(self)

    @property
    def given_but_columns(self) -> list[tuple[str, str]]:
        """The parameters of the address that a choice of other columns keeps."""
        kept = {name: texts for name, texts in self.filter_params.items() if name != COLUMNS}
        return [(name, str(text)) for name, texts in kept.items() for text in texts]

    @property
    def usual_columns_url(self) -> str:
        """The list with its usual columns."""
        return self._without(COLUMNS)

    @cached_property
    def headers(self) -> list[dict[str, Any]]:
        """The headings of the columns."""
        return list(result_headers(self))

    @property
    def number_sorted_by(self) -> int:
        """How many columns people sort the list by."""
        return sum(each["sortable"] and each["sorted"] for each in self.headers)

    @property
    def rows(self) -> Iterator[SafeString]:
        """The rows of the page as HTML."""
        return list_rows.rows(self)

    @property
    def labels(self) -> SafeString:
        """The headings of the columns as CSS."""
        return list_rows.labels(self)

    @property
    def page_box(self) -> SafeString:
        """The box that selects all rows of the page."""
        return list_rows.page_box()

    @cached_property
    def tabs(self) -> list[list_head.Tab]:
        """The states of the rows, each with a link to the rows in it."""
        return list_head.tabs(self)

    @property
    def chips(self) -> list[Chip]:
        """The filters and the search of the list as chips."""
        found = []
        if self.query:
            text = _("Search: %s") % tidy_search(self.query)
            found.append(Chip(text, self._without(SEARCH_VAR)))
        for spec in self.filter_specs:
            if isinstance(spec, FormFilter):
                words = [each for each in spec.in_words() if each[0] != self.model_admin.list_place]
                found += [Chip(text, self._without(name)) for name, text in words]
                continue
            all_of_them, *others = spec.choices(self)
            chosen = [each for each in others if each.get("selected")]
            found += [
                Chip(
                    f"{capfirst(str(spec.title))}: {each['display']}",
                    str(all_of_them["query_string"]),
                )
                for each in chosen
            ]
        return found

    def _without(self, name: str) -> str:
        return self.get_query_string({name: None, PAGE_VAR: None})

    @property
    def is_at_the_start(self) -> bool:
        """Whether this is the first page."""
        return bool(self.page_num == 1)

    @property
    def capped_count(self) -> str:
        """How many rows there are, counted up to a limit; empty on further pages."""
        if not self.is_at_the_start:
            return ""
        count = len(self.result_list)
        if self.is_full:
            pks = self.queryset.order_by().values_list("pk", flat=True)
            count = len(pks[: list_head.MAX_COUNTED + 1])
        return ngettext("%s row", "%s rows", count) % list_head.capped(count)

    @property
    def previous_url(self) -> str:
        """The page before this one."""
        return str(self.get_query_string({PAGE_VAR: self.page_num - 1}))

    @property
    def next_url(self) -> str:
        """The page after this one."""
        return str(self.get_query_string({PAGE_VAR: self.page_num + 1}))

    @property
    def has_further_rows(self) -> bool:
        """Whether rows follow the page."""
        return bool(self.result_count > len(self.result_list))

    def get_query_string(self, new_params: Any = None, remove: Any = None) -> str:
        found = super().get_query_string(new_params, remove)
        # An address without parameters would lead people to their default view.
        return found if found != "?" else f"?{VIEW}={NO_VIEW}"

    @property
    def is_full(self) -> bool:
        """Whether more rows match than the page shows."""
        return self.has_further_rows

    @property
    def counted(self) -> SafeString:
        """`12 job types`: how many rows there are on all pages."""
        one, many = self.opts.verbose_name, self.opts.verbose_name_plural
        count = self.result_count
        if self.model_admin.list_place in self.given:
            # The name of the model says more than what is on this page.
            return SafeString(ngettext("%s row", "%s rows", count) % f"{count:,}")
        return filled(_("{count} {kind}"), count=count, kind=one if count == 1 else many)

    def get_queryset(self, *args: Any, **kwargs: Any) -> QuerySet[Any]:
        self.filter_params.pop(VIEW, None)
        if self.params.pop(VIEW, NO_VIEW) != NO_VIEW:
            raise IncorrectLookupParameters("no such view")
        rows = super().get_queryset(*args, **kwargs)
        return rows.defer(*self.model_admin.list_defer)

    def apply_select_related(self, qs: QuerySet[Any]) -> QuerySet[Any]:
        """Read related rows in a separate query: MariaDB would start the join at the smaller table
        and sort all rows of the larger one."""
        related = self.list_select_related
        return qs.prefetch_related(*related) if isinstance(related, tuple) else qs

    def get_results(self, request: HttpRequest) -> None:
        super().get_results(request)
        # The theme puts "n results (show all)" above lists where the two differ.
        self.full_result_count = self.result_count

    def get_filters_params(self, params: Any = None) -> Any:
        found = super().get_filters_params(params)
        return {name: texts for name, texts in found.items() if name != COLUMNS}

    def get_filters(self, request: HttpRequest) -> Any:
        found = super().get_filters(request)
        claimed = {f"{self.date_hierarchy}__gte", f"{self.date_hierarchy}__lt"}
        if unclaimed := ", ".join(sorted(set(found[2]) - claimed)):
            text = _("This list has no filter %s.") % repr(unclaimed[:80])
            self.model_admin.message_user(request, text, messages.WARNING, fail_silently=True)
            raise IncorrectLookupParameters(text)
        return found

    def get_ordering(self, request: HttpRequest, queryset: QuerySet[Any]) -> Any:
        # Django hides the arrows of columns that are not sortable, but still obeys the address.
        if ORDER_VAR in self.params and not all(
            self._is_sortable(part) for part in self.params[ORDER_VAR].split(".")
        ):
            del self.params[ORDER_VAR]
        return super().get_ordering(request, queryset)

    def _is_sortable(self, part: str) -> bool:
        position = read_number(part.removeprefix("-"))
        if position is None or position >= len(self.list_display):
            return False
        return self.sortable_by is None or self.list_display[position] in self.sortable_by


class CountedPaginator(Paginator):  # type: ignore[type-arg]
    """A paginator that says how many rows there are."""

    template_name = "admin/pagination_counted.html"


class CountFreePaginator(Paginator):  # type: ignore[type-arg]
    """A paginator that knows its current page and whether another follows, without COUNT(*).

    `count` is the number of rows up to this page, plus one if more follow. Pages past the
    hundredth do not exist.
    """

    template_name = "admin/pagination_count_free.html"

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

    @classmethod
    def of_request(
        cls, request: HttpRequest, queryset: QuerySet[Any], per_page: int
    ) -> CountFreePaginator:
        """The paginator of the page that the address names; page 1 for anything else."""
        return cls(queryset, per_page, number=read_number(request.GET.get("p", "")) or 1)
