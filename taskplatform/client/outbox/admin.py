"""Lists the jobs that wait or were refused, with the reason; these are sent again or discarded."""

from __future__ import annotations

import json
from typing import Any

from django.contrib import admin, messages
from django.http import HttpRequest, HttpResponse
from django.template.response import TemplateResponse
from django.utils.translation import gettext, ngettext
from django.utils.translation import gettext_lazy as _

from .models import OutgoingJob

# How many rows are named before they are discarded.
_SHOWN = 100
_FILTERS: dict[str, dict[str, Any]] = {
    "refused": {"refused_at__isnull": False},
    "sent": {"refused_at__isnull": True, "request_id__gt": ""},
    "waiting": {"refused_at__isnull": True, "request_id": ""},
}


class StateFilter(admin.SimpleListFilter):
    title = _("state")
    parameter_name = "state"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, Any]]:
        return [("refused", _("refused")), ("sent", _("being sent")), ("waiting", _("waiting"))]

    def queryset(self, request: HttpRequest, queryset: Any) -> Any:
        return queryset.filter(**_FILTERS.get(self.value() or "", {}))


@admin.register(OutgoingJob)
class OutgoingJobAdmin(admin.ModelAdmin):  # type: ignore[type-arg]
    list_display = ("id", "type", "key", "state", "reason", "created_at")
    list_display_links = ("id", "type")
    list_filter = (StateFilter,)
    search_fields = ("type", "key")
    ordering = ("-id",)
    show_full_result_count = False
    actions = ("send_again", "discard")
    fields = ("type", "key", "job", "created_at", "state", "reason", "tried_at", "request_id")
    readonly_fields = fields

    @admin.display(description=_("state"))
    def state(self, row: OutgoingJob) -> str:
        if row.refused_at:
            return gettext("refused")
        return gettext("being sent") if row.request_id else gettext("waiting")

    @admin.display(description=_("reason"))
    def reason(self, row: OutgoingJob) -> str:
        return gettext(row.error) if row.error else ""

    @admin.display(description=_("job"))
    def job(self, row: OutgoingJob) -> str:
        return json.dumps(json.loads(row.body), indent=2, ensure_ascii=False)

    def has_add_permission(self, request: HttpRequest) -> bool:
        return False

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

    def has_send_permission(self, request: HttpRequest) -> bool:
        return super().has_change_permission(request)

    def has_discard_permission(self, request: HttpRequest) -> bool:
        return super().has_delete_permission(request)

    def has_view_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        may_act = self.has_send_permission(request) or self.has_discard_permission(request)
        return may_act or super().has_view_permission(request, obj)

    @admin.action(description=_("Send again"), permissions=["send"])
    def send_again(self, request: HttpRequest, queryset: Any) -> None:
        refused = queryset.filter(refused_at__isnull=False).order_by()
        count = refused.update(refused_at=None, error="", tried_at=None)
        words = ngettext("%d job waits to be sent.", "%d jobs wait to be sent.", count) % count
        self.message_user(request, words, messages.SUCCESS if count else messages.WARNING)

    @admin.action(description=_("Discard…"), permissions=["discard"])
    def discard(self, request: HttpRequest, queryset: Any) -> HttpResponse | None:
        """Not what is being sent: the request is repeated as it was."""
        idle = queryset.filter(request_id="").order_by()
        if "confirmed" not in request.POST:
            context = {
                **self.admin_site.each_context(request),
                "title": gettext("Discard jobs?"),
                "rows": queryset.filter(request_id="")[:_SHOWN],
                "count": idle.count(),
                "chosen": request.POST.getlist("_selected_action"),
                "across": request.POST.get("select_across", "0"),
                "kept": queryset.exclude(request_id="").count(),
            }
            return TemplateResponse(request, "admin/taskplatform_outbox/discard.html", context)
        count, _by_model = idle.delete()
        words = ngettext("%d job is discarded.", "%d jobs are discarded.", count) % count
        self.message_user(request, words, messages.SUCCESS if count else messages.WARNING)
        return None
