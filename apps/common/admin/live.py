"""Pages of rows whose head renews itself as long as something goes on."""

from __future__ import annotations

from typing import Any

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render

from apps.common.admin.actions import CustomUrls
from apps.common.admin.base import PlatformModelAdmin


def live_view(request: HttpRequest, *, model_admin: Any, pk: int) -> HttpResponse:
    """The head of the page of the row, as it is now."""
    row = model_admin.existing(request, pk, may="view")
    return render(request, model_admin.head_template, model_admin.head(request, row))


class LiveAdmin(PlatformModelAdmin):
    """The top panels renew themselves; when the row is final, all of its page once more."""

    def live_seconds(self, row: Any) -> float | None:
        """The seconds between two renewals; None once nothing changes any more."""
        raise NotImplementedError(f"{type(self).__name__} must define live_seconds()")

    def get_custom_urls(self) -> CustomUrls:
        live = ("<int:pk>/live/", self.url_name("live"), live_view)
        return (live, *super().get_custom_urls())

    def head(self, request: HttpRequest, row: Any) -> dict[str, Any]:
        seconds = self.live_seconds(row)
        return {
            **super().head(request, row),
            "live_url": self.url("live", row.pk),
            "live_seconds": seconds,
            "is_final": seconds is None,
        }
