"""What the browser tests look at: the demo's company after a morning of work."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import pytest

from apps.access import services as access
from apps.dispatch.errors import Closed
from apps.dispatch.models import Dispatch, Executor, OnceTask, RotateTask, Template
from apps.dispatch.services import ending, tasks, templates
from apps.dispatch.services.pull import Nothing
from apps.journal.models import JournalEntry
from taskplatform.demo import planning
from taskplatform.demo.company import ANN, PEOPLE, TEMPLATES
from tests import callback
from tests.frozen import FrozenClock

OPERATOR = "admin:olga"
FACTS: dict[str, dict[str, Any]] = {
    "photo-check": {"photos": 4, "sharp": True},
    "stock-count": {"counted": 218, "unit": "box"},
    "price-check": {"checked": 60, "wrong": 1},
}
# How the hand-outs of a morning end, in their order; who is left over is still at work.
ENDINGS = ("succeeded", "succeeded", "failed", "succeeded", "released", "succeeded", "succeeded")
ROUNDS = 3
SHIFT = len(PEOPLE)


@dataclass(frozen=True)
class Morning:
    """Rows that a test looks up by what they are: `cancelled` got a result too late."""

    task: OnceTask
    rotation: RotateTask
    cancelled: Dispatch
    opened: Dispatch
    group: Executor
    template: Template
    entry: JournalEntry
    client: int


def play_morning(clock: FrozenClock) -> Morning:
    """Plan two rounds of inspections, hand out, call back, and step in once as an operator."""
    planning.plan_round()
    clock.advance(minutes=7)
    cancelled = _take(ANN)
    clock.advance(minutes=11)
    for position in range(ROUNDS * SHIFT):
        _work(list(PEOPLE)[1 + position % (SHIFT - 1)], clock, ENDINGS[position % len(ENDINGS)])
        if position == SHIFT:
            _cancel_too_late(cancelled, clock)
    clock.advance(minutes=4)
    planning.plan_round()
    clock.advance(minutes=3)
    still_at_work = [_take(uid) for uid in list(PEOPLE)[:SHIFT:2]]
    _edit_plan()
    rotation = _plan_rotation()
    client, _key = access.create_client(
        name="Handhelds of the shops", scopes=["pull"], rate="600/m", actor=OPERATOR
    )
    access.create_client(
        name="Headquarters", scopes=["read", "operate"], executors=["gid_stock_count"], actor="demo"
    )
    return Morning(
        task=OnceTask.objects.get(title="Dairy count, Nanjing Road"),
        rotation=rotation,
        cancelled=cancelled,
        opened=still_at_work[0],
        group=Executor.objects.get(name="gid_photo_check"),
        template=Template.objects.latest_of("photo-check"),  # type: ignore[arg-type]
        entry=JournalEntry.objects.filter(event="task_changed").latest("id"),
        client=client.pk,
    )


def _cancel_too_late(dispatch: Dispatch, clock: FrozenClock) -> None:
    """The operator takes the dispatch away, and its executor calls back all the same."""
    reason = "The shop stays closed: a pipe burst at night."
    ending.cancel(dispatch=dispatch, actor=OPERATOR, reason=reason)
    clock.advance(minutes=2, seconds=41)
    with pytest.raises(Closed):
        callback.call_back(
            executor=dispatch.executor,
            number=dispatch.pk,
            outcome="succeeded",
            result={"photos": 1, "sharp": True},
        )


def _person(uid: str) -> Executor:
    return Executor.objects.get(name=uid)


def _take(uid: str) -> Dispatch:
    taken = callback.take_next(_person(uid))
    assert isinstance(taken, Dispatch), f"nothing is due for {uid}"
    return taken


def _work(
    uid: str, clock: FrozenClock, end: Literal["succeeded", "failed", "released"] | str
) -> None:
    taken = callback.take_next(_person(uid))
    if isinstance(taken, Nothing):
        return
    clock.advance(seconds=35 + len(taken.title))
    if end == "released":
        callback.release(executor=taken.executor, number=taken.pk, reason="Called away to the till")
        return
    callback.call_back(
        executor=taken.executor,
        number=taken.pk,
        outcome=end,
        result=FACTS[taken.template_name] if end == "succeeded" else None,
        message="The aisle was closed for cleaning" if end == "failed" else "",
    )


def _edit_plan() -> None:
    """One task paused, one raised, and a template with a second version."""
    paused = OnceTask.objects.get(title="Shelf prices, Harbour Street")
    tasks.update_task(
        task=paused,
        changes={"status": OnceTask.Status.PAUSED},
        actor=OPERATOR,
        reason="New prices arrive at noon",
    )
    raised = OnceTask.objects.get(title="Pallet count, Harbour Street")
    tasks.update_task(
        task=raised, changes={"priority": 5, "dispatch_times": 24}, actor=OPERATOR, reason=""
    )
    schema = TEMPLATES["photo-check"]
    flash = {"flash": {"type": "boolean", "title": "With flash"}}
    templates.put_template(
        name="photo-check",
        schema={**schema, "properties": {**schema["properties"], **flash}},
        actor=OPERATOR,
    )


def _plan_rotation() -> RotateTask:
    """A rotation that was moved to another time of day once."""
    rotation = tasks.create_task(
        RotateTask,
        actor=OPERATOR,
        title="Fridge temperatures",
        executor=Executor.objects.get(name="gid_stock_count"),
        rule={"every_days": 1, "at": "07:30"},
        time_zone="Asia/Shanghai",
    )
    changes = {"rule": {"cron": "0 8 * * 1-5"}, "misfire": RotateTask.Misfire.ONCE}
    return tasks.update_task(task=rotation, changes=changes, actor=OPERATOR, reason="Later shifts")
