"""Previewed queues on pages, without titles that the operator may not see."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import date, datetime, time, timedelta
from itertools import groupby
from typing import Any, NamedTuple
from zoneinfo import ZoneInfo

from django import forms
from django.contrib.auth.models import AbstractBaseUser, AnonymousUser
from django.core.exceptions import ValidationError
from django.db.models import Model
from django.http import HttpRequest
from django.template.loader import render_to_string
from django.utils.functional import Promise
from django.utils.safestring import SafeString
from django.utils.timezone import make_aware
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _
from unfold.widgets import UnfoldAdminSingleDateWidget

from apps.common import clock, filtering
from apps.common.admin.display import short_time, shown_text, translate
from apps.common.admin.filters import read_parameter
from apps.common.admin.html import page_url
from apps.common.errors import Invalid
from apps.common.zones import known_zone
from apps.dispatch.models import (
    TASK_MODELS,
    Dispatch,
    Executor,
    OperatorScope,
    RotateTask,
    Source,
)
from apps.dispatch.rules.preview import NO_ID, Item
from apps.dispatch.services.preview import Period, period_of, preview, seen_tasks

PERIODS: dict[str, tuple[timedelta, str | Promise]] = {
    "1": (timedelta(days=1), _("24 hours")),
    "3": (timedelta(days=3), _("3 days")),
    "7": (timedelta(days=7), _("7 days")),
    "30": (timedelta(days=30), _("30 days")),
}
USUAL = "1"
# The form outside of the page's own, which the boxes of the period belong to.
PERIOD_FORM = "period-ahead"
UPCOMING = "upcoming-tasks"
MAX_LINES = 100
# Until somebody has chosen a period.
FEW_LINES = 8
MAX_TITLE = 80


class RepeatedItem(NamedTuple):
    """An item and how often it repeats in a row, as blocking tasks do."""

    item: Item
    times: int


def runs(items: Iterable[Item]) -> list[RepeatedItem]:
    """The items with immediate repeats merged into one run, which keeps the first of them."""
    grouped = groupby(items, lambda item: item._replace(remaining=0))
    return [RepeatedItem(next(group), 1 + sum(1 for _ in group)) for _, group in grouped]


@dataclass(frozen=True, kw_only=True)
class Line:
    """A run of a queue; `url` is empty for a task that is not saved yet or not to be seen."""

    item: Item
    times: int
    at: SafeString
    is_now: bool
    title: str
    source: str
    url: str
    due: SafeString
    left: int

    @property
    def is_open(self) -> bool:
        return self.item.number is not None


def lines(
    shown: Sequence[RepeatedItem], user: AbstractBaseUser | AnonymousUser, *, now: datetime
) -> list[Line]:
    """The runs with the titles that this person may read."""
    keys = [(run.item.source, run.item.task) for run in shown]
    seen = visible_tasks({*keys}, user)
    zones = _zones({*keys} & seen)
    return [
        _line(run, key in seen, zones.get(key), now) for run, key in zip(shown, keys, strict=True)
    ]


def _zones(keys: set[tuple[str, int]]) -> dict[tuple[str, int], ZoneInfo]:
    """The zones that the rotations among the tasks are planned in."""
    pks = [pk for source, pk in keys if source == Source.ROTATE]
    rows = RotateTask.objects.filter(pk__in=pks).values_list("pk", "time_zone") if pks else []
    return {(Source.ROTATE, pk): known_zone(name) for pk, name in rows}


def may_view(user: Any, model: type[Model]) -> bool:
    """Whether the person may see such rows at all."""
    return bool(user.has_perm(f"dispatch.view_{model._meta.model_name}"))


def title_of(dispatch: Dispatch, user: Any) -> str:
    """The title of a dispatch on a page that people see who may not see dispatches."""
    if not may_view(user, Dispatch):
        return gettext("not yours to see")
    return shown_text(dispatch.title, limit=MAX_TITLE)


def visible_tasks(
    keys: set[tuple[str, int]], user: AbstractBaseUser | AnonymousUser
) -> set[tuple[str, int]]:
    """The tasks among these that the person may see."""
    hidden = {source for source, model in TASK_MODELS.items() if not may_view(user, model)}
    shown = {key for key in keys if key[0] not in hidden or key[1] == NO_ID}
    return seen_tasks(shown, OperatorScope.names_of(user))


def _line(run: RepeatedItem, is_visible: bool, zone: ZoneInfo | None, now: datetime) -> Line:
    item = run.item
    has_page = is_visible and item.task != NO_ID
    title = shown_text(item.title, limit=MAX_TITLE)
    return Line(
        item=item,
        times=run.times,
        at=short_time(item.at),
        is_now=item.at <= now,
        title=title if is_visible else gettext("not yours to see"),
        source=str(Source(item.source).label),
        url=page_url(TASK_MODELS[item.source], item.task) if has_page else "",
        due=short_time(item.occurrence_at, also=zone),
        left=item.remaining,
    )


class _DayField(forms.DateField):
    def __init__(self, **kwargs: Any) -> None:
        widget = UnfoldAdminSingleDateWidget(attrs={"type": "date", "form": PERIOD_FORM})
        super().__init__(required=False, widget=widget, **kwargs)

    def to_python(self, value: Any) -> date | None:
        try:
            return read_parameter(filtering.day, value) if value else None
        except ValueError as error:
            raise ValidationError(str(error)) from error


class PeriodForm(forms.Form):
    """Two days, both included, in the time zone of the page; either may be left open."""

    from_day = _DayField(label=_("From"))
    to_day = _DayField(label=_("To"))

    def period(self, *, now: datetime) -> Period | None:
        """The period; None without days, or when they make no period: the form then has the
        error."""
        if not self.is_valid():
            return None
        first, last = self.cleaned_data["from_day"], self.cleaned_data["to_day"]
        if first is None and last is None:
            return None
        if first is not None and last is not None and last < first:
            self.add_error(
                None, ValidationError(gettext("The last day lies before the first; exchange them."))
            )
            return None
        start = None if first is None else _midnight(first)
        end = None if last is None else _midnight(last + timedelta(days=1))
        if end is not None and end <= now:
            # The period is over, whenever it began.
            start = start or end - timedelta(days=1)
        try:
            return period_of(start, end, now=now)
        except Invalid as error:
            self.add_error(None, translate(error.detail))
            return None


def _midnight(day: date) -> datetime:
    return make_aware(datetime.combine(day, time.min))


def upcoming_tasks(request: HttpRequest, executor: Executor) -> SafeString:
    """The preview of the executor's queue for the period in the address."""
    chosen = request.GET.get("ahead", USUAL)
    chosen = chosen if chosen in PERIODS else USUAL
    now = clock.now()
    form = PeriodForm(request.GET)
    period = form.period(now=now)
    if period is None:
        period = Period(now, now + PERIODS[chosen][0])
    else:
        chosen = ""
    upcoming = preview(executor, period, now=now)
    shown = runs(upcoming.items)
    is_asked_for = not chosen or "ahead" in request.GET
    most = MAX_LINES if is_asked_for else FEW_LINES
    return render_to_string(
        "admin/includes/upcoming_tasks.html",
        {
            "executor": executor,
            "lines": lines(shown[:most], request.user, now=now),
            "left_out": max(0, len(shown) - most),
            "all_url": "" if is_asked_for else f"?ahead={chosen}#{UPCOMING}",
            "goes_on": upcoming.more,
            "form": form,
            "form_id": PERIOD_FORM,
            "errors": [
                *form.non_field_errors(),
                *(f"{field.label}: {error}" for field in form for error in field.errors),
            ],
            "periods": [
                (f"?ahead={key}", text, key == chosen) for key, (_length, text) in PERIODS.items()
            ],
        },
    )
