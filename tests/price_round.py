"""`demo --flow`: six weekly price rounds that are over, and a seventh that stands half done: five
of six photographers are done and nine of twelve recognitions, one has failed, and one runs; nobody
has released the prices.

The clock of this process goes through the weeks before. The services of the platform do what people
and programs do, so that rows have the times of those days.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any
from unittest.mock import patch

from django.core.management.base import CommandError

from apps.common import clock
from apps.common.db import transactional
from apps.dispatch.models import Dispatch
from apps.dispatch.services.pull import answer_pull, call_back
from apps.flows.handlers import starter
from apps.flows.models import FlowRun, FlowStep
from apps.flows.services.advance import advance
from apps.flows.services.control import finish
from apps.flows.services.start import start
from apps.jobs.models import Job
from apps.jobs.rules.outcome import Outcome
from apps.jobs.services.hold import HeldJob, Holder, hold
from apps.jobs.services.promote import promote_due
from apps.jobs.services.register import touch
from apps.jobs.services.settle import settle
from apps.schedules.models import Schedule
from apps.schedules.services.schedules import run_now
from taskplatform.demo import price_round as demo
from taskplatform.demo.company import ACTOR, PEOPLE, PRICE_ROUND
from tests import history
from tests.frozen import FrozenClock

WEEK = timedelta(days=7)
MINUTE = timedelta(minutes=1)
# How long the rounds before took, oldest first: 1 h 20 min, as a rule.
TOOK = (78, 84, 80, 76, 82, 80)
# The rounds before in which a photo was too dark.
DARK = (1, 4)
SO_FAR = 42 * MINUTE
# Not the worker that `demo --trouble` loses: that one stays silent.
WORKER = Holder("shop-3", "shop-3")
# Who is still at it.
LAST = "uid_hugo"
PHOTOS: list[str] = demo.PARAMS["photos"]


def play() -> FlowRun:
    """Play the rounds on a platform that has had none; the one that stands."""
    now = clock.now()
    first = now - len(TOOK) * WEEK - SO_FAR
    with patch.object(clock, "now", FrozenClock(first)) as frozen:
        run = play_up_to(frozen, now)
    history.add_up_since(first)
    return run


@transactional
def play_up_to(frozen: FrozenClock, now: datetime) -> FlowRun:
    """The same, by a clock that stands before the first."""
    if FlowRun.objects.filter(flow=demo.NAME).exists():
        raise CommandError("There are rounds already.")
    demo.plan_flow()
    touch(client="", name=WORKER.name, host=WORKER.host, types=[*PRICE_ROUND["types"]])
    for place, minutes in enumerate(TOOK):
        frozen.move_to(now - (len(TOOK) - place) * WEEK - SO_FAR)
        _whole(frozen, minutes, is_dark=place in DARK)
    frozen.move_to(now - SO_FAR)
    run = _half(frozen, now)
    # Planned six weeks ago, it has missed nothing.
    for schedule in Schedule.objects.filter(job_type=demo.START):
        schedule.next_at = next(iter(schedule.recurrence.after(now)))
        schedule.save(update_fields=["next_at"])
    return run


# --- rounds that are over -------------------------------------------------------------------------
def _whole(frozen: FrozenClock, minutes: int, *, is_dark: bool) -> None:
    ends = frozen.instant + minutes * MINUTE
    run = _started()
    _photograph(frozen, run, demo.PEOPLE_WANTED)
    advance(run)
    go_on(frozen, run, until=ends, dark=PHOTOS[4] if is_dark else "")
    if (status := FlowRun.objects.get(pk=run).status) != "succeeded":
        raise CommandError(f"Round {run} has {status}.")


def go_on(frozen: FrozenClock, run: int, *, until: datetime, dark: str) -> None:
    """Recognise what is left, and so on up to the end of the run; one photo may be too dark."""
    for held in _held(demo.RECOGNISE):
        frozen.advance(seconds=20)
        _end(held, result=_read(held, dark))
    advance(run)
    [sort] = _held(demo.SORT)
    frozen.advance(seconds=2)
    places = [each["place"] for each in sort.context["results"] if not each["readable"]]
    prices = sum(each.get("prices", 0) for each in sort.context["results"])
    found = {"places": places, "dark": bool(places), "prices": prices}
    _end(sort, result=found)
    advance(run)
    if dark:
        again = _handed_out(run, "again")
        frozen.advance(minutes=6)
        _call_back(again, {"photos": again.params["photos"]})
        advance(run)
    review = _handed_out(run, "review")
    finish(run=FlowRun.objects.get(pk=run), step="release", actor=ACTOR)
    frozen.move_to(until - MINUTE)
    _call_back(review, {"prices": prices, "agreed": True})
    advance(run)
    [report] = _held(demo.REPORT)
    frozen.move_to(until)
    _end(report, result={"shop": demo.PARAMS["shop"], "photos": len(PHOTOS)})
    advance(run)


# --- the one that stands --------------------------------------------------------------------------
def _half(frozen: FrozenClock, now: datetime) -> FlowRun:
    run = _started()
    _photograph(frozen, run, demo.PEOPLE_WANTED - 1)
    frozen.move_to(now - 34 * MINUTE)
    *good, failing, slow, none = _held(demo.RECOGNISE)
    for held in good[:5]:
        frozen.advance(minutes=1, seconds=30)
        _end(held, result=_read(held))
    frozen.move_to(now - 22 * MINUTE)
    _handed_out(run, "photos", first=LAST)
    for held in good[5:]:
        frozen.advance(minutes=1)
        _end(held, result=_read(held))
    # There is no photo of these places yet.
    _end(slow, "yielded", delay=now - timedelta(seconds=28) - frozen.instant)
    _end(none, "yielded", delay=now + 10 * MINUTE - frozen.instant)
    frozen.move_to(now - timedelta(minutes=15, seconds=2))
    for place in range(3):
        _end(failing, "failed", error=demo.ERROR)
        if place < 2:
            frozen.advance(seconds=80)
            [failing] = _held(demo.RECOGNISE)
    frozen.move_to(now - timedelta(seconds=27))
    _held(demo.RECOGNISE)
    frozen.move_to(now)
    advance(run)
    return FlowRun.objects.get(pk=run)


# --- what people and programs do ------------------------------------------------------------------
def _started() -> int:
    """A run as the job of the schedule starts it."""
    schedule = Schedule.objects.get(job_type=demo.START)
    job = run_now(schedule=schedule, actor=ACTOR).job
    [held] = [each for each in _held(demo.START) if each.id == job]
    said: dict[str, Any] = held.context
    made = start(said["flow"], said["params"], key=said["key"], by=starter(held.key, held.id))
    _end(held, result={"run": str(made.id), "created": made.created})
    return made.id


def _photograph(frozen: FrozenClock, run: int, people: int) -> None:
    """So many take their photos at once, and are done one after the other."""
    taken = [_handed_out(run, "photos") for _ in range(people)]
    for place, dispatch in enumerate(taken):
        frozen.advance(minutes=2)
        share = PHOTOS[place * demo.SHARE :][: demo.SHARE]
        _call_back(dispatch, {"photos": share})


def _handed_out(run: int, step: str, *, first: str = "") -> Dispatch:
    """The task of a step for somebody who has nothing else to do."""
    wanted = FlowStep.objects.get(run=run, name=step).task
    busy = {*Dispatch.objects.filter(state="open").values_list("executor__name", flat=True)}
    had = {*Dispatch.objects.filter(task=wanted).values_list("executor__name", flat=True)}
    kept = {LAST} if step != "review" and not first else set()
    for uid in [first or "uid_ann", *PEOPLE]:
        if uid in busy | had | kept:
            continue
        answer = answer_pull(uid)
        if isinstance(answer, Dispatch) and answer.task == wanted:
            return answer
        if isinstance(answer, Dispatch):
            raise CommandError(f"{uid} gets {answer.title}; play the rounds before other tasks.")
    raise CommandError(f"Nobody gets the task of {step}.")


def _call_back(dispatch: Dispatch, result: Mapping[str, Any]) -> None:
    call_back(dispatch.executor.name, dispatch.pk, "succeeded", result=dict(result))


def _held(type_: str) -> list[HeldJob]:
    promote_due()
    return hold(holder=WORKER, types=[type_], limit=len(PHOTOS))


def _end(held: HeldJob, how: str = "succeeded", **details: Any) -> None:
    outcome: Outcome = held.ended(how, **details)
    [answer] = settle(outcomes=[outcome])
    if not isinstance(answer, str):
        raise CommandError(f"Job {held.id}: {answer}")


def _read(held: HeldJob, dark: str = "") -> Mapping[str, Any]:
    place = held.context["item"]
    if place == dark:
        return {"place": place, "readable": False}
    return {"place": place, "readable": True, "prices": 24}


def jobs_of(run: FlowRun, step: str) -> Any:
    """The jobs of a step."""
    return Job.objects.filter(part_of=FlowStep.objects.get(run=run, name=step).pk)
