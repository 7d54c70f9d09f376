"""Which runs are meant: by which their lists are narrowed."""

from __future__ import annotations

from django.utils.translation import gettext_lazy as _

from apps.common.filtersets import Choices, Door, Key, MadeBefore, MadeSince, RowFilters
from apps.flows.models import FlowRun


class RunFilters(RowFilters):
    """Each of the first three has an index in the order of the list."""

    flow = Key(label=_("flow"))
    status = Choices(FlowRun.Status.choices, label=_("status"))
    key = Key(label=_("key"))
    created_after = MadeSince("created_at", label=_("created from"), doors=Door.REST)
    created_before = MadeBefore("created_at", label=_("created before"), doors=Door.REST)

    class Meta:
        model = FlowRun
        fields = ()
