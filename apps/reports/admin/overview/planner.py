"""What planners should look at next: each number leads to the list with these rows."""

from __future__ import annotations

from collections.abc import Iterator

from django.utils.translation import gettext_lazy as _

from apps.common.admin.html import list_url
from apps.dispatch.admin.executor_blockers import FIRST_DAY
from apps.dispatch.models import Executor, OnceTask
from apps.dispatch.rules import life
from apps.dispatch.services.planning import Found, numbers
from apps.reports.admin.overview.sight import Sight
from apps.reports.admin.overview.tiles import WARNING, Tile


def tiles(sight: Sight) -> Iterator[Tile]:
    """Of the tasks and executors that this person may see."""
    sees_tasks, sees_executors = (
        sight.may(f"dispatch.view_{name}") for name in ("oncetask", "executor")
    )
    if not sees_tasks and not sees_executors:
        return
    found = numbers(sight.bound)
    if sees_tasks:
        yield Tile(
            key="tasks-unfilled",
            title=_("quotas not full"),
            value=_number(found.unfilled),
            url=list_url(OnceTask, status=life.UNFILLED, ends="24h", from_day=FIRST_DAY),
            notes=(_("end within 24 h"),),
        )
        yield Tile(
            key="tasks-ending",
            title=_("tasks ending"),
            value=_number(found.ending),
            url=list_url(OnceTask, status=life.ACTIVE, ends="6h", from_day=FIRST_DAY),
            notes=(_("within 6 h"),),
        )
        yield Tile(
            key="tasks-overdue",
            title=_("tasks overdue"),
            value=_number(found.overdue),
            url=list_url(OnceTask, status=life.OVERDUE, from_day=FIRST_DAY),
            notes=(_("nobody took them"),),
            tone=WARNING if found.overdue.count else "",
        )
    if sees_executors:
        yield Tile(
            key="executors-silent",
            title=_("silent executors"),
            value=_number(found.silent),
            url=list_url(Executor, silent="True"),
            notes=(_("with work in hand"),),
            tone=WARNING if found.silent.count else "",
        )


def _number(found: Found) -> str:
    return f"{found.count:,}" if found.is_whole else f"{found.count:,}+"
