"""The page of capacity: how fast tables grow, where that ends, and how soon jobs are picked up."""

from __future__ import annotations

from typing import Any

from django.contrib.auth.models import AnonymousUser, User
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse
from django.utils.safestring import SafeString
from django.utils.text import capfirst
from django.utils.translation import gettext, ngettext
from django.utils.translation import gettext_lazy as _

from apps.common import clock
from apps.common.admin.display import duration_of, shown_time, size_of
from apps.common.admin.pages import framed
from apps.jobs.admin.labels import capped
from apps.jobs.conf import conf as jobs_conf
from apps.jobs.services import living
from apps.reports.permissions import may_govern
from apps.reports.rules.capacity import NEVER
from apps.reports.services.capacity import (
    DAYS,
    LARGE_FOR_SQLITE,
    MAX_COUNTED,
    Capacity,
    TableNow,
    capacity,
)

_HOUR_SECONDS = 3600
_NOTHING = "–"


def capacity_page(request: HttpRequest) -> HttpResponse:
    """The page of capacity, for people who may see the reports of all."""
    user: User | AnonymousUser = request.user
    if not may_govern(user):
        raise PermissionDenied
    found = capacity()
    return framed(
        request,
        "admin/capacity.html",
        title=_("Capacity"),
        tables=[_table(each) for each in found.tables],
        size=size_of(found.size),
        max_size=size_of(found.max_size) if found.max_size else "",
        days_left=_days_left(found),
        is_soon=found.days_left is not None and found.days_left < 30,
        days=found.rates.days,
        max_days=DAYS,
        large=size_of(LARGE_FOR_SQLITE) if found.is_large_for_sqlite else "",
        figures=list(_pick_up(found)),
    )


def _table(table: TableNow) -> dict[str, Any]:
    load, known = table.load, table.load.per_day is not None
    rest = load.at_rest
    if not known:
        shown_rest = _NOTHING
    elif rest is None:
        shown_rest = gettext("grows for ever")
    else:
        shown_rest = size_of(rest)
    return {
        "name": capfirst(str(table.model._meta.verbose_name_plural)),
        "per_day": f"{load.per_day:,.0f}" if load.per_day is not None else _NOTHING,
        "row_bytes": f"{load.row_bytes:,.0f}{'*' if load.is_assumed else ''}",
        "rows": f"{load.rows:,}{'+' if table.is_capped else ''}",
        "now": _now(table),
        "kept": _kept(table) if known else _NOTHING,
        "rest": shown_rest,
        "next_roll": _next_roll(table),
    }


def _now(table: TableNow) -> str:
    load = table.load
    if load.size is not None:
        return size_of(load.size)
    return _NOTHING if table.is_capped else size_of(load.rows * load.row_bytes)


def _kept(table: TableNow) -> str:
    kept = table.load.kept
    if kept is None:
        return gettext("for ever")
    days = -(-kept.total_seconds() // 86_400)
    return ngettext("%d day", "%d days", int(days)) % days


def _next_roll(table: TableNow) -> SafeString | str:
    return shown_time(table.next_roll) if table.next_roll is not None else _NOTHING


def _days_left(found: Capacity) -> str:
    if found.days_left is None:
        return ""
    if found.days_left == NEVER:
        return gettext("never at this rate")
    return ngettext("in %d day", "in %d days", int(found.days_left)) % found.days_left


def _pick_up(found: Capacity) -> Any:
    """The slots of the workers beside the measured waits of jobs: pairs of figure and meaning."""
    workers = living.active_workers(clock.now())
    total, free = living.slots(workers)
    wait = found.lately.wait
    yield f"{len(workers):,}", _("workers that take jobs")
    yield f"{total:,}", gettext("slots, %s free") % f"{free:,}"
    yield duration_of(1000 * jobs_conf.JOB_SCAN_SECONDS), _("longest wait for a free slot to look")
    yield f"{found.lately.total / _HOUR_SECONDS:,.1f}", _("jobs held a second, last hour")
    yield _ms(wait.p50), _("waited half of them, last hour")
    yield _ms(wait.p99), _("waited 99 of 100 at most, last hour")
    yield capped(found.open_jobs, MAX_COUNTED), _("open jobs")


def _ms(value: int | None) -> str:
    return _NOTHING if value is None else duration_of(value)
