"""The links of figures: to the entries they count, or to the report of one group."""

from __future__ import annotations

from datetime import datetime
from typing import Any
from urllib.parse import urlencode

from apps.common.admin.html import list_url
from apps.dispatch.models import Dispatch
from apps.flows.rules.labels import flow_of
from apps.jobs.models import Job
from apps.journal.models import JournalEntry
from apps.reports.rules.outcomes import FLOW, STEP, STEP_ENDED, TOTAL
from apps.reports.services.choice import Choice, stamp
from apps.reports.services.summary import HOUR

# The journal filter of each grouping.
JOURNAL_PARAMETERS = {
    "type": "type_or_task",
    "task": "type_or_task",
    "flow": "type_or_task",
    "step": "type_or_task",
    "executor": "executor",
    "host": "host",
    "worker": "worker",
}


# The journal has the ends of runs and those of their steps under one source.
JOURNAL_SOURCES: dict[str, dict[str, Any]] = {
    FLOW: {"source": FLOW, "event": "ended"},
    STEP: {"source": FLOW, "event": STEP_ENDED},
}


def entries_of(choice: Choice, group: tuple[str, str] | None = None) -> str:
    """The journal entries of all time, optionally of one group.

    `between`, `counted_as` and `at_least` append further filters: the thousands of figures of a
    report share most of their addresses.
    """
    narrowed = group or choice.only
    parameters: dict[str, Any] = JOURNAL_SOURCES.get(choice.source) or {"source": choice.source}
    if narrowed:
        parameters = {**parameters, JOURNAL_PARAMETERS[narrowed[0]]: narrowed[1]}
    return list_url(JournalEntry, **parameters)


def between(entries: str, since: datetime, until: datetime) -> str:
    """The entries made in [since, until)."""
    return f"{entries}&since={stamp(since)}&until={stamp(until)}"


def counted_as(entries: str, counted: str) -> str:
    """The entries behind a count."""
    return f"{entries}&counted={counted}"


def at_least(entries: str, bound: str, milliseconds: int) -> str:
    """The entries that waited or ran at least this long; `bound` is `wait_from` or `run_from`."""
    return f"{counted_as(entries, TOTAL)}&{bound}={milliseconds}"


def report_of(choice: Choice, group: tuple[str, str]) -> str:
    """The report of one group through time."""
    step = choice.time_step if choice.is_by_group else HOUR
    return choice.query(by=step, only=group, sort="")


def report_by(choice: Choice, by: str) -> str:
    """The report by shorter steps, without its period, which `from_to` appends."""
    parameters = choice.parameters(preset="", sort="") | {"by": by}
    del parameters["from"], parameters["to"]
    return f"?{urlencode(parameters)}"


def from_to(report: str, since: datetime, until: datetime) -> str:
    """The report of [since, until)."""
    return f"{report}&from={stamp(since)}&to={stamp(until)}"


def rows_of(choice: Choice, group: tuple[str, str]) -> str:
    """The list of the jobs, dispatches or runs themselves."""
    dimension, value = group
    if choice.source in (FLOW, STEP):
        flow = flow_of(value) if choice.source == STEP else value
        return list_url("flows_flowrun", flow=flow)
    if dimension == "task":
        source, _colon, task = value.partition(":")
        parameters = {"source": source, "task": task}
    else:
        parameters = {dimension: value}
    model = Dispatch if dimension in ("task", "executor") else Job
    return list_url(model, **parameters)
