"""Settings of reports."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from django.core.exceptions import ImproperlyConfigured

from apps.common.conf import Conf, Setting, days, duration, integer, parse_size
from apps.journal.conf import JournalConf


class ReportsConf(Conf):
    title = "Reports"

    REPORT_SWEEP_SECONDS = integer(
        10, "Period of the sweep that adds up the journal for reports.", minimum=1, maximum=60
    )
    REPORT_MINUTES_KEPT = duration(
        "2d", "How long reports can be cut at minutes.", minimum="3h", maximum="36500d"
    )
    REPORT_QUARTERS_KEPT = duration(
        "100d",
        "How long reports can be cut at quarters of an hour, which time zones 30 or 45 minutes off "
        "need; at least `REPORT_MINUTES_KEPT`.",
        minimum="3d",
        maximum="36500d",
    )
    REPORT_HOURS_KEPT = duration(
        "800d",
        "How long reports can be cut at hours, as local days need; days (UTC) stay for ever. "
        "At least `REPORT_QUARTERS_KEPT`.",
        minimum="3d",
        maximum="36500d",
    )
    REPORT_ERRORS_KEPT = duration(
        "400d",
        "How long after it was last seen an error stays on the page of failures; at most the "
        "200,000 seen last.",
        minimum="1d",
        maximum="36500d",
    )
    DATABASE_MAX_SIZE = Setting(
        "0",
        parse_size,
        "a size such as 500MB, 80GB or 2TB",
        "How large the database may get: *Capacity* says when it will be; 0 = not known.",
        example="80GB",
    )

    @classmethod
    def from_environment(cls, environment: Mapping[str, str]) -> dict[str, Any]:
        values = super().from_environment(environment)
        journal = JournalConf.from_environment(environment)["JOURNAL_RETENTION"]
        minutes = values["REPORT_MINUTES_KEPT"]
        if journal and journal < minutes:
            raise ImproperlyConfigured(
                f"JOURNAL_RETENTION ({days(journal)}) must be at least REPORT_MINUTES_KEPT "
                f"({days(minutes)}), because minutes of reports are added up anew from the "
                "journal; raise the first, lower the second, or set JOURNAL_RETENTION=0 to keep "
                "entries forever."
            )
        return values


conf = ReportsConf()
