"""The words of bulk runs in the journal."""

from __future__ import annotations

from django.utils.translation import gettext_lazy as _

from apps.bulk.models import BulkRun
from apps.bulk.services import runs
from apps.bulk.services.carry import AS_ASKED, MASKED_NOW, NO_RIGHT, NO_RUN, TOO_MANY
from apps.bulk.services.undo import REASON
from apps.journal.admin.words import Event, pages_by_name, register
from apps.journal.models import Source
from apps.journal.services.undo import UNDONE

register(
    BulkRun,
    events={
        UNDONE: Event(_("Undone"), "undo", "info", said=_("undid an act on {what}")),
        runs.STARTED: Event(
            _("Bulk run started"), "dynamic_feed", "info", said=_("started {what}")
        ),
        runs.STOPPED: Event(
            _("Bulk run stopped"), "pause_circle", "warning", said=_("stopped {what}")
        ),
        runs.CONTINUED: Event(
            _("Bulk run continued"), "play_circle", "info", said=_("continued {what}")
        ),
    },
    names={"action": _("action")},
    pages={Source.PLAN: pages_by_name({"bulk": "bulk_bulkrun"})},
    messages=(NO_RUN, AS_ASKED, MASKED_NOW, NO_RIGHT, TOO_MANY, REASON),
)
