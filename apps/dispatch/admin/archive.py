"""The archive in the admin: dispatches that ended long ago, to be read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest
from django.utils.translation import gettext_lazy as _

from apps.dispatch.admin.dispatches import DispatchAdmin
from apps.dispatch.models import ArchivedDispatch, Dispatch


class ArchivedDispatchAdmin(DispatchAdmin):
    """Who may see dispatches may see these; nothing can be done with them any more.

    Those of one user, or of one task, are found newest first by an index, as the live ones.
    """

    other_model = Dispatch
    when_empty = _("Dispatches come here some days after their end.")
    actions = ()

    def older_url(self, request: HttpRequest) -> str:
        """Nowhere: this is the archive."""
        return ""

    def has_view_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return self._has_own_permission(request, "view_dispatch")

    def has_operate_permission(self, request: HttpRequest, obj: object = None) -> bool:
        return False

    def found_by_index(
        self, rows: QuerySet[Any], given: Mapping[str, str], term: str
    ) -> Sequence[int] | None:
        if given.get("state") == Dispatch.State.OPEN:
            return []
        return super().found_by_index(rows, given, term)


admin.site.register(ArchivedDispatch, ArchivedDispatchAdmin)
