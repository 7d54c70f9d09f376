"""Settings of bulk runs."""

from __future__ import annotations

from apps.common.conf import Conf, duration


class BulkConf(Conf):
    title = "Bulk runs"

    BULK_ROWS_KEPT = duration(
        "30d",
        "How long the rows of a bulk run are kept: what became of each.",
        minimum="1h",
        maximum="36500d",
    )
    BULK_RUNS_KEPT = duration(
        "400d",
        "How long a bulk run is kept with its counts; at least `BULK_ROWS_KEPT`.",
        minimum="1h",
        maximum="36500d",
    )


conf = BulkConf()
