"""Lists for a period of days: the filter, and the bar that shows and moves the period."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from typing import Any

from django.contrib.admin.views.main import SEARCH_VAR
from django.db.models import QuerySet
from django.http import HttpRequest
from django.utils.formats import date_format
from django.utils.timezone import localdate
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from apps.common import clock, filtering
from apps.common.admin.filters import DayFilter
from apps.common.filtering import RowFilter
from apps.dispatch.services.filtered import OnceTaskFilters, RotateTaskFilters

PERIOD = timedelta(days=7)


class PeriodFilter(DayFilter):
    """The filter by days: from a week ago to a week ahead, unless days are given, a title is
    searched for or what a task is part of is named; one day alone leaves the other side open."""

    def __init__(self, request: HttpRequest, *args: Any, **kwargs: Any) -> None:
        super().__init__(request, *args, **kwargs)
        is_searched = any(request.GET.get(name, "").strip() for name in (SEARCH_VAR, "part_of"))
        given = any(self.used_parameters.get(name) for name in self.parameters)
        if not given and not is_searched:
            for name, day in zip(self.parameters, _usual(), strict=True):
                self.used_parameters[name] = day.isoformat()

    def in_words(self) -> Iterator[tuple[str, str]]:
        """No words: the bar above the list shows the period and leads to others."""
        return iter(())

    def days(self) -> tuple[date | None, date | None]:
        """The first and the last day; None for those not given or not valid."""
        given = (self.used_parameters.get(name) for name in self.parameters)
        try:
            first, last = (filtering.day(text) if text else None for text in given)
        except ValueError:
            return None, None
        return first, last

    def bounded(self, rows: QuerySet[Any], side: str, instant: datetime) -> QuerySet[Any]:
        since, until = self.filters.period or ("", "")
        return self.filters.narrow(rows, RowFilter({until if side == "lt" else since: instant}))


class StartsIn(PeriodFilter):
    """The once tasks that start within the period."""

    title = _("start")
    filters = OnceTaskFilters


class RunsIn(PeriodFilter):
    """The rotations that run at some time within the period."""

    title = _("period")
    filters = RotateTaskFilters


@dataclass(frozen=True)
class PeriodBar:
    """The period of a list in words, and the addresses of the periods around it."""

    title: str
    words: str
    earlier: str = ""
    later: str = ""
    usual: str = ""


def period_bar(changelist: Any) -> PeriodBar | None:
    """The bar above a list that is filtered by period; None without a valid period."""
    found = [spec for spec in changelist.filter_specs if isinstance(spec, PeriodFilter)]
    if not found:
        return None
    title = str(found[0].title)
    first, last = found[0].days()

    def address(**days: date | None) -> str:
        texts = {name: None if day is None else day.isoformat() for name, day in days.items()}
        return str(changelist.get_query_string({**texts, "p": None}))

    usual = address(from_day=None, to_day=None)
    if first is None or last is None:
        if first is not None:
            words = gettext("from %s") % date_format(first, "SHORT_DATE_FORMAT")
        elif last is not None:
            words = gettext("until %s") % date_format(last, "SHORT_DATE_FORMAT")
        else:
            return None
        return PeriodBar(title, words, usual=usual)
    length = max(last - first, timedelta()) + timedelta(days=1)
    return PeriodBar(
        title,
        words=" – ".join(date_format(day, "SHORT_DATE_FORMAT") for day in (first, last)),
        earlier=address(from_day=first - length, to_day=last - length),
        later=address(from_day=first + length, to_day=last + length),
        usual="" if (first, last) == _usual() else usual,
    )


def _usual() -> tuple[date, date]:
    today = localdate(clock.now())
    return today - PERIOD, today + PERIOD
