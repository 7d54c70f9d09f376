"""Runs of flows in the admin: the list, the page of one, and what operators do."""

from __future__ import annotations

from django.contrib import admin
from django.utils.translation import gettext_lazy as _

from apps.common.admin import MachineRowAdmin
from apps.common.admin.display import time_column
from apps.flows.models import FlowRun


class FlowRunAdmin(MachineRowAdmin):
    list_display = ("id", "flow", "key", "status", "created")
    list_mobile = (("status", "flow", "key"), ("id", "created"))
    list_defer = ("definition", "params")
    fields = ("flow", "key", "status", "started_by", "created")
    created = time_column("created_at", _("created"))


admin.site.register(FlowRun, FlowRunAdmin)
