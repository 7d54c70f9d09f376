"""Pages of rows that are in one of two tables: live or in the archive."""

from __future__ import annotations

from typing import Any, ClassVar

from django.db.models import Model
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect

from apps.common.admin.base import PlatformModelAdmin
from apps.common.admin.html import page_url
from apps.common.readers import read_number


class TwoTablesAdmin(PlatformModelAdmin):
    """The page of a row leads to that of the other table when it has gone there.

    So a link to a row holds for as long as the row is kept.
    """

    other_model: ClassVar[type[Model]]

    def elsewhere(self, object_id: str) -> HttpResponse | None:
        """The redirect to the page of the other table, if that has the row."""
        number = read_number(object_id)
        if number is None or not self.other_model._default_manager.filter(pk=number).exists():
            return None
        return HttpResponseRedirect(page_url(self.other_model, number))

    def history_view(
        self, request: HttpRequest, object_id: str, extra_context: Any = None
    ) -> HttpResponse:
        if self.get_object(request, object_id) is None and (way := self.elsewhere(object_id)):
            return way
        return super().history_view(request, object_id, extra_context)

    def _get_obj_does_not_exist_redirect(
        self, request: HttpRequest, opts: Any, object_id: str
    ) -> HttpResponse:
        if way := self.elsewhere(object_id):
            return way
        # Django has no public name for this step.
        missing: Any = super()
        return missing._get_obj_does_not_exist_redirect(request, opts, object_id)  # type: ignore[no-any-return]
