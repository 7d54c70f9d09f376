"""Flows, their runs, and the steps of these."""

from apps.flows.models.flow import MAX_NAME, MAX_TITLE, Flow
from apps.flows.models.reach import Sides, is_within
from apps.flows.models.run import MAX_KEY, MAX_MEMO, MAX_TRACE, OPEN, FlowRun, FlowStep

__all__ = [
    "MAX_KEY",
    "MAX_MEMO",
    "MAX_NAME",
    "MAX_TITLE",
    "MAX_TRACE",
    "OPEN",
    "Flow",
    "FlowRun",
    "FlowStep",
    "Sides",
    "is_within",
]
