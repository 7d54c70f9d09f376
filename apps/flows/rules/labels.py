"""The names under which the journal and reports have steps: pure."""

from __future__ import annotations

# As long as the journal's names of types and tasks.
MAX_LABEL = 128


def step_label(flow: str, step: str) -> str:
    """`night/resize`; "" in a run without a flow, whose steps have no name in common with those of
    others. Of a very long name of a flow only the beginning counts."""
    return f"{flow[: MAX_LABEL - 1 - len(step)]}/{step}" if flow else ""


def flow_of(label: str) -> str:
    """The flow of a step by its label: names of steps have no slash."""
    return label.rpartition("/")[0]
