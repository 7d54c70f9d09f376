"""Helpers of tests that start runs of flows and play the workers and people of their steps."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

from apps.common import clock
from apps.dispatch.services import pull
from apps.flows import sweeps
from apps.flows.models import FlowRun, FlowStep
from apps.flows.services.advance import advance
from apps.flows.services.start import start
from apps.jobs.models import Job
from apps.journal.models import JournalEntry, Source
from tests.frozen import FrozenClock
from tests.jobs import end, take

OLGA = {"actor": "admin:olga", "reason": "as agreed"}


def job(name: str, **more: Any) -> dict[str, Any]:
    return {"name": name, "kind": "job", "type": "mail", **more}


def jobs(name: str, each: Any, **more: Any) -> dict[str, Any]:
    return {"name": name, "kind": "jobs", "type": "mail", "each": each, **more}


def wait(name: str, **more: Any) -> dict[str, Any]:
    return {"name": name, "kind": "wait", **more}


def task(name: str, executor: str = "gid_sales", **more: Any) -> dict[str, Any]:
    return {"name": name, "kind": "task", "executor": executor, **more}


def ref(name: str, path: str = "") -> dict[str, str]:
    return {"$from": name, **({"path": path} if path else {})}


def started(*steps: dict[str, Any], params: Any = None, **more: Any) -> int:
    """A run of these steps."""
    return start("", params, definition={"steps": [*steps]}, **more).id


def run_of(number: int) -> FlowRun:
    return FlowRun.objects.get(pk=number)


def step_of(run: int, name: str) -> FlowStep:
    return FlowStep.objects.get(run=run, name=name)


def states(run: int) -> dict[str, str]:
    """The states of the steps, in the order of the definition."""
    found = dict(FlowStep.objects.filter(run=run).values_list("name", "state"))
    return {step["name"]: found[step["name"]] for step in run_of(run).definition["steps"]}


def contexts(run: int, name: str) -> list[Any]:
    step = step_of(run, name)
    return [*Job.objects.filter(part_of=step.pk).order_by("id").values_list("context", flat=True)]


def work(
    run: int, name: str = "", how: str | Callable[[Any], str] = "succeeded", **more: Any
) -> int:
    """End the open jobs of a step, or of all, and bring the run on; how many there were."""
    wanted = {"part_of": step_of(run, name).pk} if name else {"part_of__isnull": False}
    numbers = {*Job.objects.filter(status="ready", **wanted).values_list("pk", flat=True)}
    done = 0
    for held in take(limit=1000):
        if held.id in numbers:
            ending = how if isinstance(how, str) else how(held)
            end(held, ending, **(more if ending == "succeeded" else {}))
            done += 1
        else:
            end(held, "released")
    advance(run)
    return done


def failing(held: Any) -> str:
    return "failed"


def called_back(uid: str, outcome: str = "succeeded", **more: Any) -> int:
    """A pull and its end."""
    given: Any = pull.answer_pull(uid)
    pull.call_back(uid, given.pk, outcome, **more)
    return int(given.pk)


def events(run: int) -> list[str]:
    """What the journal says of the run: `step_active list`."""
    entries = JournalEntry.objects.timeline(Source.FLOW, run)
    return [f"{entry.event} {(entry.data or {}).get('step', '')}".strip() for entry in entries]


def looks(clock_: FrozenClock, seconds: float) -> None:
    """The sweep looks after so long."""
    clock_.advance(seconds=seconds)
    sweeps.look_at_due(until=clock.now() + timedelta(minutes=1))
