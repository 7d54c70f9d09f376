"""The history of rows whose edits the journal records."""

from __future__ import annotations

from collections.abc import Sequence

from django.http import HttpRequest

from apps.common.admin.base import PlatformModelAdmin
from apps.common.admin.timeline import Moment
from apps.journal.admin.entries import latest_moments
from apps.journal.models import Recorded


class RecordedAdmin(PlatformModelAdmin):
    """The timeline of a row is what the journal says about it."""

    def timeline(self, request: HttpRequest, row: Recorded) -> Sequence[Moment]:
        shows_payload = not self.payload_fields or self.has_payload_permission(request)
        return latest_moments(
            row.journal_source, row.pk, named=row.journal_name, shows_payload=shows_payload
        )
