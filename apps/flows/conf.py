"""Settings of flows."""

from __future__ import annotations

from apps.common.conf import Conf, duration


class FlowsConf(Conf):
    title = "Flows"

    FLOW_RUNS_KEPT = duration(
        "400d",
        "How long a run of a flow is kept after its end, with its steps and their results.",
        minimum="1h",
        maximum="36500d",
    )


conf = FlowsConf()
