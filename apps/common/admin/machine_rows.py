"""Admins of rows that the platform writes and people only read."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

from django.contrib import messages
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from django.utils.translation import gettext_lazy as _

from apps.common.admin.base import PlatformModelAdmin
from apps.common.admin.changelist import tidy_search


class MachineRowAdmin(PlatformModelAdmin):
    """Rows that the platform writes, read-only and newest first, in a list without a count.

    `exact_search` names the columns that the search compares, most selective first, each with a
    function from the typed text to a value or None. The first column with a value is searched.
    """

    list_is_counted = False
    list_max_show_all = 0
    list_disable_select_all = True
    ordering = ("-pk",)
    sortable_by = ()
    exact_search: ClassVar[tuple[tuple[str, Callable[[str], Any]], ...]] = ()

    def render_change_form(
        self, request: HttpRequest, context: dict[str, Any], *args: Any, **kwargs: Any
    ) -> HttpResponse:
        if type(self).timeline is PlatformModelAdmin.timeline:
            # Nobody edits the row, so Django's own log has nothing of it.
            context["show_history"] = False
        return super().render_change_form(request, context, *args, **kwargs)

    def has_add_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

    def get_search_fields(self, request: HttpRequest) -> tuple[str, ...]:
        # Django shows the search box if there are any.
        return tuple(column for column, _read in self.exact_search)

    def get_search_results(
        self, request: HttpRequest, queryset: QuerySet[Any], search_term: str
    ) -> tuple[QuerySet[Any], bool]:
        term = tidy_search(search_term).strip()
        if not term:
            return queryset, False
        for column, read in self.exact_search:
            if (value := read(term)) is not None:
                return queryset.filter(**{column: value}), False
        self.message_user(
            request,
            _("Nothing can be named like that; the search compares whole names and numbers."),
            messages.WARNING,
        )
        return queryset.none(), False
