"""The history of rows whose edits the journal records."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from django.http import HttpRequest

from apps.common.admin.base import PlatformModelAdmin
from apps.common.admin.timeline import Moment
from apps.journal.admin.entries import MAX_MOMENTS, latest_moments
from apps.journal.models import Recorded


class RecordedAdmin(PlatformModelAdmin):
    """The timeline of a row is what the journal says about it."""

    def timeline(self, request: HttpRequest, row: Recorded) -> Sequence[Moment]:
        shows_payload = not self.payload_fields or self.has_payload_permission(request)
        return self.latest(row, user=request.user, shows_payload=shows_payload)

    def latest(
        self, row: Recorded, *, user: Any, shows_payload: bool = True, limit: int = MAX_MOMENTS
    ) -> list[Moment]:
        """The newest entries about the row, oldest first."""
        return latest_moments(
            row.journal_source,
            row.pk,
            named=row.journal_name,
            user=user,
            shows_payload=shows_payload,
            limit=limit,
        )
