"""The hand-outs to an executor in a period, in order; nothing is written or cached."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple, TypeAlias

from apps.common import clock
from apps.common.errors import Invalid
from apps.common.messages import Message as _
from apps.dispatch.models import TASK_MODELS, Executor
from apps.dispatch.rules.preview import NO_ID, Item
from apps.dispatch.services.outlook import Outlook, outlooks

USUAL = timedelta(days=7)
LONGEST = timedelta(days=400)
# Later dates cannot be computed.
_END_OF_TIME = datetime(9998, 1, 1, tzinfo=UTC)
MAX_ITEMS = 1000
# Hand-outs that are simulated, including those before the period.
MAX_STEPS = 5000
Titles: TypeAlias = Mapping[tuple[str, int], str]


class Period(NamedTuple):
    """The time from `start` to before `end`."""

    start: datetime
    end: datetime


class Preview(NamedTuple):
    """The items of a preview; `more`: there are more, which were cut off."""

    items: list[Item]
    more: bool


def period_of(start: datetime | None, end: datetime | None, *, now: datetime) -> Period:
    """The period from the request, by default from now on for 7 days; Invalid when it is none."""
    start = now if start is None else start
    if start >= _END_OF_TIME:
        message = _("{year} is too far ahead; choose a nearer time.", year=start.year)
        raise Invalid.field("from", message)
    end = max(start, now) + USUAL if end is None else end
    if end <= start:
        message = _("The period ends before it starts; choose `to` after `from`.")
        raise Invalid.field("to", message)
    if end <= now:
        message = _("The period is over; see the dispatches for what was handed out.")
        raise Invalid.field("to", message)
    if end - start > LONGEST:
        message = _("The period is too long; ask for at most {limit} days.", limit=LONGEST.days)
        raise Invalid.field("to", message)
    return Period(start, end)


def preview(executor: Executor, period: Period, *, now: datetime | None = None) -> Preview:
    """The hand-outs to the executor if it finished everything at once and nobody else pulled.

    For a group: the occurrences that its members could get.
    """
    now = clock.now() if now is None else now
    [answer] = previews(outlooks([executor], until=period.end, now=now), period)
    return answer


def previews(
    of: Sequence[Outlook], period: Period, titles: Titles | None = None, *, limit: int = MAX_ITEMS
) -> list[Preview]:
    """The first `limit` items of each outlook in the period; `titles` of tasks that no table has
    yet."""
    shown = [_items(outlook, period, limit) for outlook in of]
    known = {**_titles_of(item for each in shown for item in each.items), **(titles or {})}
    return [
        each._replace(items=[_with_title(item, known) for item in each.items]) for each in shown
    ]


def _items(outlook: Outlook, period: Period, limit: int) -> Preview:
    """The first items within the period."""
    shown: list[Item] = []
    for played, item in enumerate(outlook.steps(), start=1):
        if len(shown) == limit or played > MAX_STEPS:
            return Preview(shown, more=True)
        if item.at >= period.start:
            shown.append(item)
    return Preview(shown, outlook.is_cut)


def _with_title(item: Item, titles: Titles) -> Item:
    """The item with the present title of its task; an open dispatch keeps its own."""
    if item.number is not None:
        return item
    return item._replace(title=titles.get((item.source, item.task), ""))


def _titles_of(items: Iterable[Item]) -> dict[tuple[str, int], str]:
    wanted: dict[str, set[int]] = {}
    for item in items:
        wanted.setdefault(item.source, set()).add(item.task)
    return {
        (source, pk): title
        for source, pks in wanted.items()
        for pk, title in TASK_MODELS[source].objects.filter(pk__in=pks).values_list("pk", "title")
    }


def seen_tasks(
    keys: Collection[tuple[str, int]], bound: Iterable[str] | None
) -> set[tuple[str, int]]:
    """The tasks that lie within the executors in `bound`, and tasks that are not saved yet, which
    their planner has written."""
    seen = {key for key in keys if bound is None or key[1] == NO_ID}
    if bound is not None:
        for source, model in TASK_MODELS.items():
            tasks: Any = model.objects.within(bound)
            found = tasks.filter(pk__in=[pk for of, pk in keys if of == source])
            seen |= {(source, pk) for pk in found.values_list("pk", flat=True)}
    return seen
