"""Checks of the promises of dispatch, on the database after a run."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime, timedelta
from itertools import pairwise
from typing import NamedTuple

from apps.common.audit import RECENT, Check, audit
from apps.dispatch.models import Dispatch, OnceTask, RotateTask
from apps.dispatch.rules import policy
from apps.dispatch.services.invariants import CHECKS
from taskplatform.demo.work import Occurrence

State = Dispatch.State

# Two web processes may read the database's time a moment apart.
CLOCKS_AGREE_WITHIN = timedelta(milliseconds=50)


class Proof(NamedTuple):
    """A promise and its breaches, none if it was kept."""

    promise: str
    breaches: Sequence[str]


def audited(checks: Iterable[Check], *, recent: int = RECENT) -> list[Proof]:
    """The promises that the audit checks."""
    proofs = []
    for each in audit(checks, recent=recent):
        title = str(each.check.title)
        promise = f"{title[0].lower()}{title[1:]} ({', '.join(each.check.invariants)})"
        proofs.append(Proof(promise, [str(breach) for breach in each.breaches]))
    return proofs


def proofs_of(work: Sequence[Occurrence], *, since: datetime, everybody_works: bool) -> list[Proof]:
    """The promises of dispatch; the run began at `since`.

    Quotas must be met if everybody works; otherwise they must not be exceeded.
    """
    off = [o for o in work if (not o.is_met if everybody_works else o.handed > o.quota)]
    dispatches = [dispatch for each in work for dispatch in each.dispatches]
    return [
        Proof(
            "every quota is met exactly" if everybody_works else "no quota is exceeded",
            [f"{o.title}: {o.handed} of {o.quota}" for o in off],
        ),
        Proof(
            "nobody was handed a task again that was over for them",
            [breach for each in work for breach in _repeats(each)],
        ),
        Proof("nobody ever had two tasks at once", list(_overlaps(dispatches, since))),
        Proof(
            "nothing is left open",
            [f"{d.executor} still has {d.title}" for d in dispatches if d.is_open],
        ),
        *audited(CHECKS),
    ]


def _repeats(work: Occurrence) -> Iterator[str]:
    before: dict[str, str] = {}
    for dispatch in sorted(work.dispatches, key=lambda each: each.round):
        name = dispatch.executor.name
        if name in before and not _may_repeat(work.task, before[name]):
            yield f"{name} got {work.title!r} again"
        before[name] = dispatch.state


def _may_repeat(task: OnceTask | RotateTask, state: str) -> bool:
    # Written out, because a check by the rule under test would prove nothing.
    return (
        state == State.RELEASED
        or (state == State.FAILED and task.on_failure != policy.FINISH)
        or (state == State.EXPIRED and task.on_expiry == policy.GIVE_BACK)
        or (
            task.mode == policy.BLOCKING and state in (State.SUCCEEDED, State.FAILED, State.EXPIRED)
        )
    )


def _overlaps(dispatches: Iterable[Dispatch], since: datetime) -> Iterator[str]:
    """Executors that were handed any task before their earlier one was over."""
    handed = Dispatch.objects.filter(
        executor__in={dispatch.executor_id for dispatch in dispatches}, dispatched_at__gte=since
    )
    ordered = handed.select_related("executor").order_by("executor", "dispatched_at", "pk")
    for earlier, later in pairwise(ordered):
        end = earlier.finished_at
        if earlier.executor_id == later.executor_id and (
            end is None or later.dispatched_at < end - CLOCKS_AGREE_WITHIN
        ):
            yield f"{later.executor} was handed {later.title} while {earlier.title} was open"
