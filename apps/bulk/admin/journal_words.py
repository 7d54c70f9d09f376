"""The words of bulk runs in the journal."""

from __future__ import annotations

import re

from django.utils.translation import gettext_lazy as _

from apps.bulk.models import BulkRun
from apps.bulk.services import runs
from apps.bulk.services.carry import MASKED_NOW
from apps.journal.admin.words import Event, register

register(
    BulkRun,
    events={
        runs.STARTED: Event(_("Bulk run started"), "dynamic_feed", "info"),
        runs.STOPPED: Event(_("Bulk run stopped"), "pause_circle", "warning"),
        runs.CONTINUED: Event(_("Bulk run continued"), "play_circle", "info"),
    },
    names={"action": _("action")},
    reasons={
        r"(?P<actor>\S+) may not do this any more[.]": _("%(actor)s may not do this any more."),
        r"More than (?P<most>\d+) rows match[.] Nothing was changed; start again with a higher "
        r"number[.]": _(
            "More than %(most)s rows match. Nothing was changed; start again with a higher number."
        ),
        re.escape(MASKED_NOW): _(
            "The filter searches for a value that is masked now. The rows that are left stay as "
            "they are; start a new run with another filter."
        ),
    },
)
