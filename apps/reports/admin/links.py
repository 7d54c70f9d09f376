"""Where a figure leads: to the list of what it counts, or to the report of one group."""

from __future__ import annotations

from datetime import datetime
from typing import Any
from urllib.parse import urlencode

from django.urls import reverse

from apps.reports.admin.choice import Choice, stamp
from apps.reports.rules.outcomes import TOTAL
from apps.reports.services.summary import HOUR

# How the journal names the value of a group.
JOURNAL_PARAMETERS = {
    "type": "type_or_task",
    "task": "type_or_task",
    "executor": "executor",
    "host": "host",
    "worker": "worker",
}


def entries(
    choice: Choice,
    since: datetime,
    until: datetime,
    *,
    counted: str = TOTAL,
    group: tuple[str, str] | None = None,
    at_least: dict[str, int] | None = None,
) -> str:
    """The journal entries of [since, until) that a count is of, within one group if it is named.

    `at_least` bounds `wait_from` or `run_from`, in milliseconds.
    """
    narrowed = group or choice.only
    parameters: dict[str, Any] = {"source": choice.source, "counted": counted}
    if narrowed:
        parameters[JOURNAL_PARAMETERS[narrowed[0]]] = narrowed[1]
    parameters |= {"since": stamp(since), "until": stamp(until), **(at_least or {})}
    return f"{reverse('admin:journal_journalentry_changelist')}?{urlencode(parameters)}"


def report_of(choice: Choice, group: tuple[str, str]) -> str:
    """The report of one group through time."""
    step = choice.time_step if choice.is_by_group else HOUR
    return choice.query(by=step, only=group, sort="")


def rows_of(choice: Choice, group: tuple[str, str]) -> str:
    """The list of the jobs or dispatches themselves, as they stand now."""
    dimension, value = group
    if dimension == "task":
        source, _colon, task = value.partition(":")
        parameters = {"source": source, "task": task}
    else:
        parameters = {dimension: value}
    name = "dispatch_dispatch" if dimension in ("task", "executor") else "jobs_job"
    return f"{reverse(f'admin:{name}_changelist')}?{urlencode(parameters)}"
