"""The facts that decide about hand-outs to executors ahead, read for all executors together."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import chain

from apps.common.db import fetch_each, instant, placeholders, table
from apps.dispatch.models import TASK_MODELS, Dispatch, Executor, OnceTask, Task
from apps.dispatch.rules.past import Held, Past
from apps.dispatch.rules.plan import Planned
from apps.dispatch.rules.policy import FINISH, KEEP, SINGLE, Policy
from apps.dispatch.rules.preview import Item, steps_of_group, steps_of_user
from apps.dispatch.rules.queue import Candidate, Queue, Starts
from apps.dispatch.rules.window import Window
from apps.dispatch.services.executor_state import ExecutorState, states_of
from apps.dispatch.services.past import past_in_all, pasts_of
from apps.dispatch.services.queue import plan_of, window_at

# Once tasks of an executor read beyond those that are due already.
MAX_AHEAD = 2000
# The policy of a dispatch whose task is gone: nothing more is to be handed out.
_NO_POLICY = Policy(
    mode=SINGLE,
    dispatch_times=0,
    lease_seconds=0,
    on_failure=FINISH,
    on_expiry=KEEP,
    max_rounds=1,
)


@dataclass(frozen=True, kw_only=True)
class Outlook:
    """The data of a preview of an executor from `now` to before `until`.

    `is_cut`: there are more tasks than are read, so `until` is earlier than requested. `owners`
    are the executors whose tasks reach it. Outlooks that are read together share `starts`.
    """

    now: datetime
    until: datetime
    is_cut: bool
    is_group: bool
    owners: frozenset[int]
    plan: tuple[Planned, ...]
    starts: Starts
    frame: Window
    past: Past
    held: Held | None

    def changed(self, planned: Planned, *, is_active: bool) -> Outlook:
        """The outlook with another version of that task, if the task reaches this executor."""
        key = (planned.source, planned.task)
        plan = tuple(each for each in self.plan if (each.source, each.task) != key)
        if is_active and planned.owner in self.owners:
            plan = (*plan, planned)
        held = None if self.held is None else self.held.with_plan(planned)
        return replace(self, plan=plan, held=held)

    def steps(self) -> Iterator[Item]:
        """The hand-outs one by one, lazily."""
        queue = Queue(self.plan, frame=self.frame, now=self.now, starts=self.starts)
        past = self.past.copy()
        if self.is_group:
            return steps_of_group(queue, past, now=self.now, until=self.until, windows=window_at)
        return steps_of_user(
            queue, past, self.held, now=self.now, until=self.until, windows=window_at
        )


def outlooks(
    executors: Sequence[Executor],
    *,
    until: datetime,
    now: datetime,
    besides: Planned | None = None,
) -> list[Outlook]:
    """The outlooks of the executors, in their order, with the past of the task `besides`.

    However many they are, each kind of fact is read once for all, in blocks.
    """
    users = [each.pk for each in executors if not each.is_group]
    states = states_of(users)
    owners = {each.pk: _owners_of(each, states.get(each.pk)) for each in executors}
    held = held_of(states.values())
    ends = _ends_of_reading(owners, now, until)
    frames = {pk: Window(window_at(now).lower, end) for pk, end in ends.items()}
    plans = _plans_of(owners, frames, now)
    changed = [] if besides is None else [besides]
    starts = Starts(now)
    # Executors share most tasks, each of which may have a thousand candidates.
    reach = {pk: [(frames[pk], each) for each in (*plan, *changed)] for pk, plan in plans.items()}
    ahead = {
        (frame, planned): [*Queue([planned], frame=frame, now=now, starts=starts)]
        for frame, planned in {*chain.from_iterable(reach.values())}
    }
    own = {pk: candidates_of(held.get(pk), besides) for pk in reach}
    candidates = [*chain(*ahead.values(), *own.values())]
    in_all = past_in_all(candidates, {planned for _frame, planned in ahead})
    had = {
        key: [each for each in some if each.identity in in_all.handed]
        for key, some in ahead.items()
    }
    pasts = pasts_of(
        {pk: [*chain.from_iterable(map(had.__getitem__, reach[pk])), *own[pk]] for pk in users},
        in_all,
    )
    return [
        Outlook(
            now=now,
            until=ends[each.pk],
            is_cut=ends[each.pk] < until,
            is_group=each.is_group,
            owners=frozenset(owners[each.pk]),
            plan=plans[each.pk],
            starts=starts,
            frame=frames[each.pk],
            past=pasts.get(each.pk, in_all),
            held=held.get(each.pk),
        )
        for each in executors
    ]


def _owners_of(executor: Executor, state: ExecutorState | None) -> list[int]:
    """The executors whose tasks reach it; nobody's reach one that is disabled or gone."""
    if executor.is_group:
        return [executor.pk] if executor.enabled else []
    return state.owners if state is not None and state.enabled else []


