"""The list page that bears whatever stands in its address."""

from __future__ import annotations

from typing import Any

from django.contrib.admin.options import IS_POPUP_VAR, TO_FIELD_VAR, IncorrectLookupParameters
from django.contrib.admin.views.main import ERROR_FLAG, ORDER_VAR, SEARCH_VAR
from django.db.models import QuerySet
from django.http import HttpRequest, QueryDict

from apps.common.admin.theme import ChangeList

MAX_SEARCH = 100
MAX_PARAMETER = 500
_LEAVES_ALL = {ORDER_VAR, ERROR_FLAG, IS_POPUP_VAR, TO_FIELD_VAR}


def tidy_search(term: str) -> str:
    """A search term as far as it is used: without NUL, at most 100 characters."""
    return term.replace("\0", "")[:MAX_SEARCH]


def tidied(query: QueryDict) -> str | None:
    """The query string to go to instead of this one; None when this one is fine.

    An over-long search is cut, so that the links of the page, which all repeat it, stay short; any
    other over-long parameter leads to the plain list and its notice.
    """
    for name, values in query.lists():
        if name != SEARCH_VAR and any(
            len(text) > MAX_PARAMETER or "\0" in text for text in (name, *values)
        ):
            return f"{ERROR_FLAG}=1"
    term = query.get(SEARCH_VAR, "")
    if term == tidy_search(term) and len(query.getlist(SEARCH_VAR)) <= 1:
        return None
    better = query.copy()
    better[SEARCH_VAR] = tidy_search(term)
    return better.urlencode()


class PlatformChangeList(ChangeList):
    """Filters by what `list_filter` and `date_hierarchy` declare and by nothing else.

    Django takes any look-up on a column of the model itself: a regular expression, or a year
    99999 that fails only when the SQL is made. Here whatever no filter has claimed, and whatever
    fails as a value, leads back to the plain list with `?e=1`.
    """

    model_admin: Any

    def __init__(self, request: HttpRequest, *args: Any, **kwargs: Any) -> None:
        self._named = request.GET.keys()
        try:
            super().__init__(request, *args, **kwargs)
            # Dates far off fail as late as here; left alone they would fail inside the template.
            self.model_admin.prepare_page(request, list(self.result_list))
        except (ValueError, OverflowError) as error:
            if not request.GET:
                raise
            raise IncorrectLookupParameters(error) from error

    @property
    def is_narrowed(self) -> bool:
        """Whether what stands in the address leaves rows out."""
        return not self._named <= _LEAVES_ALL

    def get_queryset(self, *args: Any, **kwargs: Any) -> QuerySet[Any]:
        rows = super().get_queryset(*args, **kwargs)
        return rows.defer(*self.model_admin.list_defer)

    def apply_select_related(self, qs: QuerySet[Any]) -> QuerySet[Any]:
        """By a statement of its own: MariaDB begins a join at the shorter table, however few rows
        of the longer one are wanted, and sorts all of them."""
        related = self.list_select_related
        return qs.prefetch_related(*related) if isinstance(related, tuple) else qs

    def get_results(self, request: HttpRequest) -> None:
        super().get_results(request)
        # The theme puts "n results (show all)" above lists where the two differ.
        self.full_result_count = self.result_count

    def get_filters(self, request: HttpRequest) -> Any:
        found = super().get_filters(request)
        claimed = {f"{self.date_hierarchy}__gte", f"{self.date_hierarchy}__lt"}
        if unclaimed := set(found[2]) - claimed:
            raise IncorrectLookupParameters(f"no filter takes {', '.join(sorted(unclaimed))}")
        return found

    def get_ordering(self, request: HttpRequest, queryset: QuerySet[Any]) -> Any:
        # Django hides the arrows of columns that are not sortable, and still obeys the address.
        if ORDER_VAR in self.params and not all(
            self._is_sortable(part) for part in self.params[ORDER_VAR].split(".")
        ):
            del self.params[ORDER_VAR]
        return super().get_ordering(request, queryset)

    def _is_sortable(self, part: str) -> bool:
        position = part.removeprefix("-")
        if not position.isdecimal() or int(position) >= len(self.list_display):
            return False
        return self.sortable_by is None or self.list_display[int(position)] in self.sortable_by
