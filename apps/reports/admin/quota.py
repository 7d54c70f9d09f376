"""The quotas of the first tasks of a report, and how much of them is handed out.

Limits: MAX_TASKS tasks of each kind; of a rotation, the newest MAX_OCCURRENCES that are due in the
period and were handed out at least once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

from django.utils.safestring import SafeString

from apps.common.admin.display import quota_bar, shown_text
from apps.common.admin.html import list_url, page_url
from apps.common.db import fetch_each, table
from apps.dispatch.models import TASK_MODELS, Dispatch, Source, Stock
from apps.dispatch.services.past import members_of
from apps.reports.services.summary import Summary
from apps.reports.services.titles import MAX_TITLE, numbers_of

MAX_TASKS = 10
MAX_OCCURRENCES = 1_000


@dataclass(frozen=True)
class Quota:
    """A task with its hand-outs, for a rotation those of all `occurrences`, `full` of them full.

    `is_cut` means that there are more occurrences than were read. What goes to every member counts
    the members of now.
    """

    label: str
    title: str
    url: str
    dispatches_url: str
    bar: SafeString
    occurrences: int
    full: int
    is_cut: bool


def quotas(summary: Summary) -> list[Quota]:
    """The quotas of the first tasks of each kind in a summary by task."""
    return [
        quota
        for source in (Source.ONCE, Source.ROTATE)
        for quota in _quotas(source, _first(summary.names, source), summary)
    ]


def _first(labels: Sequence[str], source: Source) -> list[int]:
    return [*islice(numbers_of(labels, source), MAX_TASKS)]


def _quotas(source: Source, numbers: list[int], summary: Summary) -> list[Quota]:
    tasks: dict[int, Any] = TASK_MODELS[source].objects.in_bulk(numbers)
    handed = _handed(source, numbers, summary)
    to_all = {task.executor_id for task in tasks.values() if task.dispatch_times is None}
    members = members_of(to_all)
    return [
        _quota(source, tasks[number], handed[number], members)
        for number in numbers
        if number in tasks
    ]


def _handed(source: Source, numbers: list[int], summary: Summary) -> dict[int, list[int]]:
    """The hand-outs of each occurrence of these tasks, by task, the newest first."""
    handed: dict[int, list[int]] = {number: [] for number in numbers}
    # Each task is one range of the unique index of occurrences.
    select = (
        f"SELECT task, handed FROM {table(Stock)} "
        "WHERE source = %s AND task = %s AND occurrence >= %s AND occurrence < %s "
        f"ORDER BY occurrence DESC LIMIT {MAX_OCCURRENCES + 1}"
    )
    since, until = (0, 1)
    if source == Source.ROTATE:
        since, until = (int(at.timestamp()) for at in (summary.start, summary.as_of))
    parts = ((select, (str(source), number, since, until)) for number in numbers)
    for task, count in fetch_each(parts):
        handed[task].append(count)
    return handed


def _quota(source: Source, task: Any, handed: list[int], members: dict[int, int]) -> Quota:
    is_cut = len(handed) > MAX_OCCURRENCES
    handed = handed[:MAX_OCCURRENCES]
    to_all = task.dispatch_times is None
    times = members[task.executor_id] if to_all else task.dispatch_times
    return Quota(
        label=f"{source}:{task.pk}",
        title=shown_text(task.title, limit=MAX_TITLE),
        url=page_url(type(task), task.pk),
        dispatches_url=list_url(Dispatch, source=source, task=task.pk),
        bar=quota_bar(sum(handed), times * max(1, len(handed)), of_members=to_all),
        occurrences=len(handed),
        full=sum(each >= times for each in handed),
        is_cut=is_cut,
    )
