"""Settings of dispatch."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import Any

from django.core.exceptions import ImproperlyConfigured

from apps.common.conf import Conf, days, duration, integer


class DispatchConf(Conf):
    title = "Dispatch"

    DISPATCH_LOOKBACK = duration(
        "7d", "How long after its due time a task can be had.", minimum="1h"
    )
    DISPATCH_WINDOW_HOURS = integer(
        6,
        "Hours that a queue of a person looks ahead.",
        minimum=1,
        maximum=23,
    )
    TASK_OVERDUE_HOURS = integer(
        24,
        "Hours after which a due task is *overdue* while none of it is handed out.",
        minimum=1,
        maximum=8760,
    )
    ROTATIONS_PER_EXECUTOR = integer(
        100,
        "Maximum number of active repeating tasks of one person or group.",
        minimum=1,
        maximum=10_000,
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
    DISPATCH_ARCHIVE_AFTER = duration(
        "30d",
        "How long ended dispatches stay with the others before they go to the archive; at least a "
        "day more than `DISPATCH_LOOKBACK`. Those of a once task stay until it is deleted or over.",
        minimum="1d",
        maximum="36500d",
    )
    DISPATCH_RETENTION = duration(
        "400d",
        "How long ended dispatches are kept, in the archive as well; 0 = for ever. Longer than "
        "`DISPATCH_ARCHIVE_AFTER`.",
        maximum="36500d",
    )
    TASK_ARCHIVE_AFTER = duration(
        "30d",
        "How long tasks stay with the others after they were deleted or have ended, before they "
        "go to the archive; at least a day more than `DISPATCH_LOOKBACK`. They also stay while "
        "dispatches of them do.",
        minimum="1d",
        maximum="36500d",
    )
    TASK_RETENTION = duration(
        "400d",
        "How long such tasks are kept, in the archive as well; 0 = for ever. Longer than "
        "`TASK_ARCHIVE_AFTER`. They also stay while dispatches of them are kept.",
        maximum="36500d",
    )
    PURGE_SWEEP_SECONDS = integer(
        60,
        "Period of the sweep that moves rows to the archive and removes those past their "
        "retention.",
        minimum=1,
        maximum=86_400,
    )
    PURGE_BATCH = integer(
        200,
        "Maximum number of rows that one transaction of that sweep moves or removes.",
        minimum=1,
        maximum=500,
    )

    @classmethod
    def from_environment(cls, environment: Mapping[str, str]) -> dict[str, Any]:
        values = super().from_environment(environment)
        lookback = values["DISPATCH_LOOKBACK"]
        for kind, things in (("DISPATCH", "dispatches"), ("TASK", "tasks")):
            retention, after = values[f"{kind}_RETENTION"], values[f"{kind}_ARCHIVE_AFTER"]
            if retention and retention <= after:
                raise ImproperlyConfigured(
                    f"{kind}_RETENTION ({days(retention)}) must be longer than "
                    f"{kind}_ARCHIVE_AFTER ({days(after)}), because {things} are forgotten from "
                    f"the archive; raise the first, lower the second, or set {kind}_RETENTION=0 to "
                    f"keep {things} forever."
                )
            if after < lookback + timedelta(days=1):
                raise ImproperlyConfigured(
                    f"{kind}_ARCHIVE_AFTER ({days(after)}) must be at least a day longer than "
                    f"DISPATCH_LOOKBACK ({days(lookback)}), because until then a task can be "
                    "handed out; raise the first or lower the second."
                )
        return values


conf = DispatchConf()