def _ends_of_reading(
    owners: Mapping[int, Sequence[int]], now: datetime, until: datetime
) -> dict[int, datetime]:
    """The end of reading for each executor: `until`, or the start of the once task before which
    there are MAX_AHEAD others."""
    asked = [
        (
            f"SELECT %s, start_at FROM {table(OnceTask)} "
            f"WHERE executor_id IN ({placeholders(len(some))}) AND status = %s "
            f"AND start_at > %s AND start_at < %s ORDER BY start_at LIMIT 1 OFFSET {MAX_AHEAD}",
            [pk, *some, Task.Status.ACTIVE.value, now, until],
        )
        for pk, some in owners.items()
        if some
    ]
    beyond = {pk: instant(start_at) for pk, start_at in fetch_each(asked)}
    return {pk: max(now, beyond.get(pk) or until) for pk in owners}


def _plans_of(
    owners: Mapping[int, Sequence[int]], frames: Mapping[int, Window], now: datetime
) -> dict[int, tuple[Planned, ...]]:
    """The tasks that reach each executor within its frame; mostly all have the same frame."""
    plans: dict[int, tuple[Planned, ...]] = {}
    for frame in set(frames.values()):
        asked = [pk for pk in owners if frames[pk] == frame]
        everybody = sorted({owner for pk in asked for owner in owners[pk]})
        of_owner: dict[int | None, list[Planned]] = {}
        for planned in plan_of(everybody, frame, now=now) if everybody else ():
            of_owner.setdefault(planned.owner, []).append(planned)
        for pk in asked:
            plans[pk] = tuple(each for owner in owners[pk] for each in of_owner.get(owner, ()))
    return plans


# --- open dispatches -----------------------------------------------------------------------------
def held_of(states: Iterable[ExecutorState]) -> dict[int, Held]:
    """The open dispatches of users as the rules see them, by user, with the present policies of
    their tasks; also of one whose task somebody has removed from the database."""
    numbers = [each.open_dispatch.pk for each in states if each.open_dispatch is not None]
    if not numbers:
        return {}
    rows = Dispatch.objects.filter(pk__in=numbers, state=Dispatch.State.OPEN)
    dispatches = list(rows.defer("params", "result", "message"))
    tasks: dict[tuple[str, int], Task] = {}
    for source, model in TASK_MODELS.items():
        if pks := {each.task for each in dispatches if each.source == source}:
            tasks |= {
                (source, task.pk): task for task in model.objects.planning().filter(pk__in=pks)
            }
    return {
        each.executor_id: _held_dispatch(each, tasks.get((each.source, each.task)))
        for each in dispatches
    }


def _held_dispatch(dispatch: Dispatch, task: Task | None) -> Held:
    of = Candidate(0, dispatch.occurrence_at, *dispatch.identity, None, _NO_POLICY, None, 0)
    if task is not None:
        of = of._replace(policy=task.policy, priority=task.priority, owner=task.executor_id)
    return Held(
        number=dispatch.pk,
        title=dispatch.title,
        candidate=of,
        deadline_at=dispatch.deadline_at,
        rounds=dispatch.round + 1,
        can_expire=task is not None,
    )


def candidates_of(held: Held | None, changed: Planned | None = None) -> list[Candidate]:
    """The open dispatch, whose task the plan may no longer have, as it is and as changed."""
    if held is None:
        return []
    return [held.candidate, *([] if changed is None else [held.with_plan(changed).candidate])]
