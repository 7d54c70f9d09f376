"""Settings of dispatch."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import Any

from django.core.exceptions import ImproperlyConfigured

from apps.common.conf import Conf, days, duration, integer

# What was due before the lookback is over; ids and clocks differ by less.
_MARGIN = timedelta(days=1)


class DispatchConf(Conf):
    DISPATCH_LOOKBACK = duration(
        "7d", "How long after its due time a task can be had.", minimum="1h"
    )
    DISPATCH_WINDOW_HOURS = integer(
        6,
        "Hours that the personal queue looks ahead.",
        minimum=1,
        maximum=23,
    )
    TASK_OVERDUE_HOURS = integer(
        24,
        "Hours after which a due task is overdue while none of it is handed out.",
        minimum=1,
        maximum=8760,
    )
    ROTATIONS_PER_EXECUTOR = integer(
        100, "Maximum number of active rotations of one user or group.", minimum=1, maximum=10_000
    )
    EXPIRY_SWEEP_SECONDS = integer(
        5, "Period of the sweep that closes dispatches past their deadline.", minimum=1, maximum=10
    )
    EXPIRY_BATCH = integer(
        500,
        "Maximum number of dispatches that the expiry sweep closes at once.",
        minimum=1,
        maximum=5000,
    )
    DISPATCH_RETENTION = duration(
        "400d",
        "How long ended dispatches are kept, with their stock; at least a day more than "
        "DISPATCH_LOOKBACK, 0 = forever. Those of a once task stay until it is deleted.",
        maximum="36500d",
    )
    TASK_RETENTION = duration(
        "400d",
        "How long tasks stay after they were deleted or have ended; at least a day more than "
        "DISPATCH_LOOKBACK, 0 = forever. They also stay while they have dispatches.",
        maximum="36500d",
    )
    PURGE_SWEEP_SECONDS = integer(
        60, "Period of the sweep that removes rows past their retention.", minimum=1, maximum=86_400
    )
    PURGE_BATCH = integer(
        200,
        "Maximum number of rows that one transaction of that sweep removes.",
        minimum=1,
        maximum=500,
    )

    @classmethod
    def from_environment(cls, environment: Mapping[str, str]) -> dict[str, Any]:
        values = super().from_environment(environment)
        lookback = values["DISPATCH_LOOKBACK"]
        for name in ("DISPATCH_RETENTION", "TASK_RETENTION"):
            kept = values[name]
            if kept and kept < lookback + _MARGIN:
                raise ImproperlyConfigured(
                    f"{name} ({days(kept)}) must be a day longer than DISPATCH_LOOKBACK "
                    f"({days(lookback)}), because until then a task can be handed out; raise the "
                    f"first, lower the second, or set {name}=0 to keep all forever."
                )
        return values


conf = DispatchConf()
