"""What an executor would get in a period, in hand-out order; nothing is written or cached."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from itertools import islice
from typing import NamedTuple

from apps.common import clock
from apps.common.errors import Invalid
from apps.common.messages import Message as _
from apps.dispatch.models import TASK_MODELS, Dispatch, Executor, OnceTask, Task
from apps.dispatch.rules.plan import Planned
from apps.dispatch.rules.preview import (
    Held,
    Past,
    Step,
    steps_of_group,
    steps_of_user,
)
from apps.dispatch.rules.queue import Candidate, Queue
from apps.dispatch.rules.window import Window
from apps.dispatch.services.candidates import facts_of, handed_of
from apps.dispatch.services.queue import plan_of, window_at
from apps.dispatch.services.standing import had_by_members, members_of
from apps.dispatch.services.state import ExecutorState, state_of

USUAL = timedelta(days=7)
LONGEST = timedelta(days=400)
# Later dates cannot be computed.
_END_OF_TIME = datetime(9998, 1, 1, tzinfo=UTC)
MAX_ITEMS = 1000
# Hand-outs that are simulated, including those before the period.
MAX_STEPS = 5000
# Once tasks read beyond those that are due already.
_MAX_AHEAD = 2 * MAX_ITEMS
_CHUNK = 512


class Period(NamedTuple):
    """From `start` to before `end`."""

    start: datetime
    end: datetime


# The id of a task that is not saved yet; it comes after all others of the same rank.
NO_ID = 2**63 - 1


class Item(NamedTuple):
    """One hand-out: `at` is when the executor would get it, `remaining` what is left just before,
    `number` that of a dispatch that is open already."""

    at: datetime
    source: str
    task: int
    occurrence_at: datetime
    title: str
    priority: int
    remaining: int
    number: int | None

    @property
    def saved_task(self) -> int | None:
        return None if self.task == NO_ID else self.task


class Preview(NamedTuple):
    """`more`: it goes on, but was cut here."""

    items: list[Item]
    more: bool


def period_of(start: datetime | None, end: datetime | None, *, now: datetime) -> Period:
    """The period asked for, by default from now on for 7 days; Invalid when it is none."""
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
    """What the executor would get if it finished everything at once and nobody else pulled.

    Of a group: the occurrences that its members could get.
    """
    outlook = Outlook.of(executor, until=period.end, now=clock.now() if now is None else now)
    return outlook.preview(period)


@dataclass(frozen=True, kw_only=True)
class Outlook:
    """The data of a preview of an executor from `now` to before `until`.

    `is_cut`: there are more tasks than are read, so `until` is earlier than requested. `owners`
    are the executors whose tasks reach it.
    """

    now: datetime
    until: datetime
    is_cut: bool
    is_group: bool
    owners: frozenset[int]
    plan: tuple[Planned, ...]
    frame: Window
    past: Past
    held: Held | None
    held_title: str

    @classmethod
    def of(
        cls,
        executor: Executor,
        *,
        until: datetime,
        now: datetime,
        besides: Sequence[Planned] = (),
    ) -> Outlook:
        """Read from the tables, with the past of the tasks `besides`."""
        dispatch = None
        owners = [executor.pk] if executor.enabled else []
        if not executor.is_group:
            state = state_of(executor.pk)
            owners = state.owners if state.enabled else []
            dispatch = open_dispatch(state)
        end = max(now, _end_of_reading(owners, now, until))
        frame = Window(window_at(now).lower, end)
        plan = tuple(plan_of(owners, frame, now=now)) if owners else ()
        held = None if dispatch is None else held_of(dispatch)
        known = [*Queue([*plan, *besides], frame=frame, now=now), *candidates_of(held)]
        past = past_of(None if executor.is_group else executor.pk, known)
        _count_members(past, [*plan, *besides, *([held] if held else [])], known)
        return cls(
            now=now,
            until=end,
            is_cut=end < until,
            is_group=executor.is_group,
            owners=frozenset(owners),
            plan=plan,
            frame=frame,
            past=past,
            held=held,
            held_title="" if dispatch is None else dispatch.title,
        )

    def changed(self, task: Task, planned: Planned, *, is_planned: bool) -> Outlook:
        """The same with another version of that task, if it reaches this executor at all."""
        key = (planned.source, planned.task)
        plan = tuple(each for each in self.plan if (each.source, each.task) != key)
        if is_planned and task.executor_id in self.owners:
            plan = (*plan, planned)
        held = self.held
        if held is not None and held.identity[:2] == key:
            held = replace(held, policy=planned.policy, priority=planned.priority)
        return replace(self, plan=plan, held=held)

    def steps(self) -> Iterator[Step]:
        """Hand-out by hand-out, lazily."""
        queue = Queue(self.plan, frame=self.frame, now=self.now)
        past = self.past.copy()
        if self.is_group:
            return steps_of_group(queue, past, now=self.now, until=self.until, windows=window_at)
        return steps_of_user(
            queue, past, self.held, now=self.now, until=self.until, windows=window_at
        )

    def preview(
        self,
        period: Period,
        titles: dict[tuple[str, int], str] | None = None,
        *,
        limit: int = MAX_ITEMS,
    ) -> Preview:
        """The first `limit` items of the period; `titles` of tasks that no table has yet."""
        shown: list[Step] = []
        more = self.is_cut
        for played, step in enumerate(self.steps(), start=1):
            if len(shown) == limit or played > MAX_STEPS:
                more = True
                break
            if step.at >= period.start:
                shown.append(step)
        known = {**_titles_of(shown), **(titles or {})}
        return Preview([self._item(step, known) for step in shown], more)

    def _item(self, step: Step, titles: dict[tuple[str, int], str]) -> Item:
        title = titles.get((step.source, step.task), "")
        if step.number is not None:
            title = self.held_title
        return Item(
            step.at,
            step.source,
            step.task,
            step.occurrence_at,
            title,
            step.priority,
            step.left,
            step.number,
        )


def _end_of_reading(owners: Sequence[int], now: datetime, until: datetime) -> datetime:
    """`until`, or the start of the once task before which there are as many as are read ahead."""
    ahead = OnceTask.objects.filter(
        executor__in=owners, status=Task.Status.ACTIVE, start_at__gt=now, start_at__lt=until
    )
    starts = ahead.order_by("start_at").values_list("start_at", flat=True)
    beyond = list(starts[_MAX_AHEAD : _MAX_AHEAD + 1])
    return beyond[0] if beyond else until


def past_of(user: int | None, candidates: Iterable[Candidate]) -> Past:
    """What has been handed out of these, to the user and in all."""
    past = Past(handed={}, latest={})
    rest = iter(candidates)
    while chunk := list(islice(rest, _CHUNK)):
        if user is None:
            past.handed.update(handed_of(chunk))
            continue
        handed, latest = facts_of(user, chunk)
        past.handed.update(handed)
        past.latest.update(latest)
    return past


def _count_members(past: Past, tasks: Iterable[Planned | Held], known: list[Candidate]) -> None:
    """Of what goes to every member, count the members, and who of them has had it."""
    past.people = members_of(_owner_of_all(each) for each in tasks)
    to_all = [(each.identity, owner) for each in known if (owner := _owner_of_all(each))]
    past.had.update(had_by_members(each for each in to_all if past.handed.get(each[0])))


def _owner_of_all(task: Planned | Held | Candidate) -> int | None:
    """The executor whose members all get the task, once each; None for other tasks."""
    return task.owner if task.policy.dispatch_times is None else None


def open_dispatch(state: ExecutorState) -> Dispatch | None:
    """The open dispatch of the user."""
    if state.open_dispatch is None:
        return None
    dispatches = Dispatch.objects.defer("params", "result", "message")
    return dispatches.filter(pk=state.open_dispatch.pk, state=Dispatch.State.OPEN).first()


def held_of(dispatch: Dispatch) -> Held:
    """An open dispatch as the rules see it, with the present policy of its task."""
    task = TASK_MODELS[dispatch.source].objects.planning().get(pk=dispatch.task)
    return Held(
        number=dispatch.pk,
        identity=(dispatch.source, dispatch.task, dispatch.occurrence),
        occurrence_at=dispatch.occurrence_at,
        deadline_at=dispatch.deadline_at,
        rounds=dispatch.round + 1,
        policy=task.policy,
        priority=task.priority,
        owner=task.executor_id,
    )


def candidates_of(held: Held | None) -> list[Candidate]:
    """The open dispatch, whose task the plan may no longer have."""
    if held is None:
        return []
    planned = (held.priority, held.occurrence_at, *held.identity)
    return [Candidate(*planned, None, held.policy, held.owner, 0)]


def _titles_of(steps: Iterable[Step]) -> dict[tuple[str, int], str]:
    wanted: dict[str, set[int]] = {}
    for step in steps:
        wanted.setdefault(step.source, set()).add(step.task)
    return {
        (source, pk): title
        for source, pks in wanted.items()
        for pk, title in TASK_MODELS[source].objects.filter(pk__in=pks).values_list("pk", "title")
    }
