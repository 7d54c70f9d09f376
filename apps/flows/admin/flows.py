"""Flows in the admin: the list, the page of one, and its form."""

from __future__ import annotations

from django.contrib import admin
from django.utils.translation import gettext_lazy as _

from apps.common.admin import MachineRowAdmin
from apps.common.admin.display import time_column
from apps.flows.models import Flow
from apps.journal.admin import RecordedAdmin


class FlowAdmin(RecordedAdmin, MachineRowAdmin):
    list_display = ("name", "version", "title", "status", "created")
    list_mobile = (("status", "name", "title"), ("version", "created"))
    list_defer = ("definition",)
    fields = ("name", "version", "title", "status", "created")
    created = time_column("created_at", _("created"))


admin.site.register(Flow, FlowAdmin)
