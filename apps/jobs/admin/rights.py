"""Rights on the rows beside jobs: those of the jobs themselves."""

from __future__ import annotations

from typing import Any

from django.http import HttpRequest

from apps.common.admin.base import PlatformModelAdmin


class RightsOfJobs(PlatformModelAdmin):
    """Rows beside jobs: who may see and operate jobs may do the same here, and nobody adds one."""

    def has_add_permission(self, request: HttpRequest) -> bool:
        return False

    def has_view_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return self._has_own_permission(request, "view_job")

    def has_operate_permission(self, request: HttpRequest, obj: object = None) -> bool:
        return self._has_own_permission(request, "operate_job")
