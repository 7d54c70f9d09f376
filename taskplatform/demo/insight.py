"""What the demo prints of the time ahead, by the services of preview, explain and what-if."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta

from django.utils import timezone

from apps.common import clock
from apps.dispatch.models import Executor, OnceTask, RotateTask
from apps.dispatch.services.explain import explain
from apps.dispatch.services.preview import Item, Period, preview
from apps.dispatch.services.what_if import what_if_updated
from taskplatform.demo.company import ACTOR, ANN, NIGHT, ROUND, TOMORROW

AHEAD = timedelta(days=1)
MAX_ITEMS = 4


def insights() -> Iterator[str]:
    """Lines on what Ann will get, why she may not have two tasks, and what resuming a rotation
    would change. Nothing is written."""
    now = clock.now()
    day = Period(now, now + AHEAD)
    ann = Executor.objects.filter(name=ANN).first()
    if ann is not None:
        yield f"What would {ANN} get until {_time(day.end)}? (preview)"
        yield from _shown(preview(ann, day, now=now).items, day)
        yield from _explained(ann)
    night = RotateTask.objects.not_deleted().filter(created_by=ACTOR, title=NIGHT.title).first()
    if night is not None and night.status == RotateTask.Status.PAUSED:
        yield from _resumed(night, day, now)


def _explained(ann: Executor) -> Iterator[str]:
    for inspection in (ROUND[0], TOMORROW):
        planned = OnceTask.objects.not_deleted().filter(
            created_by=ACTOR, title__startswith=f"{inspection.title}, "
        )
        task = planned.select_related("executor").order_by("-pk").first()
        if task is not None:
            yield f"Can {ann} have {task.title} now? (explain)"
            for reason in explain(executor=ann, task=task).reasons:
                yield f"    {reason.code}: {reason.detail.translated(format_time=_time)}"


def _resumed(night: RotateTask, day: Period, now: datetime) -> Iterator[str]:
    yield f"What if {night.title} ({night.summary}) were resumed? (what-if)"
    result = what_if_updated(
        task=night,
        changes={"status": RotateTask.Status.ACTIVE},
        period=day,
        actor=ACTOR,
        now=now,
    )
    changed = [change for change in result.changes if change.is_change]
    for change in changed[:1]:
        before, after = change.before.items, change.after.items
        yield f"    {change.executor} would get {len(after)} in place of {len(before)}:"
        yield from _shown([item for item in after if item not in before], day, sign="+ ")
    if changed[1:]:
        yield f"    So would {', '.join(str(change.executor) for change in changed[1:])}."


def _shown(items: Sequence[Item], day: Period, *, sign: str = "") -> Iterator[str]:
    for item in items[:MAX_ITEMS]:
        when = "now" if item.at <= day.start else _time(item.at)
        late = f" of {_time(item.occurrence_at)}" if item.source == RotateTask.source else ""
        yield f"    {sign}{when}  {item.title}{late if item.at > item.occurrence_at else ''}"
    if len(items) > MAX_ITEMS:
        yield f"    and {len(items) - MAX_ITEMS} more"
    if not items:
        yield "    nothing"


def _time(at: datetime) -> str:
    return f"{timezone.localtime(at):%Y-%m-%d %H:%M}"
