"""Bulk runs over dispatches."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from django.db.models import QuerySet

from apps.bulk.services.targets import MAX_INDEXED, TARGETS, Target
from apps.common.filtering import RowFilter
from apps.dispatch.models import Dispatch
from apps.dispatch.rules import dispatch_verbs as of
from apps.dispatch.services import ending
from apps.dispatch.services.filtered import DispatchFilters, keys_if_few
from apps.jobs.models import Bounds


class Dispatches(Target):
    kind = "dispatches"
    model = Dispatch
    label = ("title",)
    verbs = of.VERBS
    filters = DispatchFilters
    payload = "dispatch.view_payload"

    def rows(self, wanted: RowFilter, bounds: Bounds) -> QuerySet[Any]:
        return self.within(DispatchFilters.narrow(Dispatch.objects.all(), wanted), bounds)

    def within(self, rows: QuerySet[Any], bounds: Bounds) -> QuerySet[Any]:
        if bounds.executors is None:
            return rows
        return rows.within(bounds.executors)  # type: ignore[attr-defined, no-any-return]

    def keys_if_few(self, wanted: RowFilter, bounds: Bounds) -> Sequence[int] | None:
        found = keys_if_few(Dispatch.objects.all(), wanted, most=MAX_INDEXED)
        return None if found is None else sorted(found, reverse=True)

    def locked(self, rows: QuerySet[Any], numbers: Sequence[int]) -> dict[int, Any]:
        return super().locked(rows.prefetch_related("executor"), numbers)

    def act(
        self, row: Any, verb: str, params: Mapping[str, Any], *, actor: str, reason: str
    ) -> None:
        end = {of.RELEASE: ending.release, of.EXPIRE: ending.expire_now, of.CANCEL: ending.cancel}
        end[verb](dispatch=row, actor=actor, reason=reason)


TARGETS[Dispatches.kind] = Dispatches()
